"""What the online join missed, looked for in raw: each pair once, and none that was found online.

Of raw it reads only the times around logged rows. Which of two rows was taken in first follows from the manifests of
the query's batches and the order inside a batch, so nothing is compared with the pairs that are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.repair import missing_pairs
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.table_log import read_columns
from lakehouse.home.table_reads import read_around
from lakehouse.queries.pairs.bucket import PAIR, pair_columns
from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.needed_slack import COUNTS
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import as_batch, in_buckets, in_order, raw_rows, raw_rows_here
from lakehouse.queries.pairs.run import PairsRun
from lakehouse.queries.runtime.batch import taken_in, taken_in_here
from lakehouse.queries.runtime.bucket import filled
from lakehouse.queries.runtime.bucket_answers import Rows, by_bucket, computed_once, count_of, of_kind
from lakehouse.queries.runtime.repair import QueryRepair, positions_of
from lakehouse.queries.runtime.source import FromRaw, RawNear
from lakehouse.queries.runtime.tables import output_types
from lakehouse.spark import tables
from lakehouse.spark.ddl import schema_of

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Batch, Int64s, Pairs

NEEDED, LOOKED_AT = "needed", "looked_at"
_LOGGED = ("bucket", "side", "row", "event_us", "horizon_us", "time_us", "edge_us", "what")


@dataclass(frozen=True)
class Repair(QueryRepair[PairsRun]):
    """A repair of a window join. Safe while the streams run on: a batch that finishes meanwhile is left to the next."""

    has_one_scale = True

    @property
    def reach_us(self) -> int:
        """The window."""
        return self.run.query.window_us

    @cached_property
    def time_us(self) -> int | None:
        """The newest stream time of all buckets."""
        rows = read_columns(self.run.layout.queries(self.run.query.name), ("time_us",))
        return max((time for (time,) in rows if time is not None), default=None)

    def find(self, logged: DataFrame) -> tuple[int, int]:
        """Append the missed pairs, and how much slack they would have needed."""
        late = logged.unionByName(self.log.where("what = 'refused'"))
        late = self.in_last_buckets(tables.as_declared(late, "missed_rows")).select(*_LOGGED)
        with computed_once(self._answers(self._candidates(logged), late)) as found:
            return self._append(found)

    def find_here(self, logged: pa.Table, near: RawNear) -> tuple[int, int]:
        """Do the same in this process."""
        run = self.run
        rows = raw_rows_here(near, run.query, run.streams)
        rows = rows.append_column("taken", pa.array(taken_in_here(self.batches, rows)))
        # A log that an earlier version began has no edges.
        names = [name for name in _LOGGED if name in logged.column_names]
        names = ["batch", *names]
        log = read_around(run.layout.missed_rows(run.query.name), "event_us", near.ranges, names)
        is_refused = pc.and_(pc.equal(log["what"], "refused"), pc.less_equal(log["batch"], self.through))
        late = pa.concat_tables([logged.select(names), log.filter(is_refused).select(names)])
        return self._append(self._answers(rows, self.in_last_buckets(late)))

    def _answers(self, rows: Rows, late: Rows) -> Rows:
        """Return what buckets find, as ``BucketRepair`` has it, of raw rows and of logged ones."""
        run, query = self.run, self.run.query
        types = output_types(query, run.streams)
        shown = "".join(f", `o_{name}` {kind}" for name, kind in types.items())
        times = "event_us bigint, left_us bigint, right_us bigint, left_row bigint, right_row bigint, wait_us bigint"
        needed = "bucket int, from_us bigint, side int, slack_us bigint, pairs bigint"
        columns = f"kind string, {times}, {needed}{shown}"
        work = BucketRepair(query, to_arrow_schema(schema_of(columns)), self.time_us or 0)
        return by_bucket(in_buckets(rows, query, self.last.buckets), late, work, columns)

    def _append(self, found: Rows) -> tuple[int, int]:
        run, number, layout, name = self.run, self.manifest.number, self.run.layout, self.run.query.name
        needed = of_kind(found, NEEDED, {column: column for column in ("bucket", *COUNTS)})
        shown = of_kind(found, PAIR, run.pair_columns())
        tables.create(layout.needed_slack(name), "needed_slack")
        tables.side_by_side(
            lambda: run.append(shown, layout.pairs(name), "repair", number, found="repair"),
            lambda: run.append(needed, layout.needed_slack(name), "repair", number, "repair"),
        )
        crash_point("repair.pairs-appended")
        return count_of(found, PAIR), count_of(found, LOOKED_AT)

    def _candidates(self, logged: DataFrame) -> DataFrame:
        """Return raw rows of the times around logged rows, with the batch of the query that took them in."""
        run, query = self.run, self.run.query
        times = F.col("event_us") - self.reach_us, F.col("event_us") + self.reach_us
        reached, near = logged.select(self.granules(*times)).distinct(), self.near(logged, *times)

        def around(raw: DataFrame, side: int) -> DataFrame:
            return (
                self.in_granules(raw.where(near))
                .join(F.broadcast(reached), "granule", "left_semi")
                .drop("granule")
            )

        source = FromRaw(run.spark, run.layout, query, self.spans, around)
        return raw_rows(source, query, run.streams).withColumn("taken", taken_in(self.batches))


@dataclass(frozen=True)
class BucketRepair:
    """What a task must know to repair one bucket.

    Answers pairs, how many of them needed which slack, and a row for each logged row looked at, by ``kind``.
    """

    query: PairsQuery
    schema: pa.Schema
    time_us: int

    def __call__(self, key: tuple[pa.Scalar, ...], rows: pa.Table, late: pa.Table) -> pa.Table:
        """Return the pairs that the bucket's logged rows have missed; the bucket's number is the key of the group."""
        rows = in_order(rows, first=("taken",))
        is_refused = pc.equal(late["what"], "refused")
        rows = rows.filter(pa.array(positions_of(late.filter(is_refused), rows) < 0))
        logged = late.filter(pc.invert(is_refused))
        at = positions_of(logged, rows)
        positions = np.flatnonzero(at >= 0)
        logged = logged.take(pa.array(at[positions]))
        numbered = pa.array(np.arange(rows.num_rows))
        batch = as_batch(rows.set_column(rows.schema.get_field_index("row"), "row", numbered))
        time_us = logged["time_us"].to_numpy()
        pairs = missing_pairs(
            self.query.condition,
            self.query.window_us,
            batch,
            positions,
            logged["horizon_us"].to_numpy(),
            self.time_us - time_us,
        )
        # By row, the stream time and the edge that were logged with it.
        known = np.zeros((2, len(batch)), np.int64)
        known[:, positions] = time_us, _edges(logged, self.query.window_us)
        left, right = rows.take(pa.array(pairs.left)), rows.take(pa.array(pairs.right))
        return pa.concat_tables(
            [
                self._of_kind(PAIR, pair_columns(self.query, pairs, left, right), len(pairs)),
                self._needed(key[0], pairs, batch, known),
                self._of_kind(LOOKED_AT, {}, len(positions)),
            ]
        )

    def _of_kind(self, kind: str, columns: Mapping[str, Any], rows: int) -> pa.Table:
        return filled(pa.table({"kind": pa.repeat(kind, rows), **columns}), rows, self.schema)

    def _needed(self, bucket: pa.Scalar, pairs: Pairs, rows: Batch, known: Int64s) -> pa.Table:
        """Return how many pairs needed which slack, for a policy that wants to know; rows are numbered in order."""
        policy = policy_of(self.query)
        if not isinstance(policy, NeededSlack):
            return self.schema.empty_table()
        policy.begin(self.query.window_us)
        earlier, later = np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)
        counted = policy.count_missed(rows.side[earlier], rows.event_us[earlier], *known[:, later])
        columns = {name: pa.array(column) for name, column in zip(COUNTS, counted.T, strict=True)}
        return self._of_kind(NEEDED, {**columns, "bucket": pa.repeat(bucket, len(counted))}, len(counted))


def _edges(logged: pa.Table, window_us: int) -> Int64s:
    """Return up to which time the partners of each logged row needed slack; without sources it follows stream time."""
    usual = pc.subtract(logged["time_us"], window_us)
    known = pc.coalesce(logged["edge_us"], usual) if "edge_us" in logged.column_names else usual
    edges: Int64s = known.to_numpy()
    return edges
