"""Verdicts on a batch of files that fits into memory: plain lines are typed in Arrow, most others one by one here.

Starting one Spark job takes longer than reading a few megabytes here, and Arrow types a plain line in a fraction of
Spark's time. Spark gets only lines that neither can interpret as Spark would. Other batches are judged as ``ingest``
says: larger ones, those not of files, and those with mostly odd lines or a format that ``plain_lines`` does not know.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.duplicates import CONFLICT
from lakehouse.declare.store_address import is_remote
from lakehouse.home.identity_index import Hashes
from lakehouse.streams.batch_records import BatchRecords
from lakehouse.streams.batch_stats import BatchStats, counted_stats, missing_in
from lakehouse.streams.duplicates import Hashed, conflict_detail, count_repeats, find_repeats
from lakehouse.streams.identities import compared, hashes_of
from lakehouse.streams.lateness import lateness_of, processing_order
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.lines import records_of, unreadable_lines
from lakehouse.streams.sources.manifest import LandedFile, layouts_of
from lakehouse.streams.sources.numbered import LINE_SCHEMA
from lakehouse.streams.sources.odd_lines import read_odd
from lakehouse.streams.sources.plain_lines import can_be_plain, read_plain
from lakehouse.streams.sources.rows import typed_rows
from lakehouse.streams.sources.split import NUMBERED

# The rows of a batch take about six times the bytes of its files in memory; if they are compared, its lines once more.
SMALL_BYTES = 128 * 1024 * 1024
# Lines that are not plain are read one by one, or by one core of Spark; with more of them Spark should read all lines.
OTHER_BYTES = 4 * 1024 * 1024
# Python reads this many odd lines a second.
ODD_LINES = 20_000
# Compressed files are larger than they look, and rows of wide lines larger than these.
_INFLATED, _WIDE = 10, 5
# The number of objects of a store that are read at the same time.
_WAITING = 8
_BAD = pa.schema(
    {
        **dict.fromkeys(("reason", "detail"), pa.string()),
        "record": pa.binary(),
        **{"source_file": pa.string(), "source_line": pa.int64(), "source_item": pa.int32()},
    }
)
_NO_LINES = pa.record_batch([[], [], []], schema=NUMBERED)


def judged_here(records: BatchRecords) -> SmallBatch | None:
    """Return the verdicts on a batch, made by the driver; None if it is too large or too few of its lines are plain."""
    if not _is_small(records):
        return None
    judged = SmallBatch(records)
    try:
        judged.read()
    except _TooMuch:
        return None
    return judged


def _is_small(records: BatchRecords) -> bool:
    """Return whether the driver can read a batch."""
    source = records.stream.source
    if records.manifest.kind != "files" or source.format == "parquet" or not can_be_plain(records.stream):
        return False
    size = sum(f.size * (_INFLATED if f.path.endswith(".gz") else 1) for f in records.manifest.files)
    return size * (_WIDE if source.unpivot else 1) <= SMALL_BYTES


class _TooMuch(Exception):
    """The driver cannot judge this batch."""


class _Room:
    """How many bytes of lines, and of lines that are not plain, threads may still read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines, self._others = SMALL_BYTES, OTHER_BYTES

    def take(self, lines: int, others: int) -> None:
        """Use some of the room."""
        with self._lock:
            self._lines -= lines
            self._others -= others
            if min(self._lines, self._others) < 0:
                raise _TooMuch


@dataclass(frozen=True)
class SmallBatch:
    """The verdicts on a batch's records: which rows are accepted, which records are rejected, and their counts."""

    records: BatchRecords

    def read(self) -> None:
        """Read the batch now, instead of when its counts or rows are first asked for.

        Raises:
            _TooMuch: if it does not fit into memory, or too many of its lines are not plain.
        """
        _ = self._read

    def release(self) -> None:
        """Nothing is held outside this object."""

    @cached_property
    def stats(self) -> BatchStats:
        """The counts of the batch; the first call reads and parses it."""
        stream, usable, bad = self.records.stream, self._usable, self._bad
        items = pa.chunked_array([*usable["source_item"].chunks, *bad["source_item"].chunks], pa.int32())
        reasons = pa.chunked_array([pa.nulls(usable.num_rows, pa.string()), *bad["reason"].chunks])
        rows = pa.table({"is_record": pc.equal(items, 0), "reason": reasons})
        late = lateness_of(usable, self.records.before.newest_us, None)
        return counted_stats(
            stream, rows, self._with_missing(self.accepted), count_repeats(self.repeats), late
        )

    @cached_property
    def repeats(self) -> pa.Table | None:
        """Usable rows that repeat an accepted one; None if there are none."""
        if not self.records.stream.identity:
            return None
        hashes, has_one = hashes_of(self._usable, self.records.stream)
        if not has_one.any():
            return None
        times = self._usable["event_us"].to_numpy()[has_one]

        def rows_of(wanted: Hashes) -> pa.Table:
            places = np.flatnonzero(has_one & np.isin(hashes, wanted))
            rows = self._usable.select(compared(self.records.stream)).take(pa.array(places))
            return rows.append_column("row_id", pa.array(places))

        found = Hashed(self.records.manifest.batch, hashes[has_one], int(times.min()), int(times.max()))
        return find_repeats(self.records.tables, found, rows_of)

    @property
    def rejected(self) -> pa.Table:
        """Records for quarantine, conflicts included."""
        return pa.concat_tables([self._bad, *self._conflicts()])

    @cached_property
    def accepted(self) -> pa.Table:
        """Rows for raw."""
        if self.repeats is None:
            return self._usable
        is_accepted = np.ones(self._usable.num_rows, np.bool_)
        is_accepted[self.repeats["row_id"].to_numpy()] = False
        return self._usable.filter(pa.array(is_accepted))

    def _with_missing(self, rows: pa.Table) -> pa.Table:
        stream = self.records.stream
        for measure in stream.measures:
            rows = rows.append_column(f"missing_{measure}", missing_in(rows, stream, measure))
        return rows

    @cached_property
    def _usable(self) -> pa.Table:
        """Every good row, in processing order."""
        rows, _ = self._read
        if self._others is not None:
            good = self._others.filter(self._others["reason"].is_null())
            rows = pa.concat_tables([rows, good.select(rows.column_names)])
        return rows.take(pa.array(processing_order(rows, by_arrival=False)))

    @cached_property
    def _bad(self) -> pa.Table:
        if self._others is None:
            return _BAD.empty_table()
        return self._others.filter(self._others["reason"].is_valid()).select(_BAD.names).cast(_BAD)

    @cached_property
    def _others(self) -> pa.Table | None:
        """The rows of lines that are not plain, None if there are none; Spark judges those without a verdict."""
        stream, layouts = self.records.stream, layouts_of(self.records.manifest.files)
        rows, lines = self._read
        if not lines.num_rows:
            return None
        most = ODD_LINES // max((len(layout or ()) for layout in layouts if stream.source.unpivot), default=1)
        known = read_odd(lines if lines.num_rows <= most else lines[:0], stream, layouts, rows.schema)
        unknown = lines.filter(pa.array(~known.is_known)) if len(known.is_known) else lines
        if not unknown.num_rows:
            return known.rows
        # Without a job, but the plan takes half a second, and a session that is still to be started ten. In one
        # piece: Spark stops reading a table at its first empty piece behind another.
        frame = self.records.tables.spark.createDataFrame(unknown.combine_chunks())
        judged = typed_rows(with_fields(frame, stream, layouts), stream).toArrow()
        return pa.concat_tables([known.rows, judged.select(known.rows.column_names).cast(known.rows.schema)])

    @cached_property
    def _read(self) -> tuple[pa.Table, pa.Table]:
        """The rows of plain lines, and all other lines."""
        rows, others, _ = self._parts
        return rows, others

    @cached_property
    def _parts(self) -> tuple[pa.Table, pa.Table, list[tuple[str, pa.RecordBatch]]]:
        """The rows of plain lines, all other lines, and, if rows are compared, the lines of each file."""
        stream, files, room = self.records.stream, self.records.manifest.files, _Room()
        plain = [_with_path(read_plain(_NO_LINES, stream.source.fields, stream).rows, "")]
        others, lines = [unreadable_lines(files)], list[tuple[str, pa.RecordBatch]]()
        # Arrow and numpy release the interpreter's lock while they work, and so does a wait for a store.
        with ThreadPoolExecutor(_WAITING if is_remote(stream.source.path) else os.cpu_count()) as pool:
            readable = [f for f in files if f.unreadable is None]
            for file, part in zip(
                readable, pool.map(lambda f: self._read_file(f, room), readable), strict=True
            ):
                plain += [rows for rows, _, _ in part]
                others += [odd for _, odd, _ in part]
                lines += [(file.path, read) for _, _, read in part if stream.identity]
        return pa.concat_tables(plain), pa.concat_tables(others), lines

    def _read_file(self, file: LandedFile, room: _Room) -> list[tuple[pa.Table, pa.Table, pa.RecordBatch]]:
        """Return, by piece of a file, the rows of plain lines, all other lines, and the lines themselves."""
        stream, layout = self.records.stream, layouts_of(self.records.manifest.files).index(file.fields)
        parts = []
        for lines in records_of(file.path, stream.source):
            found = read_plain(lines, file.fields, stream, file.path)
            others = _located(lines.filter(pa.array(~found.is_plain)), file, layout)
            room.take(_bytes(lines.column("record")), _bytes(others["record"]))
            parts.append((_with_path(found.rows, file.path), others, lines))
        return parts

    def _conflicts(self) -> Iterator[pa.Table]:
        """Yield the conflicts of each piece of a file, with the bytes that were judged; the file may have changed."""
        repeats = self.repeats
        if repeats is None:
            return
        found = repeats.filter(pc.equal(repeats["verdict"], CONFLICT))
        of_file = {
            path: found.filter(pc.equal(found["source_file"], path)).select(["source_line", "source_item"])
            for path in pc.unique(found["source_file"]).to_pylist()
        }
        for path, lines in self._parts[2]:
            if path in of_file:
                places = of_file[path]
                at = pc.index_in(places["source_line"], lines.column("source_line"))
                taken = lines.take(at.combine_chunks().drop_null())
                items = places["source_item"].filter(at.is_valid())
                yield _as_conflicts(taken, items, path, conflict_detail(self.records.stream))


def _bytes(texts: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(texts)).as_py() or 0


def _with_path(rows: pa.Table, path: str) -> pa.Table:
    return rows.append_column("source_file", pa.repeat(pa.scalar(path), rows.num_rows))


def _located(lines: pa.RecordBatch, file: LandedFile, layout: int) -> pa.Table:
    paths, layouts = (
        pa.repeat(file.path, lines.num_rows),
        pa.repeat(pa.scalar(layout, pa.int32()), lines.num_rows),
    )
    columns = [paths, lines.column(0), layouts, lines.column(1), lines.column(2)]
    return pa.table(columns, schema=LINE_SCHEMA)


def _as_conflicts(lines: pa.RecordBatch, items: pa.ChunkedArray, path: str, detail: str) -> pa.Table:
    said = {"reason": "conflict", "detail": detail, "source_file": path}
    columns = {name: pa.repeat(value, lines.num_rows) for name, value in said.items()}
    columns["source_item"] = items
    columns |= {name: lines.column(name) for name in ("record", "source_line")}
    return pa.table(columns).select(_BAD.names).cast(_BAD)
