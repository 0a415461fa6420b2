"""What a registered selection does, in words."""

from __future__ import annotations

from lakehouse.declare.durations import format_duration
from lakehouse.queries.kind import condition_in_words
from lakehouse.queries.selection.query import SelectionQuery


def where_in_words(query: SelectionQuery) -> str:
    """Return all conditions in the written order."""
    return " and ".join(condition_in_words(each.text) for each in query.conjuncts)


def deadline_in_words(query: SelectionQuery) -> str:
    """Return what T is, and from when it counts."""
    return f"rows are out within {format_duration(query.deadline_us)} of the start of the work on a batch"
