"""What the online join missed, looked for in raw: each pair once, and none that was found online.

A repair takes whole batches of the query's log, all that are finished and not repaired. Of raw it reads only the times
around logged rows. Which of two rows was taken in first follows from the plans of the query's batches and the order
inside a batch, so nothing is compared with the pairs that are there. Finished when its row is in ``repairs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.repair import missing_pairs
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_log import read_columns
from lakehouse.queries.pairs.bucket import filled, pair_columns, policy_of
from lakehouse.queries.pairs.needed_slack import COUNTS
from lakehouse.queries.pairs.rows import as_batch, in_buckets, in_order, raw_rows
from lakehouse.queries.pairs.run import PAIR_COLUMNS, Run
from lakehouse.queries.registered import PairsQuery
from lakehouse.queries.runtime.batch import taken_in
from lakehouse.queries.runtime.batch_manifest import Plan, require_plan
from lakehouse.queries.runtime.lookup import found_at
from lakehouse.queries.runtime.repair import beyond_raw, drain_repairs, finish_repair
from lakehouse.queries.runtime.source import FromRaw
from lakehouse.queries.runtime.tables import output_types, parsed
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Batch, Int64s, Pairs

_LOGGED = ("side", "row", "event_us", "horizon_us", "time_us", "what")


def repair(run: Run) -> dict[str, int]:
    """Append the pairs that finished batches have missed; return how many logged rows were looked at, and found pairs.

    Safe while the stream runs on: batches that finish meanwhile are left to the next repair.
    """
    return drain_repairs(run.layout, run.query.name, lambda plan: _Repair(run, plan).finish())


@dataclass(frozen=True)
class _Repair:
    run: Run
    plan: Plan

    def finish(self) -> dict[str, int]:
        """Append pairs, then the row that says so; return its figures."""
        run, name = self.run, self.run.query.name
        late = tables.read(run.spark, run.layout.late(name))
        after, through = self.plan.spans[0]
        logged = late.where(f"what = 'missed' AND batch > {after} AND batch <= {through}")
        looked_at = logged.count()
        counted = {"looked_at": looked_at, "found": 0, "gone": 0}
        if looked_at:
            counted |= self._look(logged, late.where(f"what = 'refused' AND batch <= {through}"), looked_at)
        finish_repair(run.spark, run.layout, name, self.plan, counted, self._time_us)
        return counted

    def _look(self, logged: DataFrame, refused: DataFrame, looked_at: int) -> dict[str, int]:
        run, name = self.run, self.run.query.name
        found = self._found(logged, refused).persist()
        try:
            told_of = F.count_if(F.col("found_us").isNull() & F.col("bucket").isNull())
            counts = found.agg(told_of, F.count("found_us")).first() or (0, 0)
            shown = [F.col(f"o_{output.name}").alias(output.name) for output in run.query.outputs]
            pairs = found.where("found_us IS NOT NULL").select(
                *PAIR_COLUMNS, F.lit("repair").alias("found"), *shown
            )
            needed = found.where("bucket IS NOT NULL").select("bucket", *COUNTS)
            tables.create(run.spark, run.layout.missed(name), "missed")
            tables.side_by_side(
                lambda: self._append(pairs, run.layout.joins(name), "batch"),
                lambda: self._append(needed, run.layout.missed(name), "repair"),
            )
            crash_point("repair.pairs-appended")
        finally:
            found.unpersist()
        gone = beyond_raw(run.layout, run.query, logged, run.query.window_us)
        return {"found": counts[1], "gone": max(gone, looked_at - counts[0])}

    def _append(self, rows: DataFrame, table: Path, number: str) -> None:
        numbered = rows.withColumn(number, F.lit(self.plan.number).cast("bigint"))
        tables.append_once(numbered, table, f"repair-{self.run.query.name}", self.plan.number)

    def _found(self, logged: DataFrame, refused: DataFrame) -> DataFrame:
        run, query = self.run, self.run.query
        rows = in_buckets(self._candidates(logged), query, run.buckets)
        late = logged.unionByName(refused).select("bucket", *_LOGGED)
        types = output_types(query, run.streams)
        shown = "".join(f", `o_{name}` {kind}" for name, kind in types.items())
        times = "event_us bigint, left_us bigint, right_us bigint, left_row bigint, right_row bigint, wait_us bigint"
        needed = "bucket int, from_us bigint, side int, slack_us bigint, pairs bigint"
        schema = parsed(f"found_us bigint, {times}, {needed}{shown}")
        work = BucketRepair(query, to_arrow_schema(schema), self._time_us or 0)

        def one(key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
            return work(key, rows, late)

        return rows.groupBy("bucket").cogroup(late.groupBy("bucket")).applyInArrow(one, schema)

    def _candidates(self, logged: DataFrame) -> DataFrame:
        """Return raw rows of the times around logged rows, with the batch of the query that took them in."""
        run, query = self.run, self.run.query
        after, through = self.plan.spans[0]
        # Which of the batches repaired before took in a row makes no difference: a logged row came later.
        folder, numbers = run.layout.plans(query.name), range(after + 1, through + 1)
        plans = [require_plan(folder, "batch", number) for number in numbers]
        spans = [(0, plans[-1].spans[side][1]) for side in (0, 1)]
        granule = max(query.window_us, 1_000_000)
        first, last = F.col("event_us") - query.window_us, F.col("event_us") + query.window_us
        near = F.sequence(_granule(first, granule), _granule(last, granule))
        reached = logged.select(F.explode(near).alias("granule")).distinct()

        def around(raw: DataFrame, side: int) -> DataFrame:
            placed = raw.withColumn("granule", _granule(F.col("event_us"), granule))
            return placed.join(F.broadcast(reached), "granule", "left_semi").drop("granule")

        intake = FromRaw(run.spark, run.layout, query, spans, around)
        return raw_rows(intake, query, run.streams).withColumn("taken", taken_in(plans))

    @cached_property
    def _time_us(self) -> int | None:
        rows = read_columns(self.run.layout.queries(self.run.query.name), ("time_us",))
        return max((time for (time,) in rows if time is not None), default=None)


@dataclass(frozen=True)
class BucketRepair:
    """What a task must know to repair one bucket.

    Answers pairs, how many of them needed which slack, and a row of nulls for each logged row looked at.
    """

    query: PairsQuery
    schema: pa.Schema
    time_us: int

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
        """Return the pairs that the bucket's logged rows have missed; the bucket's number is the key of the group."""
        rows = in_order(rows, first=("taken",))
        is_refused = pc.equal(late["what"], "refused")
        rows = rows.filter(pa.array(found_at(late.filter(is_refused), rows, "row") < 0))
        logged = late.filter(pc.invert(is_refused))
        at = found_at(logged, rows, "row")
        positions = np.flatnonzero(at >= 0)
        logged = logged.take(pa.array(at[positions]))
        numbered = pa.array(np.arange(rows.num_rows))
        batch = as_batch(rows.set_column(rows.schema.get_field_index("row"), "row", numbered))
        # By row, the stream time that was logged with it.
        told_at = np.zeros(len(batch), np.int64)
        told_at[positions] = logged["time_us"].to_numpy()
        pairs = missing_pairs(
            self.query.condition,
            self.query.window_us,
            batch,
            positions,
            logged["horizon_us"].to_numpy(),
            self.time_us - told_at[positions],
        )
        left, right = rows.take(pa.array(pairs.left)), rows.take(pa.array(pairs.right))
        columns = {
            "found_us": pa.repeat(pa.scalar(self.time_us, pa.int64()), len(pairs)),
            **pair_columns(self.query, pairs, left, right),
        }
        return pa.concat_tables(
            [
                filled(pa.table(columns), len(pairs), self.schema),
                self._needed(key[0], pairs, batch, told_at),
                # A row of nulls for each logged row says that it was looked at.
                filled(pa.table({}), len(positions), self.schema),
            ]
        )

    def _needed(self, bucket: pa.Scalar, pairs: Pairs, rows: Batch, told_at: Int64s) -> pa.Table:
        """Return how many pairs needed which slack, for a policy that wants to know; rows are numbered in order."""
        policy = policy_of(self.query)
        if not isinstance(policy, NeededSlack):
            return self.schema.empty_table()
        policy.begin(self.query.window_us)
        earlier, later = np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)
        counted = policy.count_missed(rows.side[earlier], rows.event_us[earlier], told_at[later])
        columns = {name: pa.array(column) for name, column in zip(COUNTS, counted.T, strict=True)}
        columns["bucket"] = pa.repeat(bucket, len(counted))
        return filled(pa.table(columns), len(counted), self.schema)


def _granule(time: Column, width: int) -> Column:
    return F.floor(time / F.lit(float(width))).cast("bigint")
