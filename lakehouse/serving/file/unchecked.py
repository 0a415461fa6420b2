"""Rows that may repeat others, as a version publishes them: by range of time and measure, see streams/unchecked.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.home.table_log import read_rows


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


def ranges_through(table: Path, batch: int) -> list[UncheckedRange]:
    """Return the ranges of batches up to one, in order; none where there is no table, which stays small."""
    names = UncheckedRange._fields
    ranges = (row for row in read_rows(table) if row["batch"] <= batch)
    return sorted(UncheckedRange(*(row[name] for name in names)) for row in ranges)


def in_ladder(ranges: Sequence[UncheckedRange], measure: str) -> list[dict[str, Any]]:
    """Return the ranges of a measure as its rows of the ladder hold them."""
    return [
        {name: value for name, value in one._asdict().items() if name != "measure"}
        for one in ranges
        if one.measure == measure
    ]
