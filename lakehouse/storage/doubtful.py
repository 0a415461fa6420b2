"""Rows that answers cannot be sure of, as the table ``unchecked/<stream>`` has them: ranges of time, for each measure.

    repeat           accepted, and older than any memory of identities: it may repeat a row that was forgotten
    ambiguous_time   rejected, as its local time comes twice: it may be missing at either of its two moments

The second count while their records are open. A row without a measure says that those of earlier batches are closed.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lakehouse.config.durations import format_timestamp
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import read_rows

REPEAT, AMBIGUOUS = "repeat", "ambiguous_time"
# Measures of the rows themselves, and of a row that closes earlier ones.
ROWS, CLOSED = "*", ""
# Of rows that a registered query has read, or has not.
_OF_RESULTS = {
    REPEAT: "may repeat others: results of them may count twice",
    AMBIGUOUS: "in quarantine, as their local time comes twice: results of them are missing",
}


class Doubt(NamedTuple):
    """Rows of a stream in doubt for one reason: a sentence about what registered queries find, and the first time."""

    from_us: int
    sentence: str


def ranges_in_doubt(table: Location, through: int) -> list[dict[str, Any]]:
    """Return the ranges of batches up to one, without those that these batches close; some hundreds at most."""
    return without_closed(row for row in read_rows(table) if row["batch"] <= through)


def without_closed(ranges: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of the table that are ranges, without those that others of these rows close."""
    rows = list(ranges)
    closed = max((row["batch"] for row in rows if row["measure"] == CLOSED), default=0)
    return [
        row
        for row in rows
        if row["measure"] != CLOSED and (row["reason"] != AMBIGUOUS or row["batch"] >= closed)
    ]


def counted(rows: int) -> str:
    """Return a number of rows in words.

    >>> counted(1), counted(1234)
    ('1 row', '1,234 rows')
    """
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def doubts_of(layout: Home, streams: Sequence[str], since_us: int | None) -> list[Doubt]:
    """Return one for each stream and reason with rows in doubt at a time or later."""
    doubts = list[Doubt]()
    for stream in dict.fromkeys(streams):
        through = read_extent(layout, stream).batch
        ranges = [one for one in ranges_in_doubt(layout.unchecked(stream), through) if one["measure"] == ROWS]
        ranges = [one for one in ranges if since_us is None or one["to_us"] >= since_us]
        for reason, means in _OF_RESULTS.items():
            if own := [one for one in ranges if one["reason"] == reason]:
                low, high = min(one["from_us"] for one in own), max(one["to_us"] for one in own)
                between = f"from {format_timestamp(low)} to {format_timestamp(high)}"
                rows = counted(sum(one["n"] for one in own))
                doubts.append(Doubt(low, f"{rows} of {stream} {between} {means}"))
    return doubts
