"""What a rollup table contains, as the markers of its commits say: read without an engine."""

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
