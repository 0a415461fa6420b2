"""A registered query as one page: what it does, and charts of it over time; works from a file, offline."""

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse.cli.pages.chart_page import chart, chart_page
from lakehouse.cli.pages.explain_text import KindText, plan_in_words

Facts = Mapping[str, Any]
POINTS = 480


def whole_page(facts: Facts, text: KindText, charts: Sequence[Facts]) -> str:
    """Return a page of what is known, the plan and its charts; before the first batch of the plan alone."""
    known = [facts["description"], *text.results(facts)] if facts["batches"] else ["nothing taken in yet"]
    plan = "\n".join(f"{name + ':':<9} {sentence}" for name, sentence in plan_in_words(facts, text))
    return chart_page(f"query {facts['query']}", known, charts if facts["batches"] else (), plan)


def batch_charts(kinds: Sequence[str], batches: Sequence[Facts]) -> list[Facts]:
    """Return charts over the same batches; of very many, those that held most."""
    step = -(-len(batches) // POINTS)
    starts = range(0, len(batches), max(1, step))
    shown = [max(batches[at : at + step], key=_most_held) for at in starts]
    return [chart(kind, rows=shown) for kind in kinds]


def _most_held(batch: Facts) -> int:
    """Return the most rows held during a batch, where the query keeps account of it, or else after it."""
    return int(batch.get("most_held", batch["held"]))
