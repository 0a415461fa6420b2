"""Text of a selection for ``tidemark queries`` and ``tidemark explain``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.pages.explain_text import SCAN, Table, held_cells, scan_cells, state_in_words
from lakehouse.cli.pages.figures import length
from lakehouse.config.durations import format_duration

Facts = Mapping[str, Any]
TITLE = "selections"
HEADERS = (
    *("query", "state", "stream", "condition", "batches", "rows", "selected", "deadline", "misses"),
    *("longest delay", "newest", "last batch"),
)
HEADING = ""


def cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HEADERS`` of a query."""
    newest, ended = held_cells(facts)[-2:]
    return (
        *(facts["query"], state_in_words(facts), facts["from_clause"], facts["condition"], facts["batches"]),
        *(facts["rows"], facts["selected"], format_duration(facts["deadline_us"]), facts["misses"]),
        *(length(facts["worst_delay_us"]), newest, ended),
    )


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what is shown and until when, each part under its name."""
    plan = facts["plan"]
    yield "shows", ", ".join(output["name"] for output in plan["outputs"])
    yield "deadline", plan["deadline"]


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield nothing: what a selection found is in its tables."""
    return iter(())


def tables(facts: Facts) -> Iterator[Table]:
    """Yield its last batches."""
    rows = [(row["batch"], *scan_cells(row)) for row in facts["last_batches"]]
    yield Table("last batches", ("batch", *SCAN), rows)


def last_tables(facts: Facts) -> Iterator[Table]:
    """Yield nothing: no repair looks after a selection."""
    return iter(())
