"""The finished batches of a stream from its ledger, read without an engine."""

from dataclasses import dataclass
from datetime import timedelta

from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds, read_columns


@dataclass(frozen=True)
class Entry:
    """One finished batch: its rows in raw, their earliest and latest time, and the newest times up to and with it."""

    batch: int
    accepted: int
    min_event_us: int | None
    max_event_us: int | None
    newest_us: int | None
    confirmed_us: int | None


@dataclass(frozen=True)
class Extent:
    """The last batch of a ledger (0 for none), and the earliest, newest and confirmed event time (None for none)."""

    batch: int
    earliest_us: int | None
    newest_us: int | None
    confirmed_us: int | None


def read_ledger(layout: Home, stream: str, after: int = 0, through: int | None = None) -> list[Entry]:
    """Return a stream's finished batches after one, up to and with another, in order; none without a ledger."""
    names = tuple(Entry.__dataclass_fields__)
    rows = read_columns(layout.ledger(stream), names, ("batch", after + 1, through))
    return [Entry(*row) for row in sorted(rows)]


def read_extent(layout: Home, stream: str, through: int | None = None) -> Extent:
    """Return the extent of a stream's ledger, up to a batch if given; the cost does not grow with the ledger."""
    columns, known = ("batch", "min_event_us", "newest_us", "confirmed_us"), ("batch", 1, through)
    (_, batch), (earliest, _), (_, newest), (_, confirmed) = bounds(layout.ledger(stream), columns, known)
    return Extent(batch or 0, earliest, newest, confirmed)


def arrival_span_us(layout: Home, stream: str, after: int, through: int) -> int | None:
    """Return the time between the commits of two batches, in which the rows between them came; None from 0 on."""
    rows = [
        row
        for batch in (after, through)
        for row in read_columns(layout.ledger(stream), ("batch", "committed_at"), ("batch", batch, batch))
    ]
    if len(rows) < 2:
        return None
    (_, earlier), (_, later) = sorted(rows)
    span: timedelta = later - earlier
    return max(span // timedelta(microseconds=1), 1)
