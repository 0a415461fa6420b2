"""A bucket of a query's rows: its result, and its contents between two batches. No JVM.

The contents are segments of rows that entered, counters, and a copy in memory. In the table ``states`` a row is one of

    counter    part, content             its value after the batch; those of the last batch count
    segment    part, content, leave_us   rows that entered with the batch; none of them counts after leave_us
    marker     part, leave_us            segments of this part that end before this have ended with the batch

A batch writes the rows that entered. Rows that leave are not written; the markers say which. The process that ran a
bucket keeps its contents for the next batch and then reads nothing. A process that has the state of an earlier batch
reads the segments since, and one that has none reads all segments in use. A process identifies its state by the batch
and by the attempt at it, a name drawn each time a batch is run, so the memory of an attempt that died is never used.

If the number of buckets changes, the first batch of the new scale reads everything in use from the old buckets and
writes it anew in its own; later batches read only what was written since.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from lakehouse.queries.runtime.batch_manifest import Scale, Scales, changes_at
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import FileFacts

# Names of tables that buckets have rows for; kinds of query add others.
LOG, STATE = "log", "state"
# A figure of a bucket, or several.
Metric = int | Sequence[int] | None
ATTEMPTS = "attempts"
_STATE = pa.schema(
    [("bucket", pa.int32()), ("part", pa.string()), ("content", pa.binary()), ("leave_us", pa.int64())]
)
# Rows that enter together make at most this many segments plus one.
MOST_SEGMENTS = 8
# A process that is behind by more batches than this reads its buckets anew.
_REMEMBERED = 64
# A copy unused for so long is dropped: its query is deleted, or another process has the bucket.
_UNUSED_S = 600.0
# Bytes that Python, packages and the rows of a bucket take of the share of memory that each core's process has.
_TAKEN_BYTES = 448 << 20
# The limit of a process's copies by the size of their segments on disk; in memory they take up to ten times as much.
_MOST_BYTES = max(psutil.virtual_memory().total // (os.cpu_count() or 1) - _TAKEN_BYTES, 0) // 32


@dataclass(frozen=True)
class BucketResult:
    """Result of a bucket: rows by the table that they are for, whose other columns the driver knows, and metrics."""

    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)


def log_rows(log: Any, refused: pa.Table, own: Mapping[str, Any], times: Iterable[str]) -> pa.Table:
    """Return the rows that may have missed partners, then the refused rows, with ``own`` columns of both.

    ``times``: those of ``log``.
    """
    nothing = pa.nulls(refused.num_rows, pa.int64())
    columns = {
        "what": pa.array(["missed"] * len(log) + ["refused"] * refused.num_rows, pa.string()),
        "side": pa.array(np.concatenate([log.side, refused["side"].to_numpy()]).astype(np.int32)),
        **own,
        "event_us": pa.array(np.concatenate([log.event_us, refused["event_us"].to_numpy()])),
        **{name: pa.chunked_array([pa.array(getattr(log, name)), nothing]) for name in times},
    }
    return pa.table(columns)


def unpacked(content: bytes) -> pa.Table:
    """Return a table from its bytes."""
    return pa.ipc.open_stream(content).read_all()


@dataclass(frozen=True)
class Segment:
    """Rows that entered with a batch, as bytes in the kind's own format."""

    part: str
    leave_us: int
    content: bytes


@dataclass(frozen=True)
class Change:
    """The change of a bucket's state by a batch; ``alive_from``: by part, the least ``leave_us`` still in use."""

    counters: Mapping[str, bytes]
    segments: Sequence[Segment]
    alive_from: Mapping[str, int]


@dataclass(frozen=True)
class Left:
    """The state that earlier batches left of a bucket: counters, and the segments in use."""

    counters: Mapping[str, bytes]
    segments: Sequence[Segment]


class Held(Protocol):
    """The contents of a bucket, in memory."""

    def catch_up(self, counters: Mapping[str, bytes], segments: Sequence[Segment]) -> None:
        """Become the state of a later batch, from its counters and the segments since; some may have ended."""

    def take_over(self, parents: Sequence[Left], bucket: int, buckets: int) -> None:
        """Become the state of one of several new buckets, which has rows of some old ones; all of it is unwritten.

        What was learned comes from the first of the parents.
        """


H = TypeVar("H", bound=Held)
# Bucket, the batch after which segments are asked for, and the markers -> segments, in order of their batch.
ReadSegments = Callable[[int, int, Mapping[str, int]], Sequence[Segment]]


@dataclass
class BucketState(Generic[H]):
    """A bucket's state while its batch runs. ``bytes``: the size of the counters and segments in use."""

    held: H
    attempts: dict[int, str] = field(default_factory=dict)
    sizes: list[tuple[str, int, int]] = field(default_factory=list)
    bytes: int = 0
    used_at: float = 0.0

    def measure(self, segments: Sequence[Segment], change: Change) -> None:
        """Count new segments, and drop those that have ended."""
        self.sizes += [(each.part, each.leave_us, len(each.content)) for each in segments]
        self.sizes = [each for each in self.sizes if each[1] >= change.alive_from[each[0]]]
        self.bytes = sum(each[2] for each in self.sizes) + sum(map(len, change.counters.values()))


# In order of last use; buckets of several queries may run at the same time.
_KEPT: dict[tuple[str, int], BucketState[Any]] = {}
_LOCK = Lock()


@dataclass(frozen=True)
class StateBefore:
    """State that earlier batches left for the tasks of a batch.

    ``states`` names the table; ``attempt`` is drawn when the batch runs. ``scales``: the number of buckets of this
    batch and of those before it; state written under another scale than this one is not read again.
    """

    states: str
    batch: int
    attempt: str
    read: ReadSegments
    scales: Scales = (Scale(1, 1),)

    def of(self, bucket: int, rows: pa.Table, empty: Callable[[], H]) -> BucketState[H]:
        """Return a bucket's state; ``rows`` are its counters and markers after the batch before, none if it is new.

        If the scale changes, they are those of each ``parent``.
        """
        with _LOCK:
            kept = _KEPT.pop((self.states, bucket), None)
        if not rows.num_rows:
            return BucketState(empty())
        if changes_at(self.scales, self.batch):
            return self._rescaled(bucket, rows, empty())
        counters, alive_from = _taken_apart(rows)
        attempts = {int(batch): name for batch, name in json.loads(counters.pop(ATTEMPTS)).items()}
        after = max(kept.attempts, default=0) if kept else 0
        if kept is None or attempts.get(after) != kept.attempts[after]:
            kept, after = BucketState(empty()), self.scales[-1].since - 1
        if after < self.batch - 1:
            segments = self.read(bucket, after, alive_from)
            kept.held.catch_up(counters, segments)
            kept.sizes += [(each.part, each.leave_us, len(each.content)) for each in segments]
        kept.attempts = attempts
        return kept

    def _rescaled(self, bucket: int, rows: pa.Table, held: H) -> BucketState[H]:
        before, now = self.scales[-2:]
        numbers = set(rows["parent"].to_pylist())
        lefts = []
        for parent in sorted(numbers, key=lambda each: (each != bucket % before.buckets, each)):
            counters, alive_from = _taken_apart(rows.filter(pc.equal(rows["parent"], parent)))
            del counters[ATTEMPTS]
            lefts.append(Left(counters, self.read(parent, before.since - 1, alive_from)))
        held.take_over(lefts, bucket, now.buckets)
        return BucketState(held)

    def keep(self, bucket: int, state: BucketState[Any], change: Change) -> pa.Table:
        """Keep a bucket's state for the next batch; return the rows of this batch's state."""
        state.attempts[self.batch] = self.attempt
        for batch in sorted(state.attempts)[:-_REMEMBERED]:
            del state.attempts[batch]
        state.measure(change.segments, change)
        state.used_at = time.monotonic()
        with _LOCK:
            _KEPT[self.states, bucket] = state
            _drop_unused()
        return state_rows(change, state.attempts)


@dataclass(frozen=True)
class SegmentFiles:
    """Reads segments of batches before ``batch`` from files."""

    files: tuple[FileFacts, ...]
    batch: int

    def __call__(self, bucket: int, after: int, alive_from: Mapping[str, int]) -> list[Segment]:
        """Return a bucket's segments in use of batches after one, in order of their batch."""
        least = min(alive_from.values(), default=0)
        own = ("batch", after + 1, self.batch - 1), ("leave_us", least, None), ("bucket", bucket, bucket)
        files = [each.path for each in self.files if all(map(each.may_hold, own))]
        found = [row for path in files for row in self._read(path, bucket, after, alive_from)]
        return [segment for _, segment in sorted(found, key=lambda row: row[0])]

    def last(self, buckets: Sequence[int], scales: Scales) -> dict[int, pa.Table]:
        """Return the counters and markers of some buckets after the batch before.

        If the scale changes, they are those of each old bucket, the ``parent``, that has rows of a new one.
        """
        if not changes_at(scales, self.batch):
            rows = self._last(buckets)
            return {bucket: rows.filter(pc.equal(rows["bucket"], bucket)) for bucket in buckets}
        old, common = scales[-2].buckets, gcd(scales[-2].buckets, scales[-1].buckets)
        parents = {bucket: list(range(bucket % common, old, common)) for bucket in buckets}
        rows = self._last(sorted({each for own in parents.values() for each in own}))
        rows = rows.append_column("parent", rows["bucket"])
        return {
            bucket: rows.filter(pc.is_in(rows["parent"], pa.array(own, pa.int32())))
            for bucket, own in parents.items()
        }

    def _last(self, buckets: Sequence[int]) -> pa.Table:
        number, wanted = self.batch - 1, pa.array(buckets, pa.int32())
        parts = [_STATE.empty_table()]
        for each in self.files:
            if each.may_hold(("batch", number, number)) and any(
                each.may_hold(("bucket", bucket, bucket)) for bucket in buckets
            ):
                rows = _rows_of(each.path)
                is_last = pc.or_(pc.is_null(rows["leave_us"]), pc.is_null(rows["content"]))
                is_own = pc.and_(pc.equal(rows["batch"], number), pc.is_in(rows["bucket"], wanted))
                parts.append(rows.filter(pc.and_(is_last, is_own)).select(_STATE.names).cast(_STATE))
        return pa.concat_tables(parts)

    def _read(
        self, path: Location, bucket: int, after: int, alive_from: Mapping[str, int]
    ) -> list[tuple[int, Segment]]:
        rows = _rows_of(path)
        batch = rows["batch"]
        between = pc.and_(pc.greater(batch, after), pc.less(batch, self.batch))
        is_segment = pc.and_(pc.is_valid(rows["leave_us"]), pc.is_valid(rows["content"]))
        rows = rows.filter(pc.and_(pc.and_(between, is_segment), pc.equal(rows["bucket"], bucket)))
        names = ("batch", "part", "leave_us", "content")
        segments = zip(*(rows[name].to_pylist() for name in names), strict=True)
        return [(number, Segment(*own)) for number, *own in segments if own[1] >= alive_from[own[0]]]


def _rows_of(path: Location) -> pa.Table:
    with parquet.ParquetFile(source(path)) as file:
        return file.read(columns=["bucket", "part", "leave_us", "batch", "content"])


def cut_by_time(times: Any, width_us: int) -> Iterator[Any]:
    """Yield the positions of rows that form one segment each: about a width of time, or more if there were too many."""
    if not len(times):
        return
    first, last = int(times.min()), int(times.max())
    segment = (times - first) // max(width_us, (last - first) // MOST_SEGMENTS, 1)
    for each in np.unique(segment):
        yield np.flatnonzero(segment == each)


def packed_rows(table: pa.Table) -> bytes:
    """Return rows as the content of a segment."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def state_rows(change: Change, attempts: Mapping[int, str]) -> pa.Table:
    """Return the rows of a bucket's state; ``attempts``: the names of the attempts that made it, by batch."""
    counters = {**change.counters, ATTEMPTS: json.dumps(attempts).encode()}
    segments, markers = change.segments, change.alive_from
    parts = [*counters, *(each.part for each in segments), *markers]
    contents = [*counters.values(), *(each.content for each in segments), *[None] * len(markers)]
    leaves = [*[None] * len(counters), *(each.leave_us for each in segments), *markers.values()]
    return pa.table([parts, contents, leaves], schema=pa.schema([*_STATE][1:]))


def _taken_apart(rows: pa.Table) -> tuple[dict[str, bytes], dict[str, int]]:
    """Return counters and markers."""
    counters, alive_from = dict[str, bytes](), dict[str, int]()
    columns = (rows[name].to_pylist() for name in ("part", "content", "leave_us"))
    for part, content, leave_us in zip(*columns, strict=True):
        if leave_us is None:
            counters[part] = content
        elif content is None:
            alive_from[part] = leave_us
    return counters, alive_from


def _drop_unused() -> None:
    """Drop the copies that are not used any more, and the least recently used ones if there are too many."""
    now, size = time.monotonic(), sum(state.bytes for state in _KEPT.values())
    for place, state in list(_KEPT.items()):
        if now - state.used_at <= _UNUSED_S and size <= _MOST_BYTES:
            break
        size -= state.bytes
        del _KEPT[place]
