"""A join of pairs as one page: what it does, and its recall, wait and memory over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.charts.explain_charts import POINTS, memory_chart
from lakehouse.cli.pages.explain_page import whole_page
from lakehouse.queries.pairs import text
from lakehouse.queries.pairs.charts import recall_chart, wait_chart
from lakehouse.queries.pairs.explain import batches
from lakehouse.queries.pairs.state import PairsState
from lakehouse.queries.runtime.explain import Declared


def page_of(facts: Mapping[str, Any], state: PairsState, declared: Declared) -> str:
    """Return the whole page as text."""
    completeness = state.completeness
    charts = (
        recall_chart(completeness.recall_over_time(POINTS), facts["recall"]),
        wait_chart(completeness.waits_over_time(POINTS // 2)),
        memory_chart(list(batches(state))),
    )
    return whole_page(facts, text, charts)
