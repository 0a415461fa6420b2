"""What the online join missed, looked for in raw: each result once, and none that was found online.

A result is found online by the newest batch N that has a row of it, unless a row of an earlier batch had left its
window by then: was older than N's horizon less that window. Then all its rows of batch N are logged, as each is at most
that window newer. So with the logged rows of batch N a repair looks for all results whose newest batch is N and that
have such a row; plans tell which batch took in what, and nothing is compared with the results that are there. Finished
when its row is in ``repairs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.multiway.route import joined, results_of, shown_of
from lakehouse.queries.multiway.rows import is_used, raw_rows
from lakehouse.queries.multiway.run import Run
from lakehouse.queries.runtime.batch import taken_in
from lakehouse.queries.runtime.batch_manifest import Plan, require_plan
from lakehouse.queries.runtime.progress import progress_before
from lakehouse.queries.runtime.repair import beyond_raw, drain_repairs, finish_repair
from lakehouse.queries.runtime.source import FromRaw
from lakehouse.spark import tables


def repair(run: Run) -> dict[str, int]:
    """Append the results that finished batches have missed; return how many logged rows were looked at, and found.

    Safe while the streams run on: batches that finish meanwhile are left to the next repair.
    """
    return drain_repairs(run.layout, run.query.name, lambda plan: _Repair(run, plan).finish())


@dataclass(frozen=True)
class _Repair:
    run: Run
    plan: Plan

    def finish(self) -> dict[str, int]:
        """Append results, then the row that says so; return its figures."""
        run, name = self.run, self.run.query.name
        after, through = self.plan.spans[0]
        late = tables.read(run.spark, run.layout.late(name))
        logged = late.where(f"what = 'missed' AND batch > {after} AND batch <= {through}")
        times = F.min("event_us"), F.max("event_us")
        told = logged.groupBy("batch").agg(F.max("horizon_us"), F.count("*"), *times).collect()
        counted = {"looked_at": sum(each[2] for each in told), "found": 0, "gone": 0}
        if told:
            horizons = pa.table(
                {"taken": [each[0] for each in told], "horizon_us": [each[1] for each in told]}
            )
            low_us, high_us = min(each[3] for each in told), max(each[4] for each in told)
            rows = self._taken_rows(low_us, high_us)
            counted |= self._look(rows, logged, horizons, counted["looked_at"])
        until_us = progress_before(run.layout, run.query, through + 1).until_us
        finish_repair(run.spark, run.layout, name, self.plan, counted, until_us)
        return counted

    def _look(self, rows: DataFrame, logged: DataFrame, horizons: pa.Table, looked_at: int) -> dict[str, int]:
        run, number = self.run, self.plan.number
        results = run.layout.joins(run.query.name)
        known = F.broadcast(run.spark.createDataFrame(horizons))
        late = rows.join(known, "taken").where(F.col("event_us") < F.col("horizon_us")).persist()
        try:
            span = (F.min("event_us"), F.max("event_us"), F.count("*"))
            sides = {side: span for side, *span in late.groupBy("side").agg(*span).collect()}
            found = [self._found(rows, late, side, low, high) for side, (low, high, _) in sides.items()]
            if found:
                run.append(reduce(DataFrame.unionByName, found), results, "repair", number)
            crash_point("repair.results-appended")
        finally:
            late.unpersist()
        own = tables.read(run.spark, results).where((F.col("found") == "repair") & (F.col("batch") == number))
        lost = looked_at - sum(count for _, _, count in sides.values())
        widest = max(side.window_us for side in run.query.sides)
        return {"found": own.count(), "gone": max(beyond_raw(run.layout, run.query, logged, widest), lost)}

    def _taken_rows(self, low_us: int, high_us: int) -> DataFrame:
        """Return rows that batches up to the last repaired one took in and that join, each with its batch.

        They are those that a row between two times can meet, and those between them.
        """
        run, query = self.run, self.run.query
        after, through = self.plan.spans[0]
        # Which of the batches repaired before took in a row makes no difference: a logged row came later.
        folder, numbers = run.layout.plans(query.name), range(after + 1, through + 1)
        plans = [require_plan(folder, "batch", number) for number in numbers]
        spans = [(0, last) for _, last in plans[-1].spans]
        widest = max(side.window_us for side in query.sides)

        def around(raw: DataFrame, side: int) -> DataFrame:
            return raw.where(F.col("event_us").between(low_us - widest, high_us + widest))

        intake = FromRaw(run.spark, run.layout, query, spans, around)
        rows = raw_rows(intake, query, run.streams, run.slots).where(is_used())
        return rows.withColumn("taken", taken_in(plans))

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
        return results_of(found.where(is_missed), query, "repair")
