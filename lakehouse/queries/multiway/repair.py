"""Repair of a multiway join: results that the online join missed, found in raw, each once.

A result is found online by the newest batch N that has a row of it, unless a row of an earlier batch had left its
window by then: was beyond N's reach. Then all its rows of batch N are logged, as each is at most that window newer. So
with the logged rows of batch N a repair looks for all results whose newest batch is N and that have such a row;
manifests tell which batch took in what, and nothing is compared with the results that are there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.multiway_join.contract import Int64s
from lakehouse.algorithms.multiway_join.joining import Joined, results_of
from lakehouse.engine.parts import sink_of
from lakehouse.queries.multiway.places import (
    RESULT,
    as_joined,
    by_side,
    most_met,
    shown,
    used_rows,
)
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.multiway.reach import Reach, policy_of, reaches, slack_needed
from lakehouse.queries.multiway.rows import keyed, side_columns
from lakehouse.queries.multiway.run import MultiwayRun
from lakehouse.queries.runtime.logged import Logged, horizons_of
from lakehouse.queries.runtime.recall.needed_slack import NEEDED, needed_rows
from lakehouse.queries.runtime.repair import QueryRepair
from lakehouse.queries.runtime.tasks.bucket import BucketResult
from lakehouse.queries.runtime.tasks.by_bucket import ROWS_A_PLACE, Output, run_buckets
from lakehouse.spark import tables
from lakehouse.storage.crashpoint import crash_point


@dataclass(frozen=True)
class Repair(QueryRepair[MultiwayRun]):
    """A repair of a join. Safe while the streams run on: a batch that finishes meanwhile is left to the next one."""

    @property
    def reach_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.run.query.sides)

    def find(self, logged: Logged) -> tuple[int, int]:
        """Append the missed results."""
        run, query, number = self.run, self.run.query, self.manifest.number
        source, table = self.source(logged), run.layout.multiway(query.name)
        columns = [side_columns(query, run.streams, side) for side in range(len(query.sides))]
        # The files are those of any number of places.
        held = sum(rows for side, own in enumerate(columns) for _, rows in source.read(side, own).files)
        places = 1 + held // ROWS_A_PLACE
        sides = [source.read(side, keyed(own, places)) for side, own in enumerate(columns)]
        rows = [self.taken(side, own) for side, own in enumerate(sides)]
        needed = run.layout.needed_slack(query.name)
        tables.create(needed, "needed_slack")
        outputs = [
            Output(RESULT, sink_of(table), {"found": "repair", "batch": number}),
            Output(NEEDED, sink_of(needed), {"repair": number}),
        ]
        step = f"repair {query.name}, repair {number}"
        known = reaches(run.layout, query, self.after, self.through)
        kernels = RepairPlaces(query, known, self.whole_from_us)
        found = run_buckets(run.engine, step, rows, places, kernels, outputs)
        for entries, of in zip(found.entries, (table, needed), strict=True):
            run.commit(entries, of, "repair", number)
        crash_point("repair.results-appended")
        return found.counts[RESULT], sum(row["whole"] for row in found.metrics)


@dataclass(frozen=True)
class RepairPlaces:
    """The kernel of places, each of which has all rows of its keys; ``reach``: of the batches that are repaired."""

    query: MultiwayQuery
    reach: Mapping[int, Reach]
    whole_from_us: int

    def __call__(self, place: int, rows: pa.Table) -> BucketResult:
        """Return the result of a place with rows."""
        used = [used_rows(each) for each in by_side(rows, len(self.query.sides))]
        late = LateRows.of(self.query, used, [each["taken"].to_numpy() for each in used], self.reach)
        found = np.concatenate([late.missed(side) for side in range(len(used))])
        times = (each.event_us[late.rows(side)] for side, each in enumerate(late.sides))
        whole = sum(int((event_us >= self.whole_from_us).sum()) for event_us in times)
        results = shown(self.query, used, found)
        return BucketResult({RESULT: results, NEEDED: late.needed(found)}, {"whole": whole})


@dataclass(frozen=True)
class LateRows:
    """Rows that join, by side: with the batch that took each in, and the reach of batches."""

    query: MultiwayQuery
    sides: Sequence[Joined]
    taken: Sequence[Int64s]
    reach: Mapping[int, Reach]

    @classmethod
    def of(
        cls,
        query: MultiwayQuery,
        used: Sequence[pa.Table],
        taken: Sequence[Int64s],
        reach: Mapping[int, Reach],
    ) -> Self:
        """Return rows; ``reach``: of the batches whose late rows are looked at."""
        sides = as_joined(query, used, [np.zeros(rows.num_rows, np.bool_) for rows in used])
        return cls(query, sides, taken, reach)

    def rows(self, side: int) -> Int64s:
        """Return the places of a side's rows that were late."""
        late_us = horizons_of(
            self.taken[side], {batch: own.late_us(side) for batch, own in self.reach.items()}
        )
        return np.flatnonzero(self.sides[side].event_us < late_us)

    def missed(self, side: int) -> Int64s:
        """Return what its late rows have missed, where it is the last side that has a row of the newest batch."""
        found = results_of(self.sides, side, self.rows(side), most_met(self.query))
        newest = self.taken[side][found[:, side]]
        is_last, is_missed = np.ones(len(found), np.bool_), np.zeros(len(found), np.bool_)
        for stop, other in enumerate(self.sides):
            if stop != side:
                from_us = {batch: own.since_us()[stop] for batch, own in self.reach.items()}
                taken, event_us = self.taken[stop][found[:, stop]], other.event_us[found[:, stop]]
                is_last &= taken <= newest if stop < side else taken < newest
                is_missed |= (taken < newest) & (event_us < horizons_of(newest, from_us))
        return found[is_last & is_missed]

    def needed(self, found: Int64s) -> pa.Table:
        """Return how many of the missed results needed which slack when; none of a query whose slack is given."""
        policy = policy_of(self.query)
        if policy is None or not len(found):
            return needed_rows()
        event_us = np.column_stack([each.event_us[found[:, side]] for side, each in enumerate(self.sides)])
        taken = np.column_stack([each[found[:, side]] for side, each in enumerate(self.taken)])
        newest = taken.max(axis=1)
        time_us = horizons_of(newest, {batch: own.time_us for batch, own in self.reach.items()})
        stream, slack_us = slack_needed(self.query, event_us, taken == newest[:, None], time_us[:, None])
        return needed_rows(policy.count_missed(stream, np.zeros_like(slack_us), time_us, slack_us))
