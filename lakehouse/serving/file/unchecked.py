"""Rows that answers cannot be sure of, as a version publishes them: ranges of time, see home/doubtful.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.storage.doubtful import ranges_in_doubt


class UncheckedRange(NamedTuple):
    """Rows with a value of a measure, or rows (measure ``*``), between two event times, both included.

    ``below`` and ``above`` are the sums of values below and above zero, ``least`` and ``greatest`` their ends.
    """

    measure: str
    from_us: int
    to_us: int
    n: int
    below: float
    above: float
    least: float | None
    greatest: float | None


def ranges_through(table: Path, batch: int, reason: str) -> list[UncheckedRange]:
    """Return the ranges of a reason of batches up to one, in order; none where there is no table."""
    names, rows = UncheckedRange._fields, ranges_in_doubt(table, batch)
    return sorted(UncheckedRange(*(row[name] for name in names)) for row in rows if row["reason"] == reason)


def in_ladder(ranges: Sequence[UncheckedRange], measure: str) -> list[dict[str, Any]]:
    """Return the ranges of a measure as its rows of the ladder hold them."""
    return [
        {name: value for name, value in one._asdict().items() if name != "measure"}
        for one in ranges
        if one.measure == measure
    ]
