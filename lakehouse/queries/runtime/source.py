"""The source of a batch's or repair's rows: raw, or a scan that several queries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.home.table_log import Ranges, most_near
from lakehouse.home.table_reads import read_around
from lakehouse.queries.runtime import arrow_sql, arrow_sql_in_tasks
from lakehouse.queries.runtime.arrow_sql import columns_read
from lakehouse.queries.runtime.batch import read_here, read_raw
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.bucket_answers import fit_here
from lakehouse.queries.runtime.scan.measurements import read_before
from lakehouse.queries.runtime.scan.readers import Reader, readers_of
from lakehouse.queries.runtime.scan.scan import Scan

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.kind import Query
    from lakehouse.queries.runtime.batch_manifest import Span


class RowsHere(Protocol):
    """Rows of a side that WHERE passes, with columns given as SQL, in this process."""

    def select_here(self, side: int, columns: Sequence[str]) -> pa.Table:
        """Return rows; this process reads them itself if no predicate is called."""


class RowSource(RowsHere, Protocol):
    """The rows of a batch, in Spark or in this process."""

    def select(self, side: int, columns: Sequence[str]) -> DataFrame:
        """Return the same rows in Spark."""

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return the measurements of a side's scan.

        Raises:
            LookupError: if no shared scan has read it.
        """

    def record_metrics(self, rows: int, results: int) -> None:
        """Record the measurements of the batch, just before its own metrics finish it."""


@dataclass(frozen=True)
class FromRaw:
    """Rows read for one query alone; an error of a predicate ends the job.

    ``near``: which raw rows of a side are read, so that no predicate is called for the others; all if None.
    """

    spark: SparkSession
    layout: Home
    query: Query
    spans: Sequence[Span]
    near: Callable[[DataFrame, int], DataFrame] | None = None

    def select(self, side: int, columns: Sequence[str]) -> DataFrame:
        """Return rows in Spark."""
        if reader := readers_of(self.query).get(side):
            return arrow_sql_in_tasks.select(self._scanned(reader, side), columns)
        read = self.query.sides[side]
        raw = self._near(read_raw(self.spark, self.layout, read.stream, self.spans[side]), side)
        return arrow_sql_in_tasks.select(raw, columns, read.where)

    def select_here(self, side: int, columns: Sequence[str]) -> pa.Table:
        """Return the same rows in this process."""
        read = self.query.sides[side]
        if self.near or side in self.query.row_scans():
            return self.select(side, columns).toArrow()
        (after, through), texts = self.spans[side], [*columns, *filter(None, [read.where])]
        found = read_here(self.layout, read.stream, ("batch", after + 1, through), texts)
        return arrow_sql.select(arrow_sql.where(found, read.where), columns)

    def _near(self, raw: DataFrame, side: int) -> DataFrame:
        return self.near(raw, side) if self.near else raw

    def _scanned(self, reader: Reader, side: int) -> DataFrame:
        before = read_before(self.layout, reader, finished(self.layout, self.query.name) + 1)
        scan = Scan(
            self.spark, self.layout, (reader,), self.spans[side], {reader.name: before}, is_strict=True
        )
        return scan.rows(scan.found(lambda raw: self._near(raw, side)), 0)

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return nothing: only scans that are shared are measured.

        Raises:
            LookupError: always.
        """
        raise LookupError(f"side {side} of {self.query.name} was read for it alone, which measures nothing")

    def record_metrics(self, rows: int, results: int) -> None:
        """Record nothing: only scans that are shared are measured."""


@dataclass(frozen=True)
class RawNear:
    """Raw rows whose event times lie in a few disjoint ascending ranges, read by this process."""

    layout: Home
    query: Query
    spans: Sequence[Span]
    ranges: Ranges

    def fits(self) -> bool:
        """Return whether this process handles them: no predicate is called, and their files are small."""
        raw = [self.layout.raw(stream) for stream in self.query.streams]
        return not self.query.row_scans() and fit_here(
            sum(most_near(table, "event_us", self.ranges) for table in raw)
        )

    def select_here(self, side: int, columns: Sequence[str]) -> pa.Table:
        """Return the rows of a side that WHERE passes."""
        read, (after, through) = self.query.sides[side], self.spans[side]
        near = " OR ".join(f"event_us BETWEEN {low} AND {high}" for low, high in self.ranges)
        condition = f"batch > {after} AND batch <= {through} AND ({near})"
        condition += f" AND {read.where}" if read.where else ""
        names = columns_read([*columns, condition])
        rows = read_around(self.layout.raw(read.stream), "event_us", self.ranges, names)
        return arrow_sql.select(arrow_sql.where(arrow_sql.one_batch(rows), condition), columns)
