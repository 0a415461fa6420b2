"""Text of a selection for ``tidemark queries`` and ``tidemark explain``."""

from collections.abc import Iterator

from lakehouse.cli.pages.explain_text import LAST_BATCH, SCAN, Facts, KindText, Table, of, state_in_words
from lakehouse.cli.pages.figures import length
from lakehouse.config.durations import format_duration


def _plan(facts: Facts) -> Iterator[tuple[str, str]]:
    plan = facts["plan"]
    yield "shows", ", ".join(output["name"] for output in plan["outputs"])
    yield "deadline", plan["deadline"]


TEXT = KindText(
    title="selections",
    columns={
        **{"query": "query", "state": state_in_words, "stream": "from_clause", "condition": "condition"},
        **{"batches": "batches", "rows": "rows", "selected": "selected"},
        "deadline": of("deadline_us", format_duration),
        "misses": "misses",
        "longest delay": of("worst_delay_us", length),
        **LAST_BATCH,
    },
    plan=_plan,
    tables=(Table("last batches", "last_batches", {"batch": "batch", **SCAN}),),
)
