"""Verdicts on a batch of files that the driver reads, where it is not too large.

Starting one Spark job takes longer than reading a few megabytes here. Larger batches, and those not of files, are
judged as ``ingest`` says.

Rows are read, judged and written in chunks (``file_chunks``). Only hashes and times of all rows are held at once.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
from lakehouse.streams.file_chunks import REJECTED, Chunk, FileChunks, TooMuch, no_rows
from lakehouse.streams.identities import compared, hashes_of
from lakehouse.streams.sources.parquet_rows import json_records

# Larger batches need more than a gigabyte for the hashes and times of their rows.
SMALL_BYTES = 1024 * 1024 * 1024
# The tasks of a cluster have larger ones sooner.
CLUSTER_BYTES = 128 * 1024 * 1024
# Compressed files are larger than they look, and rows of wide lines larger than these.
_INFLATED, _DECODED, _WIDE = 10, 5, 5


def judged_here(records: BatchRecords) -> SmallBatch | None:
    """Return the verdicts on a batch, made by the driver; None if it is too large."""
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
    if records.manifest.kind != "files":
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
            TooMuch: if it is too large, or too many of its records are rejected.
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
        schema = self._ordered(0).schema if len(numbers) else no_rows(self.records.stream).schema
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
        return np.cumsum([0, *(chunk.count for chunk in self._chunks)])

    @cached_property
    def _counted(self) -> pa.Table:
        """What is counted of each usable row, in processing order, and the hash of its identity: some 30 bytes."""
        none = no_rows(self.records.stream)
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
        found = [no_rows(stream).select(compared(stream))]
        for number, (low, high) in enumerate(pairwise(cuts.tolist())):
            if low < high:
                rows = self._ordered(number).select(compared(stream))
                found.append(rows.take(pa.array(places[low:high] - self._offsets[number])))
        return pa.concat_tables(found).append_column("row_id", pa.array(places))

    def _ordered(self, number: int) -> pa.Table:
        """Return the usable rows of a chunk, in processing order."""
        return self._chunks[number].rows()

    @cached_property
    def _bad(self) -> pa.Table:
        return pa.concat_tables([REJECTED.empty_table(), *(chunk.rejected for chunk in self._chunks)])

    def _conflicts(self) -> pa.Table:
        """Return the conflicts, with the bytes that were judged; their files may have changed."""
        if self.repeats is None:
            return REJECTED.empty_table()
        found = self.repeats.filter(pc.equal(self.repeats["verdict"], CONFLICT)).sort_by("row_id")
        cuts = np.searchsorted(found["row_id"].to_numpy(), self._offsets)
        parts = [
            _lines_of(self._chunks[number], found.slice(low, high - low))
            for number, (low, high) in enumerate(pairwise(cuts.tolist()))
            if low < high
        ]
        if not parts:
            return REJECTED.empty_table()
        lines = pa.concat_tables(parts)
        said = {"reason": "conflict", "detail": conflict_detail(self.records.stream)}
        for name, text in said.items():
            lines = lines.append_column(name, pa.repeat(text, lines.num_rows))
        return lines.select(REJECTED.names).cast(REJECTED)


def _lines_of(chunk: Chunk, rows: pa.Table) -> pa.Table:
    """Return the record of each of some rows of a chunk, with its place."""
    assert chunk.said is not None, "rows are compared"
    said = chunk.said()
    lines = said.take(pc.index_in(rows["source_line"], said["source_line"].combine_chunks())).combine_chunks()
    is_parquet = "row" in lines.column_names
    records = (
        json_records(pa.RecordBatch.from_struct_array(lines["row"].chunk(0)))
        if is_parquet
        else lines["record"]
    )
    found = {"record": records, "source_line": rows["source_line"], "source_item": rows["source_item"]}
    return pa.table(found | {"source_file": pa.repeat(chunk.path, rows.num_rows)})
