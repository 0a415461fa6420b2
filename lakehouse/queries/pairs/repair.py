"""Repair of a join: pairs that the online join missed, found in raw, each once.

Of raw it reads only the times around logged rows. Which of two rows was taken in first follows from the manifests of
the query's batches and the order inside a batch, so nothing is compared with the pairs that are there.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.late_join.contract import Batch, Int64s, Pairs
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.repair import missing_pairs
from lakehouse.engine.parts import sink_of
from lakehouse.queries.pairs.bucket import PAIR, pair_rows
from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.rows import as_batch, in_order, side_rows, with_equal_keys
from lakehouse.queries.pairs.run import PairsRun
from lakehouse.queries.runtime.logged import Logged, buckets_now
from lakehouse.queries.runtime.recall.needed_slack import NEEDED, needed_rows
from lakehouse.queries.runtime.repair import QueryRepair
from lakehouse.queries.runtime.tasks.bucket import BucketResult
from lakehouse.queries.runtime.tasks.by_bucket import Answered, Output, run_buckets
from lakehouse.spark import tables
from lakehouse.spark.key_codes import key_codes
from lakehouse.spark.noted_rows import PLACE
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.tables.table_log import read_columns

_LOGGED = ("bucket", "side", *PLACE, "event_us", "horizon_us", "time_us", "edge_us", "what")


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

    def find(self, logged: Logged) -> tuple[int, int]:
        """Append the missed pairs, and how much slack they would have needed."""
        run, number, layout, name = self.run, self.manifest.number, self.run.layout, self.run.query.name
        tables.create(layout.needed_slack(name), "needed_slack")
        found = self._answered(logged)
        pairs, needed = found.entries
        tables.side_by_side(
            lambda: run.commit(pairs, layout.pairs(name), "repair", number),
            lambda: run.commit(needed, layout.needed_slack(name), "repair", number),
        )
        crash_point("repair.pairs-appended")
        return found.counts[PAIR], sum(row["whole"] for row in found.metrics)

    def _answered(self, logged: Logged) -> Answered:
        """Run the buckets that have logged rows over the raw rows around these."""
        run, query, number, layout = self.run, self.run.query, self.manifest.number, self.run.layout
        source = self.source(logged)
        scales = self.scales(source)
        cut, buckets = scales[-1].buckets, buckets_now(logged.buckets, scales)
        sides = side_rows(source, query, run.streams, cut)
        raw = [self.taken(side, rows, buckets) for side, rows in enumerate(sides)]
        where = f"(what = 'refused' OR what = 'missed' AND batch > {self.after})"
        log = self.log_rows(_LOGGED, where, buckets, scales, logged.ranges)
        kernel = BucketRepair(query, self.last.buckets, self.time_us or 0, self.whole_from_us)
        pairs, needed = sink_of(layout.pairs(query.name)), sink_of(layout.needed_slack(query.name))
        outputs = (
            Output(PAIR, pairs, {"found": "repair", "batch": number}),
            Output(NEEDED, needed, {"repair": number}),
        )
        step = f"repair {query.name}, repair {number}"
        return run_buckets(run.engine, step, [*raw, log], cut, kernel, outputs)


@dataclass(frozen=True)
class BucketRepair:
    """Inputs of a task that repairs one bucket.

    Answers pairs, how many of them needed which slack, and how many logged rows are not before ``whole_from_us``.
    ``buckets``: the number in the last batch, whose buckets needed the slack.
    """

    query: PairsQuery
    buckets: int
    time_us: int
    whole_from_us: int

    def __call__(self, bucket: int, rows: pa.Table) -> BucketResult | None:
        """Return the pairs that the bucket's logged rows, which have ``what``, have missed; None without such rows."""
        is_logged = rows["what"].is_valid()
        late = rows.filter(is_logged)
        if not late.num_rows:
            return None
        rows = in_order(rows.filter(pc.invert(is_logged)), first=("taken",))
        is_refused = pc.equal(late["what"], "refused")
        rows = rows.filter(pa.array(_positions_of(late.filter(is_refused), rows) < 0))
        logged = late.filter(pc.invert(is_refused))
        at = _positions_of(logged, rows)
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
        pairs, left, right = with_equal_keys(
            pairs, *(rows.take(pa.array(at)) for at in (pairs.left, pairs.right))
        )
        found = {
            PAIR: pair_rows(self.query, pairs, left, right),
            NEEDED: self._needed(bucket % self.buckets, pairs, batch, known),
        }
        whole = int((batch.event_us[positions] >= self.whole_from_us).sum())
        return BucketResult(found, {"whole": whole})

    def _needed(self, bucket: int, pairs: Pairs, rows: Batch, known: Int64s) -> pa.Table:
        """Return how many pairs needed which slack, for a policy that wants to know; rows are numbered in order."""
        policy = policy_of(self.query)
        if not isinstance(policy, NeededSlack):
            return needed_rows()
        policy.begin(self.query.window_us)
        earlier, later = np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)
        counted = policy.count_missed(rows.side[earlier], rows.event_us[earlier], *known[:, later])
        return needed_rows(counted, bucket)


def _positions_of(known: pa.Table, rows: pa.Table) -> Int64s:
    """Return for each row where it is in ``known``, by its place in the sources; -1 if it is not there.

    If it is there several times, the first is found.
    """
    there, wanted = key_codes([each.select(["side", *PLACE]) for each in (known, rows)])
    first = np.full(max(there.code.max(initial=-1), wanted.code.max(initial=-1)) + 1, -1)
    first[there.code[::-1]] = np.arange(len(there.code))[::-1]
    return first[wanted.code]


def _edges(logged: pa.Table, window_us: int) -> Int64s:
    """Return up to which time the partners of each logged row needed slack; without sources it follows stream time."""
    edges: Int64s = pc.coalesce(logged["edge_us"], pc.subtract(logged["time_us"], window_us)).to_numpy()
    return edges
