"""Progress of a query: ticks are answered, and windows kept, up to the time that all streams have passed.

A stream that is further behind than IDLE no longer holds that time back. The time follows from the manifest of a
batch and the ledgers, so a batch that runs again reaches the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from lakehouse.engine import Engine, Item
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.tables.table_log import Between, FileFacts, file_facts, read_columns

if TYPE_CHECKING:
    from lakehouse.queries.runtime.tasks.reading import SideRows, TaskRows


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


@dataclass(frozen=True)
class Clocks:
    """Progress of a batch as far as ledgers or statistics tell; ``newest_us``: by side, None for no time.

    ``slack_us``: how far the batch stays behind what all sides have passed; it never turns back.
    """

    query: Timed
    before: Progress
    newest_us: tuple[int | None, ...]
    slack_us: int = 0

    def reached(self, read: Iterable[dict[str, Any]] = ()) -> Progress:
        """Return how far the batch comes by newest times that were read, too, each with its ``side``."""
        newest = [_later(one, two) for one, two in zip(self.before.newest_us, self.newest_us, strict=True)]
        for row in read:
            newest[row["side"]] = _later(newest[row["side"]], row["event_us"])
        passed = passed_us(newest, self.query.idle_us)
        until_us = None if passed is None else passed - self.slack_us
        return Progress(tuple(newest), _later(self.before.until_us, until_us))


def progress(
    engine: Engine, layout: Home, query: Timed, manifest: BatchManifest, before: Progress
) -> Progress:
    """Return how far a batch comes, from the ledgers, or with AHEAD from all its raw rows.

    Cost with AHEAD: one Spark job over the batch's files whose statistics leave open whether a clock is refused, none
    without such files; the driver gets a time of each.
    """
    clocks, unread = clocks_of(layout, query, manifest, before)
    if not unread:
        return clocks.reached()
    from lakehouse.queries.runtime.tasks.reading import NEWEST, items_of

    items = items_of([(number, *each) for number, own in enumerate(unread) for each in own.files])
    kernel = partial(_newest, inputs=[own.rows for own in unread])
    step = f"newest times of {query.name}, batch {manifest.number}"
    return clocks.reached(engine.map(items, kernel, NEWEST, step).to_pylist())


def clocks_of(
    layout: Home, query: Timed, manifest: BatchManifest, before: Progress
) -> tuple[Clocks, list[SideRows]]:
    """Return what is known of how far a batch comes before it is read, and what is to be read to know the rest.

    Without AHEAD ledgers tell it all. With it, files whose statistics leave open whether a clock is refused are read,
    whether or not WHERE passes their rows: for each its newest time, which all tasks of a job get.
    """
    spans = list(zip(query.streams, manifest.spans, strict=True))
    if query.ahead_us is None:
        return Clocks(query, before, tuple(_newest_of(layout, name, *span) for name, span in spans)), []
    # It comes with compiled loops, which whoever only asks how far a query is does not wait for.
    from lakehouse.queries.runtime.tasks.reading import FileRows, NewestTimes, SideRows, raw_columns

    newest, unread = list[int | None](), list[SideRows]()
    for side, (stream, (after, through)) in enumerate(spans):
        between = "batch", after + 1, through
        files = file_facts(layout.raw(stream), between)
        believed = [file for file in files if _is_believed(file, query, between)]
        newest.append(max((file.ends("event_us")[1] for file in believed), default=None))
        if rest := [(file.path, file.rows) for file in files if file not in believed]:
            where = f"NOT {is_refused(query)} AND batch > {after} AND batch <= {through}"
            columns = raw_columns(layout, stream, {"event_us", *arrow_sql.columns_read([where])})
            unread.append(SideRows(rest, NewestTimes(FileRows(columns, where), side)))
    return Clocks(query, before, tuple(newest)), unread


def is_refused(query: Timed) -> str:
    """Return SQL that says which rows have a clock further ahead of their own arrival than AHEAD allows."""
    if query.ahead_us is None:
        return "false"
    return f"coalesce(event_us - arrival_us > {query.ahead_us}, false)"


def _newest_of(layout: Home, stream: str, after: int, through: int) -> int | None:
    entries = read_ledger(layout, stream, after, through)
    return max((entry.max_event_us for entry in entries if entry.max_event_us is not None), default=None)


def _is_believed(file: FileFacts, query: Timed, between: Between) -> bool:
    """Return whether a file's statistics show that no clock of its rows, all in between, is refused."""
    if query.ahead_us is None or not file.tells_ends(("event_us", "arrival_us"), between):
        return False
    earliest_us, newest_us = file.ends("arrival_us")[0], file.ends("event_us")[1]
    return earliest_us is None or newest_us - earliest_us <= query.ahead_us


def _newest(item: Item, *, inputs: Sequence[TaskRows]) -> Iterator[pa.Table]:
    for number, path in zip(item["inputs"], item["paths"], strict=True):
        yield from (pa.Table.from_batches([each]) for each in inputs[number].batches([path]))


def passed_us(newest: Sequence[int | None], idle_us: int | None) -> int | None:
    """Return the time that all sides have passed; it only grows with their newest times."""
    known = [time for time in newest if time is not None]
    if not known or (idle_us is None and len(known) < len(newest)):
        return None
    if idle_us is None:
        return min(known)
    silent = max(known) - idle_us
    return min(silent if time is None else max(time, silent) for time in newest)


def _later(one: int | None, two: int | None) -> int | None:
    return max((time for time in (one, two) if time is not None), default=None)
