"""Hashes of rows' identities, in Spark and in Arrow, and the index of those in raw, filled where it lacks some."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.home.identity_index import LARGE, Hashes, IdentityIndex
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_ledger
from lakehouse.home.table_log import read_parts
from lakehouse.spark.row_hash import xxhash64
from lakehouse.streams.batch_records import ORIGIN, StreamTables


def identity_columns(stream: Stream) -> list[str]:
    """Return the columns of raw that make rows the same row."""
    return ["record_hash"] if stream.identity_is_record else list(stream.identity)


def payload_columns(stream: Stream) -> list[str]:
    """Return what a record says; when it was received is not part of that."""
    arrival = stream.arrival_time.column if stream.arrival_time else None
    stored = () if stream.identity_is_record else stream.all_columns
    return ["event_us", *(name for name in stored if name != arrival)]


def compared(stream: Stream) -> list[str]:
    """Return the columns that decide which rows are the same and which of them came first."""
    names = [*identity_columns(stream), *payload_columns(stream), "event_us", "arrival_us", *ORIGIN]
    return list(dict.fromkeys(names))


def identity_has_time(stream: Stream) -> bool:
    """Whether rows of the same identity have the same event time, to the microsecond."""
    time = stream.event_time
    if time.unit == "iso" or time.column not in stream.identity:
        # What an ISO text without an offset says depends on the time zone that was declared when it came.
        return False
    return sql_type(stream.all_columns[time.column]) in ("string", "bigint")


def hash_column(stream: Stream) -> Column:
    """Return the hash of a row's identity; null where it lacks a part: such a row is never compared."""
    names = identity_columns(stream)
    is_complete = reduce(lambda a, b: a & b, (F.col(name).isNotNull() for name in names))
    return F.when(is_complete, F.xxhash64(*names))


def hashes_of(rows: pa.Table, stream: Stream) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """Return the same hashes of rows in Arrow, and which rows have one."""
    columns = [rows[name].combine_chunks() for name in identity_columns(stream)]
    has_all = np.ones(rows.num_rows, np.bool_)
    for column in columns:
        has_all &= column.is_valid().to_numpy(zero_copy_only=False)
    return xxhash64(columns, rows.num_rows).view(np.uint64), has_all


def index_before(layout: Home, stream: Stream, batch: int) -> IdentityIndex:
    """Return the index as it is, of what batches before one accepted."""
    return IdentityIndex(layout.identities(stream.name), _definition(stream), batch)


def open_index(target: StreamTables, batch: int) -> IdentityIndex:
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
    names = ("event_us", "batch", *identity_columns(stream))
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
    text = ", ".join(f"{name} {types.get(name)}" for name in identity_columns(stream))
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
