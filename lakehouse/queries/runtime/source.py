"""The source of a batch's or repair's rows: raw, or a scan that several queries share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.queries.kind import Query
from lakehouse.queries.runtime.batch_manifest import Span, finished
from lakehouse.queries.runtime.scan.measurements import read_before
from lakehouse.queries.runtime.scan.readers import readers_of
from lakehouse.queries.runtime.scan.scan import Scan
from lakehouse.queries.runtime.tasks.arrow_sql import columns_read
from lakehouse.queries.runtime.tasks.reading import (
    Columns,
    Counted,
    FileRows,
    SideRows,
    TaskRows,
    near,
    raw_columns,
)
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Ranges, files_near

# Files whose statistics lie in none of so many ranges of time are not read.
MOST_RANGES = 64


class RowSource(Protocol):
    """The rows of a batch, as tasks read them."""

    def read(self, side: int, columns: Sequence[str]) -> SideRows:
        """Return rows of a side that WHERE passes, with columns given as SQL, as tasks read them."""

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return the measurements of a side's scan. Raises LookupError if no shared scan has read it."""

    def entries(self, side: int) -> pa.Table:
        """Return the entries of the parts that a side's scan has written.

        Raises LookupError if no shared scan has read it.
        """

    def record_metrics(self, rows: int, results: int) -> None:
        """Record the measurements of the batch, just before its own metrics finish it."""


@dataclass(frozen=True)
class FromRaw:
    """Rows read for one query alone; an error of a predicate ends the job.

    ``ranges``: disjoint ascending ranges of event times, beyond which tasks read no rows; None for all times.
    """

    layout: Home
    query: Query
    spans: Sequence[Span]
    ranges: Ranges | None = None

    def read(self, side: int, columns: Sequence[str]) -> SideRows:
        """Return rows as tasks read them."""
        stream, where, (after, through) = (
            self.query.sides[side].stream,
            self.query.sides[side].where,
            self.spans[side],
        )
        table, condition = self.layout.raw(stream), f"batch > {after} AND batch <= {through}"
        files = self._files(table, self.spans[side])
        if reader := readers_of(self.query).get(side):
            before = read_before(self.layout, reader, finished(self.layout, self.query.name) + 1)
            scan = Scan(self.layout, (reader,), self.spans[side], {reader.name: before}, is_strict=True)
            rows: TaskRows = scan.passed(self._near_rows(scan.rows(condition)))
        else:
            condition += f" AND {where}" if where else ""
            names = {"event_us", *columns_read([*columns, condition])}
            rows = self._near_rows(FileRows(raw_columns(self.layout, stream, names), condition))
        return SideRows(files, Columns(rows, tuple(columns)))

    def _files(self, table: Location, span: Span) -> list[Counted]:
        if self.ranges is None:
            return files_near(table, "batch", [(span[0] + 1, span[1])])
        first, last = np.array([*self.ranges], np.int64).reshape(-1, 2).T
        return files_near(table, "event_us", covering_ranges(first, last, MOST_RANGES))

    def _near_rows(self, rows: TaskRows) -> TaskRows:
        return rows if self.ranges is None else near(rows, self.ranges)

    def measured(self, side: int) -> Mapping[str, Any]:
        """Return nothing: only scans that are shared are measured. Raises LookupError: always."""
        raise LookupError(f"side {side} of {self.query.name} was read for it alone, which measures nothing")

    def entries(self, side: int) -> pa.Table:
        """Return nothing: only scans that are shared write parts. Raises LookupError: always."""
        raise LookupError(f"side {side} of {self.query.name} was read for it alone, which writes no rows")

    def record_metrics(self, rows: int, results: int) -> None:
        """Record nothing: only scans that are shared are measured."""
