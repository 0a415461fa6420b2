"""Verdicts on a batch of files that the driver reads: plain lines are typed in Arrow, most others one by one here.

Starting one Spark job takes longer than reading a few megabytes here, and Arrow types a plain line in a fraction of
Spark's time. Spark gets only lines that neither can interpret as Spark would. Other batches are judged as ``ingest``
says: larger ones, those not of files, and those with mostly odd lines or a format that ``plain_lines`` does not know.

Rows are read, judged and written in chunks (``file_chunks``). Only hashes and times of all rows are held at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from lakehouse.algorithms.ingest.duplicates import CONFLICT
from lakehouse.home.identity_index import Hashes
from lakehouse.home.table_commits import Parts
from lakehouse.spark.session import is_local
from lakehouse.streams.batch_records import BatchRecords
from lakehouse.streams.batch_stats import BatchStats, counted_stats, lateness_of, missing_in
from lakehouse.streams.duplicates import (
    Hashed,
    conflict_detail,
    count_repeats,
    find_repeats,
)
from lakehouse.streams.file_chunks import Chunk, FileChunks, TooMuch, no_rows
from lakehouse.streams.identities import compared, hashes_of
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.lines import unreadable_lines
from lakehouse.streams.sources.manifest import layouts_of
from lakehouse.streams.sources.odd_lines import read_odd
from lakehouse.streams.sources.plain_lines import can_be_plain
from lakehouse.streams.sources.rows import typed_rows

# Larger batches need more than a gigabyte for the hashes and times of their rows.
SMALL_BYTES = 1024 * 1024 * 1024
# The tasks of a cluster have larger ones sooner.
CLUSTER_BYTES = 128 * 1024 * 1024
# Python reads this many odd lines a second.
ODD_LINES = 20_000
# Compressed files are larger than they look, and rows of wide lines larger than these.
_INFLATED, _DECODED, _WIDE = 10, 5, 5
# Spark makes JSON of this many bytes of conflicts in Parquet at a time: every row of a batch may be a conflict.
_SENT = 16 * 1024 * 1024
_BAD = pa.schema(
    {
        **dict.fromkeys(("reason", "detail"), pa.string()),
        "record": pa.binary(),
        **{"source_file": pa.string(), "source_line": pa.int64(), "source_item": pa.int32()},
    }
)


def judged_here(records: BatchRecords) -> SmallBatch | None:
    """Return the verdicts on a batch, made by the driver; None if it is too large or too few of its lines are plain."""
    if not _is_small(records):
        return None
    judged = SmallBatch(records)
    try:
        judged.read()
    except TooMuch:
        return None
    return judged


def _is_small(records: BatchRecords) -> bool:
    """Return whether the driver can read a batch."""
    source = records.stream.source
    if records.manifest.kind != "files" or not can_be_plain(records.stream):
        return False
    factor = _DECODED if source.format == "parquet" else _WIDE if source.unpivot else 1
    size = sum(f.size * (_INFLATED if f.path.endswith(".gz") else 1) for f in records.manifest.files)
    return size * factor <= _most_bytes(records)


def _most_bytes(records: BatchRecords) -> int:
    is_alone = is_local(records.tables.spark)
    return SMALL_BYTES if is_alone else min(SMALL_BYTES, CLUSTER_BYTES)


@dataclass(frozen=True)
class SmallBatch:
    """The verdicts on a batch's records: which rows are accepted, which records are rejected, and their counts."""

    records: BatchRecords

    def read(self) -> None:
        """Read the batch now, instead of when its counts or rows are first asked for.

        Raises:
            TooMuch: if it is too large, or too many of its lines are not plain.
        """
        _ = self._chunks

    def release(self) -> None:
        """Nothing is held outside this object."""

    @cached_property
    def stats(self) -> BatchStats:
        """The counts of the batch; the first call reads and parses it."""
        stream, rows, bad = self.records.stream, self._counted, self._bad
        is_record = pa.chunked_array(
            [*rows["is_record"].chunks, *pc.equal(bad["source_item"], 0).chunks], pa.bool_()
        )
        reasons = pa.chunked_array([pa.nulls(rows.num_rows, pa.string()), *bad["reason"].chunks])
        judged = pa.table({"is_record": is_record, "reason": reasons})
        is_accepted = self._is_accepted
        accepted = rows if is_accepted is None else rows.filter(pa.array(is_accepted))
        late = lateness_of(accepted, self.records.before.newest_us)
        return counted_stats(stream, judged, accepted, count_repeats(self.repeats), late)

    @cached_property
    def repeats(self) -> pa.Table | None:
        """Usable rows that repeat an accepted one; None if there are none."""
        stream, rows = self.records.stream, self._counted
        if not stream.identity:
            return None
        has_one = rows["has_hash"].to_numpy()
        if not has_one.any():
            return None
        hashes, times = rows["hash"].to_numpy(), rows["event_us"].to_numpy()[has_one]

        def rows_of(wanted: Hashes) -> pa.Table:
            return self._rows_at(np.flatnonzero(has_one & np.isin(hashes, wanted)))

        found = Hashed(self.records.manifest.batch, hashes[has_one], int(times.min()), int(times.max()))
        return find_repeats(self.records.tables, found, rows_of)

    @property
    def rejected(self) -> pa.Table:
        """Records for quarantine, conflicts included."""
        return pa.concat_tables([self._bad, self._conflicts()])

    @property
    def accepted(self) -> Parts:
        """Rows for raw, in processing order, chunk by chunk."""
        numbers = range(len(self._chunks))
        sizes = np.diff(self._offsets).tolist()
        schema = (
            self._ordered(0).schema if len(numbers) else _with_file(no_rows(self.records.stream), "").schema
        )
        return Parts(schema, [partial(self._accepted_of, number) for number in numbers], sizes)

    def _accepted_of(self, number: int) -> pa.Table:
        rows, is_accepted = self._ordered(number), self._is_accepted
        if is_accepted is None:
            return rows
        low, high = self._offsets[number : number + 2]
        return rows.filter(pa.array(is_accepted[low:high]))

    @cached_property
    def _is_accepted(self) -> npt.NDArray[np.bool_] | None:
        """Which usable rows are accepted, None if all are."""
        if self.repeats is None:
            return None
        found = np.ones(self._offsets[-1], np.bool_)
        found[self.repeats["row_id"].to_numpy()] = False
        return found

    @cached_property
    def _files(self) -> FileChunks:
        stream, files = self.records.stream, self.records.manifest.files
        return FileChunks(files, stream, _most_bytes(self.records))

    @cached_property
    def _chunks(self) -> list[Chunk]:
        return self._files.read()

    @cached_property
    def _offsets(self) -> npt.NDArray[np.int64]:
        """Before each chunk, and behind the last, how many usable rows there are."""
        counts = [chunk.count + len(self._odd.get(n, ())) for n, chunk in enumerate(self._chunks)]
        return np.cumsum([0, *counts])

    @cached_property
    def _counted(self) -> pa.Table:
        """What is counted of each usable row, in processing order, and the hash of its identity: some 30 bytes."""
        none = _with_file(no_rows(self.records.stream), "")
        # Before threads ask for them.
        _ = self._odd
        files = {path: number for number, path in enumerate({chunk.path: None for chunk in self._chunks})}

        def counted(number: int) -> pa.Table:
            return self._counted_of(self._ordered(number), files[self._chunks[number].path])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            of_chunks = pool.map(counted, range(len(self._chunks)))
            return pa.concat_tables([self._counted_of(none, 0), *of_chunks])

    def _counted_of(self, rows: pa.Table, file: int) -> pa.Table:
        stream = self.records.stream
        columns = {"event_us": rows["event_us"], "is_record": pc.equal(rows["source_item"], 0)}
        columns["file"] = pa.repeat(pa.scalar(file, pa.int32()), rows.num_rows)
        if stream.arrival_time is not None:
            columns["arrival_us"] = rows["arrival_us"]
        columns |= {f"missing_{name}": missing_in(rows, stream, name) for name in stream.all_columns}
        if stream.identity:
            hashes, has_one = hashes_of(rows, stream)
            columns |= {"hash": pa.array(hashes), "has_hash": pa.array(has_one)}
        return pa.table(columns)

    def _rows_at(self, places: npt.NDArray[np.int64]) -> pa.Table:
        """Return what is compared of the usable rows at some places, which ascend, with their place as ``row_id``."""
        stream, cuts = self.records.stream, np.searchsorted(places, self._offsets)
        found = [_with_file(no_rows(stream), "").select(compared(stream))]
        for number, (low, high) in enumerate(pairwise(cuts.tolist())):
            if low < high:
                rows = self._ordered(number).select(compared(stream))
                found.append(rows.take(pa.array(places[low:high] - self._offsets[number])))
        return pa.concat_tables(found).append_column("row_id", pa.array(places))

    def _ordered(self, number: int) -> pa.Table:
        """Return the usable rows of a chunk, in processing order."""
        chunk = self._chunks[number]
        rows, odd = _with_file(chunk.rows(), chunk.path), self._odd.get(number)
        if odd is None:
            return rows
        both = pa.concat_tables([rows, odd.select(rows.column_names)])
        order = np.lexsort((both["source_item"].to_numpy(), both["source_line"].to_numpy()))
        return both.take(pa.array(order))

    @cached_property
    def _odd(self) -> dict[int, pa.Table]:
        """The good rows of lines that are not plain, by the number of their chunk."""
        if self._others is None:
            return {}
        good = self._others.filter(self._others["reason"].is_null())
        of_chunk = np.full(good.num_rows, -1)
        of_path: dict[str, list[int]] = {}
        for number, chunk in enumerate(self._chunks):
            # What could not be read is of line 0.
            if chunk.first:
                of_path.setdefault(chunk.path, []).append(number)
        for path in pc.unique(good["source_file"]).to_pylist():
            is_of = pc.equal(good["source_file"], path).to_numpy()
            firsts = [self._chunks[number].first for number in of_path[path]]
            at = np.searchsorted(firsts, good["source_line"].to_numpy()[is_of], "right") - 1
            of_chunk[is_of] = np.array(of_path[path])[at]
        return {int(n): good.filter(pa.array(of_chunk == n)) for n in np.unique(of_chunk)}

    @cached_property
    def _bad(self) -> pa.Table:
        if self._others is None:
            return _BAD.empty_table()
        return self._others.filter(self._others["reason"].is_valid()).select(_BAD.names).cast(_BAD)

    @cached_property
    def _others(self) -> pa.Table | None:
        """The rows of lines that are not plain, None if there are none; Spark judges those without a verdict."""
        stream, files = self.records.stream, self.records.manifest.files
        layouts = layouts_of(files)
        lines = pa.concat_tables([unreadable_lines(files), *(chunk.others for chunk in self._chunks)])
        values = [_with_file(c.other_rows, c.path) for c in self._chunks if c.other_rows is not None]
        if not lines.num_rows and not values:
            return None
        schema = _with_file(no_rows(stream), "").schema
        most = ODD_LINES // max((len(layout or ()) for layout in layouts if stream.source.unpivot), default=1)
        known = read_odd(lines if lines.num_rows <= most else lines[:0], stream, layouts, schema)
        found = [known.rows]
        unknown = lines.filter(pa.array(~known.is_known)) if len(known.is_known) else lines
        if unknown.num_rows:
            # Without a job, but the plan takes half a second, and a session that is still to be started ten. In one
            # piece: Spark stops reading a table at its first empty piece behind another.
            found.append(self._by_spark(self.records.tables.spark.createDataFrame(unknown.combine_chunks())))
        if values:
            found.append(self._by_spark(self._as_lines(pa.concat_tables(values, promote_options="default"))))
        return pa.concat_tables(
            [rows.select(known.rows.column_names).cast(known.rows.schema) for rows in found]
        )

    def _by_spark(self, lines: DataFrame) -> pa.Table:
        stream = self.records.stream
        return typed_rows(
            with_fields(lines, stream, layouts_of(self.records.manifest.files)), stream
        ).toArrow()

    def _as_lines(self, rows: pa.Table) -> DataFrame:
        return self._files.lines_of(rows, self.records.tables.spark)

    def _conflicts(self) -> pa.Table:
        """Return the conflicts, with the bytes that were judged; their files may have changed."""
        if self.repeats is None:
            return _BAD.empty_table()
        found = self.repeats.filter(pc.equal(self.repeats["verdict"], CONFLICT)).sort_by("row_id")
        cuts = np.searchsorted(found["row_id"].to_numpy(), self._offsets)
        parts = [
            _lines_of(self._chunks[number], found.slice(low, high - low))
            for number, (low, high) in enumerate(pairwise(cuts.tolist()))
            if low < high
        ]
        if not parts:
            return _BAD.empty_table()
        lines = pa.concat_tables(parts, promote_options="default")
        if "record" not in lines.column_names:
            place = ["source_file", "source_line"]
            records = pa.concat_tables(
                [self._as_lines(some).select(*place, "record").toArrow() for some in _pieces(lines)]
            )
            lines = lines.select([*place, "source_item"]).join(records, place)
        said = {"reason": "conflict", "detail": conflict_detail(self.records.stream)}
        for name, text in said.items():
            lines = lines.append_column(name, pa.repeat(text, lines.num_rows))
        return lines.select(_BAD.names).cast(_BAD)


def _pieces(lines: pa.Table) -> Iterator[pa.Table]:
    """Yield the lines in pieces of at most about ``_SENT`` bytes."""
    count = -(-lines.nbytes // _SENT)
    size = -(-lines.num_rows // count)
    for low in range(0, lines.num_rows, size):
        yield lines.slice(low, size)


def _lines_of(chunk: Chunk, rows: pa.Table) -> pa.Table:
    """Return what each of some rows of a chunk was read from, with its place."""
    assert chunk.said is not None, "rows are compared"
    said = chunk.said()
    lines = said.take(pc.index_in(rows["source_line"], said["source_line"].combine_chunks()))
    return _with_file(lines, chunk.path).append_column("source_item", rows["source_item"])


def _with_file(rows: pa.Table, path: str) -> pa.Table:
    return rows.append_column("source_file", pa.repeat(pa.scalar(path), rows.num_rows))
