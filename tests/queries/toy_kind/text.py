"""Text of ``tidemark queries`` and ``tidemark explain`` about a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.pages.explain_text import Table

Facts = Mapping[str, Any]
TITLE = "samples"
HEADERS = ("query", "state", "one in", "rows", "sampled")
HEADING = ""


def cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HEADERS`` of a query."""
    return tuple(facts[name] for name in ("query", "state", "one_in", "rows", "selected"))


def plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does."""
    yield "sample", f"one row of {facts['one_in']}"


def found_in_words(facts: Facts) -> Iterator[str]:
    """Yield nothing."""
    return iter(())


def tables(facts: Facts) -> Iterator[Table]:
    """Yield nothing."""
    return iter(())


def last_tables(facts: Facts) -> Iterator[Table]:
    """Yield nothing."""
    return iter(())
