"""What a stream's ledger says of its finished batches: read without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse.catalog.layout import Home
from lakehouse.catalog.table_log import read_columns


@dataclass(frozen=True)
class Entry:
    """One finished batch: its rows in raw, their earliest and latest time, and the newest up to and with it."""

    batch: int
    accepted: int
    min_event_us: int | None
    max_event_us: int | None
    newest_us: int | None


def read_ledger(layout: Home, stream: str) -> list[Entry]:
    """Return a stream's finished batches in order; none where there is no ledger."""
    names = tuple(Entry.__dataclass_fields__)
    return [Entry(*row) for row in sorted(read_columns(layout.ledger(stream), names))]


def last_batch(entries: Sequence[Entry]) -> int:
    """Return the number of the last finished batch, 0 for none."""
    return entries[-1].batch if entries else 0


def newest(entries: Sequence[Entry]) -> int | None:
    """Return the latest event time accepted."""
    return max((entry.newest_us for entry in entries if entry.newest_us is not None), default=None)


def earliest(entries: Sequence[Entry]) -> int | None:
    """Return the earliest event time accepted."""
    return min((entry.min_event_us for entry in entries if entry.min_event_us is not None), default=None)
