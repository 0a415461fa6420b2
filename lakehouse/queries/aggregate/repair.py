"""Repair of answers by logged rows, at ticks that were behind the slack when they came, found in raw.

Of raw it reads the rows that the repaired batches and the ones before had taken, in the buckets and around the times of
logged rows. From when each has counted follows from the log, so nothing is compared with the answers that are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Shape
from lakehouse.algorithms.join_aggregate.revision import missing
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.queries.aggregate.alarms import Changed
from lakehouse.queries.aggregate.bucket import PART, metrics_with_ticks, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used, side_rows
from lakehouse.queries.aggregate.run import AggregateRun, ticks_of
from lakehouse.queries.aggregate.slack import passed_before
from lakehouse.queries.aggregate.value_codes import BucketCodes
from lakehouse.queries.runtime.logged import Logged, buckets_now, horizons_of
from lakehouse.queries.runtime.repair import QueryRepair
from lakehouse.queries.runtime.tasks.bucket import BucketResult
from lakehouse.queries.runtime.tasks.by_bucket import run_buckets


@dataclass(frozen=True)
class Repair(QueryRepair[AggregateRun]):
    """A repair of a join-aggregate: batches revise the same answers, so none may run meanwhile.

    The batch that read a logged row counted what came after its horizon.
    """

    between_batches = True
    to_horizon = True

    @property
    def reach_us(self) -> int:
        """The widest window."""
        return max(side.window_us for side in self.run.query.sides)

    def find(self, logged: Logged) -> tuple[int, int]:
        """Append parts, answers and alarms."""
        run, number = self.run, self.manifest.number
        source = self.source(logged)
        scales = self.scales(source)
        cut, buckets = scales[-1].buckets, buckets_now(logged.buckets, scales)
        sides = side_rows(source, run.query, run.streams, cut)
        raw = [self.taken(side, rows, buckets) for side, rows in enumerate(sides)]
        came_us = passed_before(run.layout, run.query, self.after, self.through)
        kernels = BucketRepairs(run.query, run.shape, logged.horizon_us, self.whole_from_us, came_us)
        step = f"repair {run.query.name}, repair {number}"
        outputs = [run.parts_output()]
        found = run_buckets(run.engine, step, raw, cut, kernels, outputs)
        metrics, ticks = ticks_of(found.metrics)
        last_us = None if self.time_us is None else floor_to(run.query.every_us, self.time_us)
        changed = None if ticks.first_us is None or last_us is None else Changed(ticks.first_us, last_us)
        answered = run.answer(found.entries[0], ticks, changed, "repair", number)
        return answered.new + answered.revised, sum(row["rows"] for row in metrics)


@dataclass(frozen=True)
class BucketRepairs:
    """The kernel of a repair's buckets. Its metrics count as rows the logged ones with all their partners.

    ``horizon_us``: the horizon of each batch that logged rows, which is that of all its buckets: the rows that it read
    and logged are those with a tick before it. ``came_us``: what all streams had passed before each of these batches.
    """

    query: AggregateQuery
    shape: Shape
    horizon_us: Mapping[int, int]
    whole_from_us: int
    came_us: Mapping[int, int | None] = field(default_factory=dict)

    def __call__(self, bucket: int, rows: pa.Table) -> BucketResult | None:
        """Return what the bucket's answers lack."""
        rows = rows.filter(pa.array(is_used(rows)))
        if not rows.num_rows:
            return None
        codes, every_us = BucketCodes(self.query), self.query.every_us
        taken = rows["taken"].to_numpy()
        # Rows of other batches came before these.
        whole = as_rows(rows, self.query, codes, horizons_of(taken, self.came_us))
        horizon_us = horizons_of(taken, self.horizon_us)
        first = -(-whole.enter_us // every_us) * every_us
        is_logged = (first < horizon_us) & (first <= whole.leave_us)
        counted_from = np.where(is_logged, horizon_us, whole.enter_us)
        partials = missing(self.shape, whole, counted_from, every_us)
        rows_whole = int((is_logged & (whole.enter_us >= self.whole_from_us)).sum())
        metrics = metrics_with_ticks({"rows": rows_whole}, partials[:0], partials)
        return BucketResult({PART: part_rows(self.query, partials, codes)}, metrics)
