"""A join-aggregate as one page: what it does, and its answers, their revisions and memory over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.cli.pages.chart_page import chart
from lakehouse.cli.pages.explain_page import POINTS, batch_charts, whole_page
from lakehouse.cli.pages.picture import picture_of_answers
from lakehouse.queries.aggregate import text
from lakehouse.queries.aggregate.explain import batches
from lakehouse.queries.aggregate.live_answers import over_time
from lakehouse.queries.aggregate.publish import snapshot_of
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.runtime.explain import Declared

if TYPE_CHECKING:
    from lakehouse.serving.ask.answer_series import AnswerSeries


def page_of(facts: Mapping[str, Any], state: AggregateState, declared: Declared) -> str:
    """Return the whole page as text."""
    snapshot = snapshot_of(state.layout, state.query, declared.streams, declared.published_us)
    found = over_time(snapshot, POINTS // 2)
    charts = (
        *(_output(series, found.groups) for series in found.outputs),
        chart("revisions", rows=found.revisions),
        *batch_charts(("held", "memory"), list(batches(state))),
    )
    return whole_page(facts, text, charts)


def _output(several: Sequence[AnswerSeries], groups: int) -> Mapping[str, Any]:
    """Return the chart of one output, a line for each of some of the groups; ``groups``: how many there are."""
    some = (
        f", the {len(several)} of {groups:,} groups with the greatest values" if groups > len(several) else ""
    )
    heading = f"{several[0].question.output} over event time{some}"
    return chart("series", heading=heading, **picture_of_answers(several).facts)
