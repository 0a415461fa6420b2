"""Where a batch or a repair of a registered query has its rows from: raw, or a scan that several queries share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import DataFrame, SparkSession

from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.scan.measurements import read_before
from lakehouse.queries.runtime.scan.readers import readers_of
from lakehouse.queries.runtime.scan.scan import Scan, read_raw

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.registered import Query
    from lakehouse.queries.runtime.batch_manifest import Span


class Intake(Protocol):
    """The rows of a batch."""

    def rows(self, side: int) -> DataFrame:
        """Return the raw rows of a side that WHERE lets through."""

    def note(self, rows: int, results: int) -> None:
        """Note what the batch came to, right before its figures finish it."""


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

    def note(self, rows: int, results: int) -> None:
        """Note nothing: only scans that are shared are measured."""
