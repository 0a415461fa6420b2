"""What logged rows still add to answers at ticks that were behind the slack when they came, found in raw.

A repair takes whole batches of the query's log, all that are finished and not repaired. Of raw it reads the rows that
those batches and the ones before had taken, in the buckets and around the times of logged rows. From when each has
counted follows from the log, so nothing is compared with the answers that are there. Finished when its row is in
``repairs``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.join_aggregate.repair import missing
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.aggregate.alarms import Changed
from lakehouse.queries.aggregate.bucket import figure_row, gathered, groups_of, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used, raw_rows
from lakehouse.queries.aggregate.run import Run
from lakehouse.queries.language.row_conditions import scanned
from lakehouse.queries.runtime.batch_manifest import Plan, require_plan
from lakehouse.queries.runtime.lookup import found_at
from lakehouse.queries.runtime.progress import progress_before
from lakehouse.queries.runtime.repair import beyond_raw, drain_repairs, finish_repair
from lakehouse.queries.runtime.source import FromRaw
from lakehouse.queries.runtime.tables import parsed
from lakehouse.spark import tables


def repair(run: Run) -> dict[str, int]:
    """Add to answers what finished batches have missed; return how many logged rows were looked at, and changes.

    To be run while no batch of the query runs: both revise the same answers.
    """
    return drain_repairs(run.layout, run.query.name, lambda plan: _Repair(run, plan).finish())


@dataclass(frozen=True)
class _Repair:
    run: Run
    plan: Plan

    def finish(self) -> dict[str, int]:
        """Append parts, answers and alarms, then the row that says so; return its figures."""
        run, name = self.run, self.run.query.name
        after, through = self.plan.spans[0]
        late = tables.read(run.spark, run.layout.late(name)).where(f"what = 'missed' AND batch <= {through}")
        logged = late.where(f"batch > {after}")
        counted = {"looked_at": logged.count(), "found": 0, "gone": 0}
        until_us = progress_before(run.layout, run.query, through + 1).until_us
        if counted["looked_at"] and until_us is not None:
            counted |= self._look(logged, counted["looked_at"], until_us)
        finish_repair(run.spark, run.layout, name, self.plan, counted, until_us)
        return counted

    def _look(self, logged: DataFrame, looked_at: int, until_us: int) -> dict[str, int]:
        run, number = self.run, self.plan.number
        found = self._found(logged).persist()
        try:
            buckets, ticks = run.figures(found)
            answered = run.answer(found, ticks, "repair", number)
            crash_point("repair.answers-appended")
            if ticks.first_us is not None:
                run.follow_alarms(
                    Changed(ticks.first_us, floor_to(run.query.every_us, until_us)), "repair", number
                )
        finally:
            found.unpersist()
        lost = looked_at - sum(row["rows"] for row in buckets)
        widest = max(side.window_us for side in run.query.sides)
        gone = beyond_raw(run.layout, run.query, logged, widest)
        return {"found": answered.new + answered.revised, "gone": max(gone, lost)}

    def _found(self, logged: DataFrame) -> DataFrame:
        run, query = self.run, self.run.query
        schema = parsed(run.columns())
        work = BucketRepair(query, run.shape, to_arrow_schema(schema))
        rows = self._candidates(logged)
        late = logged.select("bucket", "side", "row", "horizon_us")

        def one(key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
            return work(key, rows, late)

        return rows.groupBy("bucket").cogroup(late.groupBy("bucket")).applyInArrow(one, schema)

    def _candidates(self, logged: DataFrame) -> DataFrame:
        """Return the raw rows that batches so far have taken, in the buckets and around the times of logged rows."""
        run, query = self.run, self.run.query
        through = self.plan.spans[0][1]
        plan = require_plan(run.layout.plans(query.name), "batch", through)
        spans = [(0, last) for _, last in plan.spans]
        widest = max(side.window_us for side in query.sides)
        granule = max(widest, 1_000_000)
        first, last = F.col("event_us") - widest, F.least(F.col("event_us") + widest, F.col("horizon_us"))
        times = F.sequence(_granule(first, granule), _granule(F.greatest(first, last), granule))
        reached = logged.select("bucket", F.explode(times).alias("granule")).distinct()

        def placed(rows: DataFrame) -> DataFrame:
            return rows.withColumn("granule", _granule(F.col("event_us"), granule))

        def around(raw: DataFrame, side: int) -> DataFrame:
            granules = F.broadcast(reached.select("granule").distinct())
            return placed(raw).join(granules, "granule", "left_semi").drop("granule")

        # Rows of other buckets go below; only predicates are worth looking at the times twice for.
        near = around if scanned(query.sides) else None
        intake = FromRaw(run.spark, run.layout, query, spans, near)
        rows = placed(raw_rows(intake, query, run.streams, run.buckets))
        return rows.join(F.broadcast(reached), ["bucket", "granule"], "left_semi").drop("granule")


@dataclass(frozen=True)
class BucketRepair:
    """What a task must know to repair one bucket. Its figures count as rows the logged ones that it has seen."""

    query: AggregateQuery
    shape: Shape
    schema: pa.Schema

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
        """Return what the bucket's answers lack."""
        rows = rows.filter(pa.array(is_used(rows)))
        at = found_at(late, rows, "row")
        is_logged = at >= 0
        whole = as_rows(rows, self.query)
        counted_from = whole.enter_us.copy()
        counted_from[is_logged] = late["horizon_us"].to_numpy()[at[is_logged]]
        partials = missing(self.shape, whole, counted_from, self.query.every_us)
        parts = part_rows(self.query, partials, groups_of(rows))
        seen = figure_row({"rows": int(is_logged.sum())}, partials[:0], partials)
        return gathered([parts, seen], self.schema, key[0].as_py())


def _granule(time: Column, width: int) -> Column:
    return F.floor(time / F.lit(float(width))).cast("bigint")
