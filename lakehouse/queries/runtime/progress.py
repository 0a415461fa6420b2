"""How far a query has come: ticks are answered, and windows kept, up to the time that all streams have passed.

A stream that is further behind than IDLE no longer holds that time back. Follows from the plan of a batch and the
ledgers, so a batch that is made again comes as far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.home.ledger import read_ledger
from lakehouse.home.table_log import read_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.home.layout import Home
    from lakehouse.queries.aggregate.query import AggregateQuery
    from lakehouse.queries.multiway.query import MultiwayQuery
    from lakehouse.queries.runtime.batch_manifest import Plan


@dataclass(frozen=True)
class Progress:
    """The newest event time believed of each side, and the time that all have passed; None before there is one."""

    newest_us: tuple[int | None, ...]
    until_us: int | None


def progress_before(layout: Home, query: AggregateQuery | MultiwayQuery, batch: int) -> Progress:
    """Return how far the batches before this one have come."""
    rows = read_columns(layout.queries(query.name), ("newest_us", "time_us"), ("batch", batch - 1, batch - 1))
    if not rows:
        return Progress((None,) * len(query.sides), None)
    newest_us, until_us = rows[0]
    return Progress(tuple(newest_us), until_us)


def progress(
    layout: Home, query: AggregateQuery | MultiwayQuery, plan: Plan, before: Progress, believed: DataFrame
) -> Progress:
    """Return how far a batch comes; ``believed`` are side and event time of all its rows whose clock is believed."""
    if query.ahead_us is None:
        found = [
            _newest_of(layout, stream, *span) for stream, span in zip(query.streams, plan.spans, strict=True)
        ]
    else:
        found = _newest_believed(believed, len(query.sides))
    newest = tuple(_later(one, two) for one, two in zip(before.newest_us, found, strict=True))
    return Progress(newest, _later(before.until_us, _passed(newest, query.idle_us)))


def _newest_of(layout: Home, stream: str, after: int, through: int) -> int | None:
    entries = read_ledger(layout, stream, after, through)
    return max((entry.max_event_us for entry in entries if entry.max_event_us is not None), default=None)


def _newest_believed(believed: DataFrame, sides: int) -> list[int | None]:
    """Return the newest time per side; one pass over the rows."""
    found = believed.groupBy("side").agg({"event_us": "max"}).collect()
    newest = {row[0]: row[1] for row in found}
    return [newest.get(side) for side in range(sides)]


def _passed(newest: Sequence[int | None], idle_us: int | None) -> int | None:
    """Return the time that all sides have passed."""
    known = [time for time in newest if time is not None]
    if not known or (idle_us is None and len(known) < len(newest)):
        return None
    if idle_us is None:
        return min(known)
    silent = max(known) - idle_us
    return min(silent if time is None else max(time, silent) for time in newest)


def _later(one: int | None, two: int | None) -> int | None:
    return max((time for time in (one, two) if time is not None), default=None)
