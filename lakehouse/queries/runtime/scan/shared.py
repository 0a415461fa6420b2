"""The rows of a batch out of shared scans, and what is measured of the kernel that takes them in.

A kernel is what a join or an aggregate does with the rows that its conditions let through, until its figures are there:
the last operator of its chain, behind the exchange by key.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakehouse.queries.kind import Query
from lakehouse.queries.runtime.batch_manifest import BatchManifest
from lakehouse.queries.runtime.source import FromRaw
from lakehouse.queries.runtime.tasks.reading import Columns, Counted, FileRows, SideRows
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import read_columns
from lakehouse.storage.tables.tables_place import place_at

Facts = dict[str, Any]


@dataclass(frozen=True)
class Scanned:
    """Rows that a reader lets through, as parts with some columns, and its measurements.

    ``figures``: of the whole batch, then of each of its conditions.
    """

    entries: pa.Table
    figures: list[Facts]
    columns: pa.Schema

    @property
    def files(self) -> list[Counted]:
        """The files that have the rows, with the number of rows of each."""
        paths, rows = (self.entries[name].to_pylist() for name in ("path", "rows"))
        return list(zip(map(place_at, paths), rows, strict=True))


@dataclass(frozen=True)
class Kernel:
    """Measurements of a kernel: n, rows that it handles a second, S, results a row, and n - V.

    None before the first rows.
    """

    handled_per_s: float | None = None
    selectivity: float | None = None
    priority: float | None = None


def kernel_before(layout: Home, query: str, batch: int) -> Kernel:
    """Return what the batch before this one showed."""
    names = ("side", "handled_per_s", "selectivity", "priority")
    rows = read_columns(layout.operators(query), names, ("batch", batch - 1, batch - 1))
    return next((Kernel(*row[1:]) for row in rows if row[0] is None), Kernel())


@dataclass
class Shared:
    """The rows of a batch of a query; ``scanned``: by side, those that were read in a scan."""

    layout: Home
    query: Query
    manifest: BatchManifest
    scanned: Mapping[int, Scanned]
    before: Kernel = field(default_factory=Kernel)
    begun_ns: int = 0

    @property
    def kernel(self) -> str:
        """Kernel that takes the rows in, in words."""
        return self.query.kernel or "its tables"

    @property
    def priority(self) -> float:
        """Rows that the kernel takes out a second, less those that come; highest where it has taken in none yet."""
        return float("inf") if self.before.priority is None else self.before.priority

    def begun(self) -> Shared:
        """Begin to measure the kernel."""
        self.begun_ns = time.perf_counter_ns()
        return self

    def read(self, side: int, columns: Sequence[str]) -> SideRows:
        """Return rows as tasks read them."""
        if side not in self.scanned:
            return FromRaw(self.layout, self.query, self.manifest.spans).read(side, columns)
        scanned = self.scanned[side]
        return SideRows(scanned.files, Columns(FileRows(scanned.columns), tuple(columns)))

    def measured(self, side: int) -> Facts:
        """Return what the scan of a side has measured of the whole batch."""
        return self.scanned[side].figures[0]

    def entries(self, side: int) -> pa.Table:
        """Return the entries of the parts that a side's scan has written."""
        return self.scanned[side].entries

    def record_metrics(self, rows: int, results: int) -> None:
        """Append what was measured of the conditions on each side, and of the kernel.

        Without a kernel that is all there is to tell, so it finishes the batch.
        """
        number, name, layout = self.manifest.number, self.query.name, self.layout
        if self.query.kernel is None:
            table, told = layout.queries(name), self.scanned[0].figures
        else:
            table = layout.operators(name)
            told = [{**row, "side": side} for side, each in self.scanned.items() for row in each.figures]
            told.append(self._kernel(rows, results))
        stamp = {"batch": number, "committed_at": datetime.now(UTC)}
        tables.append_rows([{**row, **stamp} for row in told], table, f"query-{name}", number)
        crash_point("queries.measured")

    def _kernel(self, rows: int, results: int) -> Facts:
        busy_us = (time.perf_counter_ns() - self.begun_ns) // 1000
        measured = self._measured(rows, results, busy_us) if rows else self.before
        counted = {"taken": rows, "passed": results, "busy_us": busy_us}
        return {"operator": 0, "name": self.kernel, **counted, **asdict(measured)}

    def _measured(self, rows: int, results: int, busy_us: int) -> Kernel:
        handled_per_s = rows * 1e6 / busy_us
        arrived_per_s = sum(each.figures[0]["arrived_per_s"] for each in self.scanned.values())
        return Kernel(handled_per_s, results / rows, handled_per_s - arrived_per_s)
