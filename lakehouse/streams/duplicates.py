"""Find the rows of a batch that repeat an accepted row without reading all of raw: first by hashes, then exactly.

    hashes of the batch's identities -> those that occur twice, or in the index of earlier batches -> suspects
    suspects, and the rows of raw with their hash -> identities and contents compared -> verdicts

Spark and Arrow hash an identity alike. Batches that the index lacks are added to it from raw.

The cost is that of the batch, of a search in the index, and of the files of raw that hold a suspect's hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.duplicates import CONFLICT, DUPLICATE, verdicts
from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.home.identity_index import LARGE, Batches, Hashes, IdentityIndex
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_ledger
from lakehouse.home.table_files import source
from lakehouse.home.table_log import files_with, read_parts
from lakehouse.spark.row_hash import xxhash64
from lakehouse.streams.batch_records import ORIGIN, StreamTables, processing_order

# Suspects are compared this many at a time: each takes about 200 bytes of memory.
_AT_ONCE = 1_000_000
_ROW = ("event_us", "batch")


@dataclass(frozen=True)
class Hashed:
    """A batch's rows by the hash of their identity: those that have one, and their earliest and latest time."""

    batch: int
    hashes: Hashes
    low: int
    high: int


def find_repeats(
    target: StreamTables, hashed: Hashed, rows_of: Callable[[Hashes], pa.Table]
) -> pa.Table | None:
    """Return the rows that are duplicates or conflicts, with their ``verdict``; None for none.

    ``rows_of`` returns the batch's usable rows with given hashes, with all columns named by ``compared``; its other
    columns are kept. The batch's own hashes are added to the index.
    """
    index = _open_index(target, hashed.batch)
    unique, counts = np.unique(hashed.hashes, return_counts=True)
    within = target.stream.duplicates_within
    known, batches = index.find(unique, hashed.low - within, hashed.high + within)
    index.add(
        *(hashed.batch, hashed.batch, unique, np.full(len(unique), hashed.batch, np.uint32)),
        (hashed.low, hashed.high),
    )
    suspects = np.union1d(unique[counts > 1], known)
    if not len(suspects):
        return None
    found = []
    for part in np.array_split(suspects, -(-len(suspects) // _AT_ONCE)):
        rows, is_known = rows_of(part), np.isin(known, part)
        earlier = _earlier(target, hashed.batch, rows, known[is_known], batches[is_known])
        found.append(judged(rows, earlier, target.stream))
    repeats = pa.concat_tables(found)
    return repeats if repeats.num_rows else None


def count_repeats(repeats: pa.Table | None) -> dict[str, int]:
    """Return how many duplicates and conflicts there are."""
    if repeats is None:
        return {}
    counts = {each["values"]: each["counts"] for each in repeats["verdict"].value_counts().to_pylist()}
    return {"duplicate": counts.get(DUPLICATE, 0), "conflict": counts.get(CONFLICT, 0)}


def conflict_detail(stream: Stream) -> str:
    """Return the detail of a conflict in quarantine."""
    return f"same identity ({', '.join(stream.identity)}) as an accepted row, other content"


def _earlier(
    target: StreamTables, batch: int, rows: pa.Table, hashes: Hashes, batches: Batches
) -> pa.Table | None:
    """Return the accepted rows with some hashes, in some batches, that are close enough in time to be duplicates."""
    if not len(hashes) or not rows.num_rows:
        return None
    stream, times = target.stream, pc.min_max(rows["event_us"]).as_py()
    low, high = times["min"] - stream.duplicates_within, times["max"] + stream.duplicates_within
    exact = np.unique(rows["event_us"].to_numpy()) if _identity_has_time(stream) else None
    numbers = np.unique(batches[batches < batch])
    wanted = _Wanted(np.unique(hashes), numbers, low, high, exact)
    raw = target.layout.raw(stream.name)
    files = files_with(raw, "batch", numbers.tolist(), ("event_us", low, high)) if len(numbers) else []
    return _rows_in(files, wanted, stream, rows.select(compared(stream)).schema)


def judged(rows: pa.Table, earlier: pa.Table | None, stream: Stream) -> pa.Table:
    """Return the rows of a batch that repeat another of its rows or an accepted ``earlier`` one, with a ``verdict``."""
    names = compared(stream)
    both = rows.select(names)
    if earlier is not None:
        both = pa.concat_tables([both, earlier.select(names).cast(both.schema)])
    known = np.arange(both.num_rows) >= rows.num_rows
    identity, payload = _codes(both, _identity_columns(stream)), _codes(both, _payload_columns(stream))
    order = processing_order(both, True, ~known, identity)
    has_identity = np.all([both[name].is_valid().to_numpy() for name in _identity_columns(stream)], axis=0)
    order = order[has_identity[order]]
    found = np.zeros(both.num_rows, np.int8)
    found[order] = verdicts(
        *(identity[order].reshape(-1, 1), payload[order], both["event_us"].to_numpy()[order], known[order]),
        stream.duplicates_within,
    )
    verdict = found[: rows.num_rows]
    return rows.append_column("verdict", pa.array(verdict)).filter(pa.array(verdict != 0))


def _codes(rows: pa.Table, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return a number per row, the same for rows that are equal in these columns; two nulls are equal."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in names:
        column = rows[name].combine_chunks()
        if pa.types.is_floating(column.type):
            # 0.0 and -0.0 are the same number.
            column = pc.add(column, 0.0)
        places = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (int(places.max(initial=0)) + 1) + places, return_inverse=True)
    return codes


def _identity_columns(stream: Stream) -> list[str]:
    """Return the columns of raw that make rows the same row."""
    return ["record_hash"] if stream.identity_is_record else list(stream.identity)


def _payload_columns(stream: Stream) -> list[str]:
    """Return what a record says; when it was received is not part of that."""
    arrival = stream.arrival_time.column if stream.arrival_time else None
    stored = () if stream.identity_is_record else stream.all_columns
    return ["event_us", *(name for name in stored if name != arrival)]


def compared(stream: Stream) -> list[str]:
    """Return the columns that decide which rows are the same and which of them came first."""
    names = [*_identity_columns(stream), *_payload_columns(stream), "event_us", "arrival_us", *ORIGIN]
    return list(dict.fromkeys(names))


def _identity_has_time(stream: Stream) -> bool:
    """Whether rows of the same identity have the same event time, to the microsecond."""
    time = stream.event_time
    if time.unit == "iso" or time.column not in stream.identity:
        # What an ISO text without an offset says depends on the time zone that was declared when it came.
        return False
    return sql_type(stream.all_columns[time.column]) in ("string", "bigint")


def hash_column(stream: Stream) -> Column:
    """Return the hash of a row's identity; null where it lacks a part: such a row is never compared."""
    names = _identity_columns(stream)
    is_complete = reduce(lambda a, b: a & b, (F.col(name).isNotNull() for name in names))
    return F.when(is_complete, F.xxhash64(*names))


def hashes_of(rows: pa.Table, stream: Stream) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the same hashes of rows in Arrow, and which rows have one."""
    columns = [rows[name].combine_chunks() for name in _identity_columns(stream)]
    has_all = np.ones(rows.num_rows, np.bool_)
    for column in columns:
        has_all &= column.is_valid().to_numpy(zero_copy_only=False)
    return xxhash64(columns, rows.num_rows).view(np.uint64), has_all


def index_before(layout: Home, stream: Stream, batch: int) -> IdentityIndex:
    """Return the index as it is, of what batches before one accepted."""
    return IdentityIndex(layout.identities(stream.name), _definition(stream), batch)


def _open_index(target: StreamTables, batch: int) -> IdentityIndex:
    """Return the index of what batches before one accepted; batches that it lacks are read from raw."""
    index = index_before(target.layout, target.stream, batch)
    for first, last in index.missing():
        for part in _parts(target, first, last):
            index_stored(target, *part)
    index.merge()
    return index


def index_stored(target: StreamTables, first: int, last: int) -> None:
    """Make what the index has of some batches of what raw holds. Memory: hashes, and the identities in a file."""
    stream = target.stream
    names = ("event_us", "batch", *_identity_columns(stream))
    hashes, numbers, times = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)], [np.empty(0, np.int64)]
    for rows in read_parts(target.layout.raw(stream.name), names, ("batch", first, last)):
        # Rows of a file from before a column was declared have no identity.
        if {*names} <= {*rows.column_names}:
            found, has_all = hashes_of(rows, stream)
            hashes.append(found[has_all])
            numbers.append(rows["batch"].to_numpy()[has_all].astype(np.uint32))
            times.append(rows["event_us"].to_numpy()[has_all])
    moments = np.concatenate(times)
    ends = (int(moments.min()), int(moments.max())) if len(moments) else (0, 0)
    index = index_before(target.layout, stream, last)
    index.add(first, last, np.concatenate(hashes), np.concatenate(numbers), ends)


def _definition(stream: Stream) -> str:
    types = {name: sql_type(column) for name, column in stream.all_columns.items()}
    text = ", ".join(f"{name} {types.get(name)}" for name in _identity_columns(stream))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _parts(target: StreamTables, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Cut batches into parts that fit into memory: their first and their last."""
    rows, start = 0, first
    for entry in read_ledger(target.layout, target.stream.name, first - 1, last):
        if rows and rows + entry.accepted > LARGE:
            yield start, entry.batch - 1
            rows, start = 0, entry.batch
        rows += entry.accepted
    yield start, last


@dataclass(frozen=True)
class _Wanted:
    """Which rows: of some hashes and batches, between two event times, or of these ``exact`` ones."""

    hashes: Hashes
    batches: Batches
    low: int
    high: int
    exact: npt.NDArray[np.int64] | None

    def near(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows have such a batch and time."""
        times = rows["event_us"].to_numpy()
        found = (times >= self.low) & (times <= self.high)
        if self.exact is not None:
            found &= np.isin(times, self.exact)
        found[found] = np.isin(rows["batch"].to_numpy()[found], self.batches)
        return np.asarray(found)


def _rows_in(files: Sequence[Path], wanted: _Wanted, stream: Stream, schema: pa.Schema) -> pa.Table:
    """Return the wanted rows of files of raw in the columns of a schema; a row group is held at a time.

    Rows are null in columns that were declared after they came.
    """
    found = [schema.empty_table()]
    for path in files:
        with pq.ParquetFile(source(path)) as file:
            there = set(file.schema_arrow.names)
            # Rows that came before a part of the identity was declared are never compared.
            if set(_identity_columns(stream)) <= there:
                found += (_rows_of(file, n, wanted, stream, schema) for n in range(file.num_row_groups))
    return pa.concat_tables(found)


def _rows_of(
    file: pq.ParquetFile, group: int, wanted: _Wanted, stream: Stream, schema: pa.Schema
) -> pa.Table:
    is_near = wanted.near(file.read_row_group(group, columns=list(_ROW)))
    if not is_near.any():
        return schema.empty_table()
    places = np.flatnonzero(is_near)
    identities = file.read_row_group(group, columns=_identity_columns(stream)).take(pa.array(places))
    hashes, has_one = hashes_of(identities, stream)
    places = places[has_one & np.isin(hashes, wanted.hashes)]
    if not len(places):
        return schema.empty_table()
    there = [name for name in schema.names if name in file.schema_arrow.names]
    rows = file.read_row_group(group, columns=there).take(pa.array(places))
    for name in set(schema.names) - set(there):
        rows = rows.append_column(name, pa.nulls(len(places), schema.field(name).type))
    return rows.select(schema.names).cast(schema)
