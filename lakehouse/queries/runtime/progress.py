"""Progress of a query: ticks are answered, and windows kept, up to the time that all streams have passed.

A stream that is further behind than IDLE no longer holds that time back. The time follows from the manifest of a
batch and the ledgers, so a batch that runs again reaches the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine import Engine, Item
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Between, FileFacts, file_facts, read_columns

if TYPE_CHECKING:
    from lakehouse.queries.runtime.tasks.reading import FileRows

_TIME = pa.schema([("side", pa.int32()), ("time_us", pa.int64())])


class Timed(Protocol):
    """A query with a stream time.

    ``idle_us``: a stream whose newest row is further behind another's no longer holds that time back; None for never.
    ``ahead_us``: rows further ahead of their own arrival are refused; None for no limit.
    """

    @property
    def name(self) -> str:
        """The query."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The stream of each side."""

    @property
    def idle_us(self) -> int | None:
        """The limit of IDLE."""

    @property
    def ahead_us(self) -> int | None:
        """The limit of AHEAD."""


@dataclass(frozen=True)
class Progress:
    """The newest event time accepted from each side, and the time that all have passed; None before there is one."""

    newest_us: tuple[int | None, ...]
    until_us: int | None


def progress_before(layout: Home, query: Timed, batch: int) -> Progress:
    """Return how far the batches before this one have come."""
    rows = read_columns(layout.queries(query.name), ("newest_us", "time_us"), ("batch", batch - 1, batch - 1))
    if not rows:
        return Progress((None,) * len(query.streams), None)
    newest_us, until_us = rows[0]
    return Progress(tuple(newest_us), until_us)


def until_us_of(layout: Home, query: str, batch: int) -> int | None:
    """Return the time that all streams have passed after a finished batch, None before there is one."""
    rows = read_columns(layout.queries(query), ("time_us",), ("batch", batch, batch))
    return rows[0][0] if rows else None


def progress(
    engine: Engine, layout: Home, query: Timed, manifest: BatchManifest, before: Progress
) -> Progress:
    """Return how far a batch comes, from the ledgers, or with AHEAD from all its raw rows.

    Cost with AHEAD: one Spark job over the batch's files whose statistics leave open whether a clock is refused, none
    without such files; the driver gets some times of each.
    """
    if query.ahead_us is None:
        found = [
            _newest_of(layout, stream, *span)
            for stream, span in zip(query.streams, manifest.spans, strict=True)
        ]
    else:
        found = _newest_believed(engine, layout, query, manifest)
    newest = tuple(_later(one, two) for one, two in zip(before.newest_us, found, strict=True))
    return Progress(newest, _later(before.until_us, _passed(newest, query.idle_us)))


def is_refused(query: Timed) -> str:
    """Return SQL that says which rows have a clock further ahead of their own arrival than AHEAD allows."""
    if query.ahead_us is None:
        return "false"
    return f"coalesce(event_us - arrival_us > {query.ahead_us}, false)"


def _newest_of(layout: Home, stream: str, after: int, through: int) -> int | None:
    entries = read_ledger(layout, stream, after, through)
    return max((entry.max_event_us for entry in entries if entry.max_event_us is not None), default=None)


def _newest_believed(engine: Engine, layout: Home, query: Timed, manifest: BatchManifest) -> list[int | None]:
    """Return by side the newest time of the rows whose clock is accepted, whether or not WHERE passes them."""
    # It comes with compiled loops, which whoever only asks how far a query is does not wait for.
    from lakehouse.queries.runtime.tasks.reading import ITEMS, FileRows, items_of, raw_columns

    newest: list[list[int]] = [[] for _ in query.streams]
    sides, files = list[FileRows](), list[tuple[int, Location, int]]()
    for number, (stream, (after, through)) in enumerate(zip(query.streams, manifest.spans, strict=True)):
        where = f"NOT {is_refused(query)} AND batch > {after} AND batch <= {through}"
        columns = raw_columns(layout, stream, {"event_us", *arrow_sql.columns_read([where])})
        sides.append(FileRows(columns, where))
        between = "batch", after + 1, through
        for file in file_facts(layout.raw(stream), between):
            if _is_believed(file, query, between):
                newest[number].append(file.ends("event_us")[1])
            else:
                files.append((number, file.path, file.rows))
    items = items_of(files) if files else ITEMS.empty_table()
    step = f"newest times of {query.name}, batch {manifest.number}"
    for row in engine.map(items, partial(_newest, sides=sides), _TIME, step).drop_null().to_pylist():
        newest[row["side"]].append(row["time_us"])
    return [max(times, default=None) for times in newest]


def _is_believed(file: FileFacts, query: Timed, between: Between) -> bool:
    """Return whether a file's statistics show that no clock of its rows, all in between, is refused."""
    if query.ahead_us is None or not file.tells_ends(("event_us", "arrival_us"), between):
        return False
    earliest_us, newest_us = file.ends("arrival_us")[0], file.ends("event_us")[1]
    return earliest_us is None or newest_us - earliest_us <= query.ahead_us


def _newest(item: Item, *, sides: Sequence[FileRows]) -> Iterator[pa.Table]:
    for number, path in zip(item["inputs"], item["paths"], strict=True):
        for batch in sides[number].batches([path]):
            newest = pc.max(batch.column("event_us")).as_py()
            yield pa.table({"side": [number], "time_us": [newest]}, schema=_TIME)


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
