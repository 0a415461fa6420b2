"""Repairs of a registered query, one after the other: what all kinds share, around the kind's own search.

A repair processes whole batches of the query's log: all that are finished and not repaired. It is finished when its
row is in ``repairs``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_log import most_rows
from lakehouse.home.table_reads import read_between
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.batch_manifest import (
    BatchManifest,
    finished,
    last_repair,
    read_manifest,
    repaired,
    require_manifest,
    write_manifest,
)
from lakehouse.queries.runtime.bucket_answers import Rows, TooLarge, all_of, between, fit_here, in_new_buckets
from lakehouse.queries.runtime.progress import until_us_of
from lakehouse.queries.runtime.run import QueryRun
from lakehouse.queries.runtime.source import RawNear
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s
    from lakehouse.home.layout import Home
    from lakehouse.queries.kind import Query
    from lakehouse.queries.runtime.batch_manifest import Span

R = TypeVar("R", bound=QueryRun[Any])
# Limits of the times of logged rows that a repair collects, and of the conditions that it makes of them.
_MOST_CELLS, _MOST_RANGES = 4096, 64
NOTHING = {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0}


def positions_of(known: pa.Table, rows: pa.Table) -> np.ndarray:
    """Return for each row the position of its side and hash in ``known``, -1 if it is not there.

    If several in ``known`` are equal, the first is found. Cost: one sort of ``known``.
    """
    ids, wanted = _ids(known), _ids(rows)
    if not len(ids):
        return np.full(len(wanted), -1)
    order = np.argsort(ids, order=("side", "row"), kind="stable")
    at = np.searchsorted(ids[order], wanted)
    found = order[np.minimum(at, len(ids) - 1)]
    return np.where(ids[found] == wanted, found, -1)


def _ids(rows: pa.Table) -> np.ndarray:
    ids = np.empty(rows.num_rows, [("side", np.int64), ("row", np.int64)])
    ids["side"], ids["row"] = rows["side"].to_numpy(), rows["row"].to_numpy()
    return ids


@dataclass(frozen=True)
class QueryRepair(ABC, Generic[R]):
    """One repair of a query. ``between_batches``: whether no batch of the query may run meanwhile.

    ``has_one_scale``: whether it ends where the number of buckets changes, because each bucket logs by what it held
    itself.
    """

    between_batches: ClassVar[bool] = False
    has_one_scale: ClassVar[bool] = False
    run: R
    manifest: BatchManifest

    @abstractmethod
    def find(self, logged: DataFrame) -> tuple[int, int]:
        """Append the results that logged rows missed; return their number, and that of logged rows still in raw."""

    @abstractmethod
    def find_here(self, logged: pa.Table, near: RawNear) -> tuple[int, int]:
        """Do the same in this process; ``near``: the raw rows around logged ones.

        Raises:
            TooLarge: before anything is appended, if this process would have to hold too much.
        """

    def times_here(self, logged: pa.Table) -> tuple[Int64s, Int64s]:
        """Return the first and last time at which each logged row can have partners."""
        event_us = logged["event_us"].to_numpy()
        return event_us - self.reach_us, event_us + self.reach_us

    @property
    @abstractmethod
    def reach_us(self) -> int:
        """How much older than a logged row its partners may be."""

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
    def log(self) -> DataFrame:
        """The log of all batches up to the last that this repair processes."""
        table = self.run.layout.missed_rows(self.run.query.name)
        return tables.read(self.run.spark, table).where(f"batch <= {self.through}")

    @property
    def batches(self) -> list[BatchManifest]:
        """The manifests of the batches that are repaired.

        Which of the earlier batches read a row makes no difference: a logged row came later.
        """
        folder = self.run.layout.batch_manifests(self.run.query.name)
        return [
            require_manifest(folder, "batch", number) for number in range(self.after + 1, self.through + 1)
        ]

    @cached_property
    def last(self) -> BatchManifest:
        """The manifest of the last batch that this repair processes."""
        return require_manifest(self.run.layout.batch_manifests(self.run.query.name), "batch", self.through)

    @property
    def spans(self) -> list[Span]:
        """The ingest batches of each side that batches have read so far."""
        return [(0, through) for _, through in self.last.spans]

    def in_last_buckets(self, log: Rows) -> Rows:
        """Return logged rows with their bucket in the last batch; those of an older scale with each possible one."""
        scales, now = self.last.scales, self.last.buckets
        if len(scales) < 2:
            return log
        parts = []
        for scale, following in zip(
            scales, [*(each.since for each in scales[1:]), self.through + 1], strict=True
        ):
            own = between(log, "batch", scale.since, following - 1)
            parts.append(in_new_buckets(own, scale.buckets, now))
        return all_of(parts)

    def finish(self) -> dict[str, int]:
        """Append the results, then the row that finishes the repair; return its counts."""
        logged = self._logged()
        looked_at = logged.num_rows if isinstance(logged, pa.Table) else logged.count()
        counted = {"looked_at": looked_at, "found": 0, "gone": 0}
        if looked_at and self.time_us is not None:
            found, seen = self._found_anywhere(logged)
            gone = beyond_raw(self.run.layout, self.run.query, logged, self.reach_us)
            counted |= {"found": found, "gone": max(gone, looked_at - seen)}
        self._append_row(counted)
        return counted

    def _logged(self) -> Rows:
        """Return the rows logged since the last repair; in this process if there are few."""
        table = self.run.layout.missed_rows(self.run.query.name)
        taken = "batch", self.after + 1, self.through
        if not fit_here(most_rows(table, taken)):
            return self._logged_in_spark()
        logged = read_between(table, taken)
        return logged.filter(pc.equal(logged["what"], "missed"))

    def _logged_in_spark(self) -> DataFrame:
        return self.log.where(f"what = 'missed' AND batch > {self.after}")

    def _found_anywhere(self, logged: Rows) -> tuple[int, int]:
        if not isinstance(logged, pa.Table):
            return self.find(logged)
        ranges = covering_ranges(*self.times_here(logged), _MOST_RANGES)
        near = RawNear(self.run.layout, self.run.query, self.spans, ranges)
        with suppress(TooLarge):
            if near.fits():
                return self.find_here(logged, near)
        return self.find(self._logged_in_spark())

    def near(self, logged: DataFrame, first: Column, last: Column) -> Column:
        """Return the condition that a raw row lies in one of a few ranges that contain the times of each logged row.

        Statistics exclude files that lie in none of the ranges; they could not do that for ``granules``.
        """
        return in_ranges(logged, first, last, self.reach_us)

    def granules(self, first: Column, last: Column) -> Column:
        """Return the times between two as granules, one a row: raw rows near logged ones are found by them."""
        return F.explode(F.sequence(self._granule(first), self._granule(last))).alias("granule")

    def in_granules(self, rows: DataFrame) -> DataFrame:
        """Return rows with the granule of each."""
        return rows.withColumn("granule", self._granule(F.col("event_us")))

    def _granule(self, time: Column) -> Column:
        return F.floor(time / F.lit(float(max(self.reach_us, 1_000_000)))).cast("bigint")

    def _append_row(self, counted: Mapping[str, int]) -> None:
        number, query = self.manifest.number, self.run.query.name
        row = {"repair": number, "through": self.through, **counted, "time_us": self.time_us}
        stamped = {**row, "committed_at": datetime.now(UTC)}
        tables.append_row(stamped, self.run.layout.repairs(query), f"repair-{query}", number)
        crash_point("repair.finished")


def in_ranges(rows: DataFrame, first: Column, last: Column, cell_us: int) -> Column:
    """Return the condition that ``event_us`` is in one of a few ranges with ``first`` to ``last`` of each row.

    Cost: two passes over the rows; the collected data are bounded, however many rows there are. Times that are less
    than about ``cell_us`` apart fall into one range.
    """
    low, high = rows.agg(F.min(first), F.max(last)).first() or (None, None)
    if low is None or high is None:
        return F.lit(False)
    width = max(cell_us, (high - low) // _MOST_CELLS + 1)
    cells = rows.groupBy(F.floor((first - low) / width)).agg(F.min(first), F.max(last)).collect()
    ends = np.array([(start, end) for _, start, end in cells], np.int64)
    ranges = covering_ranges(ends[:, 0], ends[:, 1], _MOST_RANGES)
    return reduce(Column.__or__, (F.col("event_us").between(*each) for each in ranges))


def drain_repairs(run: QueryRun[Any]) -> dict[str, int]:
    """Run all repairs that are due; return their number, and the sums of rows looked at, results found and rows gone.

    Batches that finish meanwhile are left to another repair.
    """
    repair: type[QueryRepair[Any]] = kind_of(run.query).file("repair").Repair
    totals = dict(NOTHING)
    while (manifest := next_repair(run.layout, run.query.name, repair.has_one_scale)) is not None:
        counted = repair(run, manifest).finish()
        totals["repairs"] += 1
        for name, value in counted.items():
            totals[name] += value
    return totals


def next_repair(layout: Home, query: str, has_one_scale: bool = False) -> BatchManifest | None:
    """Return the unfinished repair that was begun, or write the manifest of the next one; None if nothing is open.

    A repair processes all finished batches that no repair has processed, or those before the number of buckets
    changes.
    """
    folder, number = layout.batch_manifests(query), last_repair(layout, query) + 1
    if begun := read_manifest(folder, "repair", number):
        return begun
    done, through = repaired(layout, query), finished(layout, query)
    if done == through:
        return None
    if has_one_scale:
        scales = require_manifest(folder, "batch", through).scales
        through = min([through, *(scale.since - 1 for scale in scales if scale.since > done + 1)])
    manifest = BatchManifest(number, ((done, through),))
    write_manifest(folder, "repair", manifest)
    crash_point("repair.planned")
    return manifest


def beyond_raw(layout: Home, query: Query, logged: Rows, reach_us: int) -> int:
    """Count logged rows whose partners, up to ``reach_us`` older, may lie where raw rows have been deleted."""
    kept = [raw_from(read_corrections(layout, stream)) for stream in query.streams]
    since = max((time for time in kept if time is not None), default=None)
    if since is None:
        return 0
    if isinstance(logged, pa.Table):
        return int((logged["event_us"].to_numpy() - reach_us < since).sum())
    return logged.where(F.col("event_us") - reach_us < since).count()
