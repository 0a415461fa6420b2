"""Where a batch or a repair of a registered query has its rows from: raw, or a scan that several queries share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.scan.measurements import read_before
from lakehouse.queries.runtime.scan.readers import readers_of
from lakehouse.queries.runtime.scan.scan import Scan, read_raw

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.kind import Query
    from lakehouse.queries.runtime.batch_manifest import Span


class RowSource(Protocol):
    """The rows of a batch."""

    def rows(self, side: int) -> DataFrame:
        """Return the raw rows of a side that WHERE lets through."""

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return what the scan of a side has measured.

        Raises:
            LookupError: where no shared scan has read it.
        """

    def record_metrics(self, rows: int, results: int) -> None:
        """Record what the batch came to, right before its own metrics finish it."""


@dataclass(frozen=True)
class FromRaw:
    """Rows read for one query alone; what a predicate raises ends the job.

    ``near``: which raw rows of a side are looked at, so that no predicate is asked of the others; all if None.
    """

    spark: SparkSession
    layout: Home
    query: Query
    spans: Sequence[Span]
    near: Callable[[DataFrame, int], DataFrame] | None = None

    def rows(self, side: int) -> DataFrame:
        """Return the raw rows of a side that WHERE lets through."""
        near = (lambda raw: self.near(raw, side)) if self.near else (lambda raw: raw)
        reader = readers_of(self.query).get(side)
        if reader is None:
            read = self.query.sides[side]
            raw = near(read_raw(self.spark, self.layout, read.stream, self.spans[side]))
            return raw.where(read.where) if read.where else raw
        before = read_before(self.layout, reader, finished(self.layout, self.query.name) + 1)
        scan = Scan(
            self.spark, self.layout, (reader,), self.spans[side], {reader.name: before}, is_strict=True
        )
        return scan.rows(scan.found(near), 0)

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return nothing: only scans that are shared are measured.

        Raises:
            LookupError: always.
        """
        raise LookupError(f"side {side} of {self.query.name} was read for it alone, which measures nothing")

    def record_metrics(self, rows: int, results: int) -> None:
        """Record nothing: only scans that are shared are measured."""
