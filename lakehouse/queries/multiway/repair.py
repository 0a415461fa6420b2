"""What the online join missed, looked for in raw: each result once, and none that was found online.

A result is found online by the newest batch N that has a row of it, unless a row of an earlier batch had left its
window by then: was older than N's horizon less that window. Then all its rows of batch N are logged, as each is at most
that window newer. So with the logged rows of batch N a repair looks for all results whose newest batch is N and that
have such a row; manifests tell which batch took in what, and nothing is compared with the results that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.multiway_join.joining import Joined, TooMany, results_of
from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.multiway import route
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.route import joined, shown_of
from lakehouse.queries.multiway.rows import is_used, raw_rows, side_columns
from lakehouse.queries.multiway.run import MultiwayRun
from lakehouse.queries.multiway.small_batch import as_joined, most_met, shown, used_rows
from lakehouse.queries.runtime.batch import taken_in, taken_in_here
from lakehouse.queries.runtime.bucket_answers import TooLarge
from lakehouse.queries.runtime.repair import QueryRepair
from lakehouse.queries.runtime.source import FromRaw, RawNear
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s


@dataclass(frozen=True)
class Repair(QueryRepair[MultiwayRun]):
    """A repair of a join. Safe while the streams run on: a batch that finishes meanwhile is left to the next one."""

    @property
    def reach_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.run.query.sides)

    def find(self, logged: DataFrame) -> tuple[int, int]:
        """Append the missed results."""
        batches = logged.groupBy("batch").agg(F.max("horizon_us")).collect()
        horizons = pa.table(
            {"taken": [each[0] for each in batches], "horizon_us": [each[1] for each in batches]}
        )
        rows = self._taken_rows(logged)
        known = F.broadcast(self.run.spark.createDataFrame(horizons))
        late = rows.join(known, "taken").where(F.col("event_us") < F.col("horizon_us")).persist()
        try:
            return self._append_missed(rows, late)
        finally:
            late.unpersist()

    def find_here(self, logged: pa.Table, near: RawNear) -> tuple[int, int]:
        """Do the same in this process."""
        run, query = self.run, self.run.query
        used = [
            used_rows(near.select_here(side, side_columns(query, run.streams, side)))
            for side in range(len(query.sides))
        ]
        late = LateRows.of(query, used, [taken_in_here(self.batches, rows) for rows in used], logged)
        try:
            found = np.concatenate([late.missed(side) for side in range(len(used))])
        except TooMany as error:
            raise TooLarge(str(error)) from error
        results = shown(query, used, found, "repair")
        run.append(results, run.layout.multiway(query.name), "repair", self.manifest.number)
        crash_point("repair.results-appended")
        return results.num_rows, sum(len(late.rows(side)) for side in range(len(used)))

    def _append_missed(self, rows: DataFrame, late: DataFrame) -> tuple[int, int]:
        run, number = self.run, self.manifest.number
        results = run.layout.multiway(run.query.name)
        span = (F.min("event_us"), F.max("event_us"), F.count("*"))
        sides = {side: span for side, *span in late.groupBy("side").agg(*span).collect()}
        found = [self._found(rows, late, side, low, high) for side, (low, high, _) in sides.items()]
        if found:
            run.append(reduce(DataFrame.unionByName, found), results, "repair", number)
        crash_point("repair.results-appended")
        own = tables.read(run.spark, results).where((F.col("found") == "repair") & (F.col("batch") == number))
        return own.count(), sum(count for _, _, count in sides.values())

    def _taken_rows(self, logged: DataFrame) -> DataFrame:
        """Return rows that batches up to the last repaired one took in and that join, each with its batch.

        They are the logged rows, and those that one of them can meet.
        """
        run, query = self.run, self.run.query
        near = self.near(logged, F.col("event_us") - self.reach_us, F.col("event_us") + self.reach_us)

        def around(raw: DataFrame, side: int) -> DataFrame:
            return raw.where(near)

        source = FromRaw(run.spark, run.layout, query, self.spans, around)
        rows = raw_rows(source, query, run.streams, run.slots).where(is_used())
        return rows.withColumn("taken", taken_in(self.batches))

    def _found(self, rows: DataFrame, late: DataFrame, side: int, low_us: int, high_us: int) -> DataFrame:
        """Return what late rows of a side have missed, where it is the last side that has a row of the newest batch.

        ``low_us`` and ``high_us``: the times that the late rows lie between.
        """
        query = self.run.query
        own = late.where(F.col("side") == side)
        keys = own.select("key").distinct()
        found = shown_of(own.withColumnRenamed("taken", "newest"), query, side, "newest", "horizon_us")
        found = found.withColumnsRenamed({f"{name}_{side}": name for name in ("newest", "horizon_us")})
        visited, is_missed = [side], F.lit(False)
        for stop, other in enumerate(query.sides):
            if stop == side:
                continue
            reach = F.col("event_us").between(low_us - other.window_us, high_us + query.sides[side].window_us)
            # Only rows that some late row can meet are moved.
            met = rows.where((F.col("side") == stop) & reach).join(keys, "key", "left_semi")
            found = joined(found, shown_of(met, query, stop, "taken"), query, visited, stop)
            taken, newest = F.col(f"taken_{stop}"), F.col("newest")
            found = found.where(taken <= newest if stop < side else taken < newest)
            is_missed |= (taken < newest) & (
                F.col(f"event_us_{stop}") < F.col("horizon_us") - other.window_us
            )
            visited.append(stop)
        return route.results_of(found.where(is_missed), query, "repair")


@dataclass(frozen=True)
class LateRows:
    """Rows that join, by side: with the batch that took each in, and up to when rows were late for that batch."""

    query: MultiwayQuery
    sides: Sequence[Joined]
    taken: Sequence[Int64s]
    horizon_us: Sequence[Int64s]

    @classmethod
    def of(
        cls, query: MultiwayQuery, used: Sequence[pa.Table], taken: Sequence[Int64s], logged: pa.Table
    ) -> Self:
        """Return rows beside what batches have logged of them."""
        known = logged.group_by("batch").aggregate([("horizon_us", "max")])
        last = max(int(each.max(initial=0)) for each in (*taken, known["batch"].to_numpy()))
        horizons = np.full(last + 1, np.iinfo(np.int64).min)
        horizons[known["batch"].to_numpy()] = known["horizon_us_max"].to_numpy()
        sides = [
            as_joined(query, side, rows, np.zeros(rows.num_rows, np.bool_)) for side, rows in enumerate(used)
        ]
        return cls(query, sides, taken, [horizons[each] for each in taken])

    def rows(self, side: int) -> Int64s:
        """Return the places of a side's rows that were late."""
        return np.flatnonzero(self.sides[side].event_us < self.horizon_us[side])

    def missed(self, side: int) -> Int64s:
        """Return what its late rows have missed, where it is the last side that has a row of the newest batch."""
        found = results_of(self.sides, side, self.rows(side), most_met(self.query))
        newest, horizon_us = self.taken[side][found[:, side]], self.horizon_us[side][found[:, side]]
        is_last, is_missed = np.ones(len(found), np.bool_), np.zeros(len(found), np.bool_)
        for stop, other in enumerate(self.sides):
            if stop != side:
                taken, event_us = self.taken[stop][found[:, stop]], other.event_us[found[:, stop]]
                is_last &= taken <= newest if stop < side else taken < newest
                is_missed |= (taken < newest) & (event_us < horizon_us - other.window_us)
        return found[is_last & is_missed]
