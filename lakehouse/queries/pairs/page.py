"""A join of pairs as one page: what it does, and its recall, wait, slack and memory over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.pages.chart_page import chart
from lakehouse.cli.pages.explain_page import POINTS, batch_charts, whole_page
from lakehouse.queries.pairs import text
from lakehouse.queries.pairs.explain import batches
from lakehouse.queries.pairs.state import PairsState
from lakehouse.queries.runtime.explain import Declared

# Of a period that is scored; a stretch without such a one has none of these.
_SCORED = ("recall", "pairs", "online", "open")


def page_of(facts: Mapping[str, Any], state: PairsState, declared: Declared) -> str:
    """Return the whole page as text."""
    completeness = state.completeness
    recall = [_worst(stretch) for stretch in completeness.recall_over_time(POINTS)]
    charts = (
        chart("recall", rows=recall, asked=facts["recall"]),
        chart("waits", rows=completeness.waits_over_time(POINTS // 2)),
        *batch_charts(("slack", "held", "memory"), [_longest(batch) for batch in batches(state)]),
    )
    return whole_page(facts, text, charts)


def _worst(stretch: Mapping[str, Any]) -> dict[str, Any]:
    worst = stretch["worst"] or {}
    return {"from_us": stretch["from_us"], "to_us": stretch["to_us"]} | {
        name: worst.get(name) for name in _SCORED
    }


def _longest(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with the longest slack that its buckets give, in place of the range of all."""
    slacks = {name: batch[name] and batch[name][1] for name in ("left_slack_us", "right_slack_us")}
    return dict(batch) | slacks
