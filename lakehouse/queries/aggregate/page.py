"""A join-aggregate as one page: what it does, and its answers, their revisions and memory over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.charts.explain_charts import POINTS, memory_chart
from lakehouse.cli.pages.explain_page import whole_page
from lakehouse.queries.aggregate import text
from lakehouse.queries.aggregate.charts import output_chart, revisions_chart
from lakehouse.queries.aggregate.explain import batches
from lakehouse.queries.aggregate.live_answers import over_time
from lakehouse.queries.aggregate.publish import snapshot_of
from lakehouse.queries.aggregate.state import AggregateState
from lakehouse.queries.runtime.explain import Declared


def page_of(facts: Mapping[str, Any], state: AggregateState, declared: Declared) -> str:
    """Return the whole page as text."""
    snapshot = snapshot_of(state.layout, state.query, declared.streams, declared.published_us)
    found = over_time(snapshot, POINTS // 2)
    charts = (
        *(output_chart(series, found.groups) for series in found.outputs),
        revisions_chart(found.revisions),
        memory_chart(list(batches(state))),
    )
    return whole_page(facts, text, charts)
