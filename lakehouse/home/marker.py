"""What a rollup table contains, as its commits say in rows that are no nodes: read without an engine.

Level 0 holds markers. The level's number below zero holds how many rows entered at a level, the finest that kept
their time when they came; those above the finest level came too late for the finer ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lakehouse.home.table_log import read_columns


@dataclass(frozen=True)
class Marker:
    """What a rollup table contains: ingest batches up to ``batch``, event times up to ``newest_us``."""

    newest_us: int | None
    batch: int


def read_marker(table: Path) -> Marker:
    """Return what a rollup table contains; batch 0 and no time when it is empty or missing."""
    marks = read_columns(table, ("start_us", "batch"), ("level", 0, 0))
    newest = max((time for time, _ in marks if time is not None), default=None)
    return Marker(newest, max((batch for _, batch in marks), default=0))


def read_level_counts(table: Path, levels: int) -> list[int]:
    """Return how many rows entered at each level, finest first."""
    counts = (read_columns(table, ("rows",), ("level", -level, -level)) for level in range(1, levels + 1))
    return [sum(rows for (rows,) in level) for level in counts]
