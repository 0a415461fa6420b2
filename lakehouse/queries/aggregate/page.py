"""A join-aggregate as one page: what it does, and its answers, their revisions and memory over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakehouse.cli.charts.explain_charts import memory_chart
from lakehouse.cli.pages.explain_page import whole_page
from lakehouse.queries.aggregate.charts import output_chart, revisions_chart
from lakehouse.queries.aggregate.live_answers import OverTime
from lakehouse.queries.aggregate.text import aggregate_plan_in_words, answers_in_words

Facts = Mapping[str, Any]


def aggregate_page(facts: Facts, found: OverTime, batches: Iterable[Facts]) -> str:
    """Return the whole page as text."""
    charts = (
        *(output_chart(series, found.groups) for series in found.outputs),
        revisions_chart(found.revisions),
        memory_chart(list(batches)),
    )
    return whole_page(facts, answers_in_words(facts), aggregate_plan_in_words(facts), charts)
