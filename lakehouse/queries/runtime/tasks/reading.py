"""The rows of a side as tasks read them: some files of raw, and what is evaluated of their rows, as SQL.

    driver    items_of     which files a task reads
    task      FileRows     rows of files that a condition passes, batch by batch
              Passed       those that predicates pass too
              Columns      columns of them, given as SQL

A task reads files by their paths and asks no log. Predicates of the operator's own are called in the same task.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from lakehouse.queries.runtime.scan.task import READER, Work
from lakehouse.queries.runtime.tasks import arrow_sql
from lakehouse.storage.damaged import naming
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_commits import fitted
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import Ranges
from lakehouse.storage.tables.table_reads import named_columns
from lakehouse.storage.tables.tables_place import place_at

# Rows of a file that are in memory at the same time.
BATCH_ROWS = 1 << 16
# A task reads one file, or so many small ones that they have about as many rows.
ITEM_ROWS = 1 << 17
# The newest time of a file's rows, of no bucket.
NEWEST = pa.schema([("bucket", pa.int32()), ("side", pa.int32()), ("event_us", pa.int64())])
# A file, and how many rows it has.
Counted = tuple[Location, int]
ITEMS = pa.schema(
    [("is_first", pa.bool_()), ("inputs", pa.list_(pa.int32())), ("paths", pa.list_(pa.string()))]
)


class TaskRows(Protocol):
    """Rows that a task makes of some files."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""


@dataclass(frozen=True)
class SideRows:
    """Files with the number of rows of each, and what a task makes of them."""

    files: Sequence[Counted]
    rows: TaskRows


@dataclass(frozen=True)
class FileRows:
    """Rows of files for which a condition holds; ``schema``: the columns to read, null in a file that lacks them."""

    schema: pa.Schema
    where: str | None = None

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        for path in paths:
            for batch in _batches(path, self.schema):
                yield arrow_sql.where(batch, self.where)


@dataclass(frozen=True)
class Some:
    """The rows that a function says pass."""

    rows: TaskRows
    passes: Callable[[pa.RecordBatch], np.ndarray]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.rows.schema

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        for batch in self.rows.batches(paths):
            yield batch.filter(pa.array(self.passes(batch)))


def near(rows: TaskRows, ranges: Ranges) -> Some:
    """Return the rows whose event time lies in one of some disjoint ascending ranges."""
    return Some(rows, partial(_are_near, ranges=np.array([*ranges], np.int64).reshape(-1, 2)))


def _are_near(rows: pa.RecordBatch, ranges: np.ndarray) -> np.ndarray:
    first, last = ranges.T
    event_us = rows.column("event_us").to_numpy()
    at = np.searchsorted(first, event_us, "right") - 1
    are: np.ndarray = (at >= 0) & (event_us <= last[at])
    return are


@dataclass(frozen=True)
class NewestTimes:
    """The newest event time of the rows of each file, as a row without a bucket; none of a file without rows."""

    rows: TaskRows
    side: int
    schema: pa.Schema = NEWEST

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the time of each file."""
        for path in paths:
            newest = [pc.max(batch.column("event_us")).as_py() for batch in self.rows.batches([path])]
            if times := [time for time in newest if time is not None]:
                row = {"bucket": None, "side": self.side, "event_us": max(times)}
                yield pa.RecordBatch.from_pylist([row], NEWEST)


@dataclass(frozen=True)
class Columns:
    """Columns of rows, each given as SQL."""

    rows: TaskRows
    columns: tuple[str, ...]

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        for batch in self.rows.batches(paths):
            yield arrow_sql.one_batch(arrow_sql.select(batch, self.columns))

    @property
    def schema(self) -> pa.Schema:
        """The columns with their types."""
        return arrow_sql.select(arrow_sql.one_batch(self.rows.schema.empty_table()), self.columns).schema


@dataclass(frozen=True)
class Passed:
    """Rows that the only reader of a scan lets through; its predicates are called in the task, and may raise."""

    rows: TaskRows
    work: Work

    def batches(self, paths: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some files."""
        for found in self.work.run(self.rows.batches(paths)):
            yield found.filter(pc.equal(found.column(READER), 0))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self.work.answer


def raw_columns(layout: Home, stream: str, names: Collection[str]) -> pa.Schema:
    """Return some columns of a stream's raw rows.

    Raises LookupError if a column was declared after the last rows came.
    """
    columns = named_columns(layout.raw(stream))
    if lacking := sorted(set(names) - {*columns.names}):
        raise LookupError(
            f"raw of {stream} has no {', '.join(lacking)} yet: it comes with the next ingest batch"
        )
    return pa.schema([field for field in columns if field.name in names])


def items_of(files: Iterable[tuple[int, Location, int]]) -> pa.Table:
    """Return files as items of an engine: each has some files of any input, about as many rows as a task reads well."""
    items: list[dict[str, Any]] = [{"is_first": True, "inputs": [], "paths": []}]
    rows = 0
    for number, path, count in files:
        if rows and rows + count > ITEM_ROWS:
            items.append({"is_first": False, "inputs": [], "paths": []})
            rows = 0
        items[-1]["inputs"].append(number)
        items[-1]["paths"].append(str(path.absolute()))
        rows += count
    return pa.Table.from_pylist(items, ITEMS)


def _batches(path: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    place = place_at(path)
    with naming(place), parquet.ParquetFile(source(place)) as file:
        there = set(file.schema_arrow.names)
        names = [name for name in columns.names if name in there]
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            yield arrow_sql.one_batch(fitted(pa.Table.from_batches([batch]), columns))
