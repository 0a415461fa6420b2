"""What logged rows still add to answers at ticks that were behind the slack when they came, found in raw.

Of raw it reads the rows that the repaired batches and the ones before had taken, in the buckets and around the times of
logged rows. From when each has counted follows from the log, so nothing is compared with the answers that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.join_aggregate.revision import missing
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.aggregate.alarms import Changed
from lakehouse.queries.aggregate.bucket import GroupNames, groups_of, metrics_with_ticks, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used, raw_rows, raw_rows_here
from lakehouse.queries.aggregate.run import AggregateRun
from lakehouse.queries.kind import scanned
from lakehouse.queries.runtime.bucket import gathered
from lakehouse.queries.runtime.bucket_answers import Rows, by_bucket, computed_once
from lakehouse.queries.runtime.repair import QueryRepair, positions_of
from lakehouse.queries.runtime.source import FromRaw, RawNear
from lakehouse.spark.ddl import schema_of

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s

_LOGGED = ("bucket", "side", "row", "horizon_us")


@dataclass(frozen=True)
class Repair(QueryRepair[AggregateRun]):
    """A repair of a join-aggregate: batches revise the same answers, so none may run meanwhile."""

    between_batches = True

    @property
    def reach_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.run.query.sides)

    def find(self, logged: DataFrame) -> tuple[int, int]:
        """Append parts, answers and alarms."""
        logged = self.in_last_buckets(logged)
        with computed_once(self._parts(self._candidates(logged), logged.select(*_LOGGED))) as found:
            return self._append(found)

    def find_here(self, logged: pa.Table, near: RawNear) -> tuple[int, int]:
        """Do the same in this process."""
        logged = self.in_last_buckets(logged)
        rows = raw_rows_here(near, self.run.query, self.run.streams, self.last.buckets)
        reached = np.isin(rows["bucket"].to_numpy(), logged["bucket"].to_numpy())
        return self._append(self._parts(rows.filter(pa.array(reached)), logged.select(list(_LOGGED))))

    def times_here(self, logged: pa.Table) -> tuple[Int64s, Int64s]:
        """Return from when to when each logged row may meet others: the batch that took it in counted those after."""
        first, last = super().times_here(logged)
        horizon_us = pc.coalesce(logged["horizon_us"], pa.array(last)).to_numpy()
        return first, np.maximum(first, np.minimum(last, horizon_us))

    def _parts(self, rows: Rows, late: Rows) -> Rows:
        """Return the parts that buckets find, of raw rows and of logged ones."""
        run = self.run
        work = BucketRepair(run.query, run.shape, to_arrow_schema(schema_of(run.columns())))
        return by_bucket(rows, late, work, run.columns())

    def _append(self, found: Rows) -> tuple[int, int]:
        run, number = self.run, self.manifest.number
        buckets, ticks = run.metrics(found)
        answered = run.answer(found, ticks, "repair", number)
        crash_point("repair.answers-appended")
        if ticks.first_us is not None and self.time_us is not None:
            last = floor_to(run.query.every_us, self.time_us)
            run.follow_alarms(Changed(ticks.first_us, last), "repair", number)
        return answered.new + answered.revised, sum(row["rows"] for row in buckets)

    def _candidates(self, logged: DataFrame) -> DataFrame:
        """Return the raw rows that batches so far have taken, in the buckets and around the times of logged rows."""
        run, query = self.run, self.run.query
        first, last = F.col("event_us") - self.reach_us, F.col("event_us") + self.reach_us
        times = first, F.greatest(first, F.least(last, F.col("horizon_us")))
        reached, near = logged.select("bucket", self.granules(*times)).distinct(), self.near(logged, *times)

        def around(raw: DataFrame, side: int) -> DataFrame:
            if not scanned(query.sides):
                # Rows of other buckets go below; only predicates are worth looking at the times twice for.
                return raw.where(near)
            granules = F.broadcast(reached.select("granule").distinct())
            return self.in_granules(raw.where(near)).join(granules, "granule", "left_semi").drop("granule")

        source = FromRaw(run.spark, run.layout, query, self.spans, around)
        rows = self.in_granules(raw_rows(source, query, run.streams, self.last.buckets))
        return rows.join(F.broadcast(reached), ["bucket", "granule"], "left_semi").drop("granule")


@dataclass(frozen=True)
class BucketRepair:
    """What a task must know to repair one bucket. Its metrics count as rows the logged ones that it has seen."""

    query: AggregateQuery
    shape: Shape
    schema: pa.Schema

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
        """Return what the bucket's answers lack."""
        rows = rows.filter(pa.array(is_used(rows)))
        at = positions_of(late, rows)
        is_logged = at >= 0
        whole = as_rows(rows, self.query)
        counted_from = whole.enter_us.copy()
        counted_from[is_logged] = late["horizon_us"].to_numpy()[at[is_logged]]
        partials = missing(self.shape, whole, counted_from, self.query.every_us)
        names = GroupNames()
        names.add(groups_of(rows))
        parts = part_rows(self.query, partials, names)
        seen = metrics_with_ticks({"rows": int(is_logged.sum())}, partials[:0], partials)
        return gathered([parts, seen], self.schema, key[0].as_py())
