"""Repairs of a registered query, one after the other: what all kinds share, around the kind's own search.

A repair processes whole batches of the query's log: all that are finished and not repaired. It is finished when its
row is in ``repairs``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from lakehouse.queries.kind import Query, kind_of
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    Scale,
    Scales,
    Span,
    finished,
    last_repair,
    read_manifest,
    reflected,
    repaired,
    require_manifest,
    require_manifests,
    write_manifest,
)
from lakehouse.queries.runtime.batch_metrics import read_log_metrics
from lakehouse.queries.runtime.logged import Logged, LoggedRows, TakenRows
from lakehouse.queries.runtime.progress import until_us_of
from lakehouse.queries.runtime.run import QueryRun, kept_since
from lakehouse.queries.runtime.source import FromRaw
from lakehouse.queries.runtime.tasks.arrow_sql import columns_read
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE
from lakehouse.queries.runtime.tasks.reading import FileRows, SideRows
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import Ranges, files_near
from lakehouse.storage.tables.table_reads import named_columns

R = TypeVar("R", bound=QueryRun[Any])
_NEVER = -(2**62)
NOTHING = {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0, "withdrawn": 0}


@dataclass(frozen=True)
class QueryRepair(ABC, Generic[R]):
    """One repair of a query. ``between_batches``: whether no batch of the query may run meanwhile.

    ``has_one_scale``: whether it ends where the number of buckets changes, because each bucket logs by what it held
    itself. ``to_horizon``: whether logged rows have missed nothing beyond their horizon.
    """

    between_batches: ClassVar[bool] = False
    has_one_scale: ClassVar[bool] = False
    to_horizon: ClassVar[bool] = False
    run: R
    manifest: BatchManifest

    @abstractmethod
    def find(self, logged: Logged) -> tuple[int, int]:
        """Append the results that logged rows missed; return their number, and that of rows that missed no other.

        These are the logged rows that raw still has, with all that can be their partners (``whole_from_us``).
        """

    @property
    @abstractmethod
    def reach_us(self) -> int:
        """Time by which partners of a logged row may be older."""

    @cached_property
    def whole_from_us(self) -> int:
        """The event time from which on raw has all partners of a logged row."""
        since_us = kept_since(self.run.layout, self.run.query)
        return _NEVER if since_us is None else since_us + self.reach_us

    @cached_property
    def time_us(self) -> int | None:
        """The stream time of the repair, None before there is one."""
        return until_us_of(self.run.layout, self.run.query.name, self.through)

    @property
    def after(self) -> int:
        """The last batch that was repaired before."""
        return self.manifest.spans[0][0]

    @property
    def through(self) -> int:
        """The last batch that this repair processes."""
        return self.manifest.spans[0][1]

    @property
    def batches(self) -> list[BatchManifest]:
        """The manifests of the batches that are repaired.

        Which of the earlier batches read a row makes no difference: a logged row came later.
        """
        folder = self.run.layout.batch_manifests(self.run.query.name)
        return require_manifests(folder, "batch", self.after, self.through)

    @cached_property
    def last(self) -> BatchManifest:
        """The manifest of the last batch that this repair processes."""
        return require_manifest(self.run.layout.batch_manifests(self.run.query.name), "batch", self.through)

    @property
    def spans(self) -> list[Span]:
        """The ingest batches of each side that batches have read so far."""
        return [(0, through) for _, through in self.last.spans]

    def source(self, logged: Logged) -> FromRaw:
        """Return the raw rows that batches so far have read, around the times of logged rows."""
        run = self.run
        return FromRaw(run.layout, run.query, self.spans, ranges=logged.ranges)

    def scales(self, source: FromRaw) -> Scales:
        """Return the numbers of buckets so far, and that of the repair where its rows are too many for those."""
        known = self.last.scales or (Scale(1, 1),)
        sides = range(len(self.run.query.sides))
        rows = sum(count for side in sides for _, count in source.read(side, ["event_us"]).files)
        # So many that a bucket has rows for one task: unlike those of batches, none is there again next time.
        buckets = self.run.cut.divided(known[-1].buckets, 2 * (rows // ROWS_A_PLACE))
        return known if buckets == known[-1].buckets else (*known, Scale(self.through + 1, buckets))

    def taken(self, side: int, rows: SideRows, buckets: frozenset[int] | None = None) -> SideRows:
        """Return the rows of a side that are in some buckets, by default all, with the batch that read each."""
        return SideRows(rows.files, TakenRows.of(rows.rows, side, self.batches, buckets))

    def log_rows(
        self, columns: tuple[str, ...], where: str, buckets: frozenset[int], scales: Scales, more: Ranges
    ) -> SideRows:
        """Return rows of the log in some buckets for which a condition holds, as tasks read them.

        They are of the batches that are repaired, and of earlier ones if their event time lies in one of the ranges
        ``more``.
        """
        table = self.run.layout.missed_rows(self.run.query.name)
        files = dict(files_near(table, "batch", [(self.after + 1, self.through)]))
        files |= files_near(table, "event_us", more)
        where = f"batch <= {self.through} AND {where}"
        read = FileRows(named_columns(table, {*columns, *columns_read([where])}), where)
        return SideRows(tuple(files.items()), LoggedRows(read, scales, columns, buckets))

    def finish(self) -> dict[str, int]:
        """Append the results, then the row that finishes the repair; return its counts."""
        metrics = read_log_metrics(self.run.layout, self.run.query, self.after, self.through)
        logged = Logged.of(metrics, self.reach_us, self.to_horizon)
        counted = {"looked_at": logged.rows, "found": 0, "gone": 0}
        if logged.rows and self.time_us is not None:
            found, whole = self.find(logged)
            counted |= {"found": found, "gone": max(0, logged.rows - whole)}
        self.run.finish_repair(self.manifest, **counted, time_us=self.time_us)
        return counted


def drain_repairs(run: QueryRun[Any]) -> dict[str, int]:
    """Run all repairs that are due; return their number, and the sums of rows looked at, results found and rows gone.

    Batches that finish meanwhile are left to another repair.
    """
    totals, repair = dict(NOTHING), _repair_of(run.query)
    while repair and (manifest := next_repair(run.layout, run.query.name, repair.has_one_scale)) is not None:
        add_repair(totals, repair(run, manifest).finish())
    return totals


def is_between_batches(query: Query) -> bool:
    """Return whether no batch of a query may run while it is repaired."""
    repair = _repair_of(query)
    return repair is not None and repair.between_batches


def _repair_of(query: Query) -> type[QueryRepair[Any]] | None:
    kind = kind_of(query)
    found: type[QueryRepair[Any]] | None = kind.file("repair").Repair if kind.has("repair") else None
    return found


def add_repair(totals: dict[str, int], counted: Mapping[str, int]) -> None:
    """Add what a repair has counted to totals."""
    totals["repairs"] += 1
    for name, value in counted.items():
        totals[name] += value


def next_repair(layout: Home, query: str, has_one_scale: bool = False) -> BatchManifest | None:
    """Return the unfinished repair that was begun, or write the manifest of the next one; None if nothing is open.

    A repair processes all finished batches that no repair has processed, or those before the number of buckets
    changes.
    """
    folder, number = layout.batch_manifests(query), last_repair(layout, query) + 1
    if begun := read_manifest(folder, "repair", number):
        return None if begun.retraction else begun
    done, through = repaired(layout, query), finished(layout, query)
    if done == through:
        return None
    if has_one_scale:
        scales = require_manifest(folder, "batch", through).scales
        through = min([through, *(scale.since - 1 for scale in scales if scale.since > done + 1)])
    manifest = BatchManifest(number, ((done, through),), corrections=reflected(layout, query) or ())
    write_manifest(folder, "repair", manifest)
    crash_point("repair.planned")
    return manifest
