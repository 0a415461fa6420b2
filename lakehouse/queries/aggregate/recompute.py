"""Answers recomputed from raw where they rest on retracted rows, and the state without these.

    raw rows around the retracted ones -> parts of all answers at their ticks -> answers, where they count other results
    raw rows that are in their windows -> the state of every bucket

A retracted row can only take results away, so a tick and group with as many as before rests on none. Of folded rows
nothing can be taken away, and no extreme can be: therefore answers are recomputed, and the state made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Int64s, Shape
from lakehouse.algorithms.join_aggregate.revision import missing
from lakehouse.algorithms.late_join.ranges import covering_ranges
from lakehouse.queries.aggregate.bucket import PART, HeldAggregate, part_rows
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.rows import as_rows, is_used
from lakehouse.queries.aggregate.value_codes import BucketCodes
from lakehouse.queries.runtime.logged import horizons_of
from lakehouse.queries.runtime.retracted import Retracted
from lakehouse.queries.runtime.source import MOST_RANGES
from lakehouse.queries.runtime.tasks.bucket import STATE, BucketResult, state_rows

_NEVER = 2**62


@dataclass(frozen=True)
class Affected:
    """Answers and rows of a state that rest on retracted rows, as far as raw can replace them.

    ``ranges``: the ticks that are recomputed, as far apart as that no row counts in two of them; ends are included.
    ``alive_us``: since when rows that a state holds have been
    in their windows; None if it holds no retracted row. ``gone``: retracted rows with ticks that are not recomputed.
    """

    ranges: Sequence[tuple[int, int]]
    alive_us: int | None
    gone: int
    reach_us: int

    @classmethod
    def of(
        cls, query: AggregateQuery, retracted: Retracted, last_us: int | None, kept_us: int | None
    ) -> Affected:
        """Return them; ``last_us``: the last tick; ``kept_us``: since when raw is kept; None for no limit."""
        windows = [side.window_us for side in query.sides]
        reach_us, every_us = max(windows), query.every_us
        window_us = max(windows[side] for side in retracted.sides)
        ends_us = retracted.to_us - 1 + window_us
        whole_us = -_NEVER if kept_us is None else kept_us + reach_us
        times = retracted.noted.times()
        near = covering_ranges(times, times + window_us + reach_us, MOST_RANGES)
        ticks = ((-(-max(low, whole_us) // every_us) * every_us, high - reach_us) for low, high in near)
        ticks = ((low, high if last_us is None else min(high, last_us)) for low, high in ticks)
        alive_us = -_NEVER if last_us is None else -(-(last_us - query.slack_us) // every_us) * every_us
        holds = ends_us >= alive_us and (kept_us is None or alive_us >= whole_us)
        return cls(
            [(low, high) for low, high in ticks if low <= high],
            alive_us if holds else None,
            0 if kept_us is None else retracted.before(whole_us),
            reach_us,
        )

    @property
    def is_answered(self) -> bool:
        """True if there are ticks to be recomputed."""
        return bool(self.ranges)

    @property
    def reads(self) -> Sequence[tuple[int, int]]:
        """The times of the rows that are read, of a piece."""
        if self.alive_us is not None:
            return [(self.alive_us - self.reach_us, _NEVER)]
        return [(first - self.reach_us, last) for first, last in self.ranges]

    def pieces(self, number: int, every_us: int) -> Iterator[Affected]:
        """Yield the ticks in so many parts at most, and last what the state holds."""
        if self.is_answered:
            (first_us, _), (_, last_us) = self.ranges[0], self.ranges[-1]
            width_us = -(-(last_us - first_us + 1) // (number * every_us)) * every_us
            for start_us in range(first_us, last_us + 1, width_us):
                cut = ((max(low, start_us), min(high, start_us + width_us - 1)) for low, high in self.ranges)
                if own := [(low, high) for low, high in cut if low <= high]:
                    yield replace(self, ranges=own, alive_us=None)
        if self.alive_us is not None:
            yield replace(self, ranges=())


@dataclass(frozen=True)
class BucketsAgain:
    """The kernel of buckets; ``batch``: the last one, whose state is replaced under the name ``attempt``.

    ``came_us``: with a recall, what all streams had passed before each batch; rows have the batch that took them then.
    """

    query: AggregateQuery
    shape: Shape
    affected: Affected
    until_us: int | None
    batch: int
    attempt: str
    came_us: Mapping[int, int | None] = field(default_factory=dict)

    def __call__(self, bucket: int, rows: pa.Table) -> BucketResult | None:
        """Return the bucket's parts of answers, and its state."""
        rows = rows.filter(pa.array(is_used(rows)))
        if not rows.num_rows:
            return None
        state = {} if self.affected.alive_us is None else {STATE: self._state(rows, self.affected.alive_us)}
        return BucketResult({PART: self._parts(rows), **state})

    def _parts(self, rows: pa.Table) -> pa.Table:
        """Return the parts of all answers at the ticks that are recomputed."""
        codes = BucketCodes(self.query)
        whole = as_rows(rows, self.query, codes, self._came_us(rows))
        first_us, last_us = np.array(self.affected.ranges, np.int64).reshape(-1, 2).T
        # The first range that does not end before the row counts; an empty one where all do.
        at = np.searchsorted(last_us, whole.enter_us)
        first_us, last_us = np.append(first_us, _NEVER)[at], np.append(last_us, -_NEVER)[at]
        near = (whole.leave_us >= first_us) & (whole.enter_us <= last_us)
        whole, first_us, last_us = whole[near], first_us[near], last_us[near]
        # None has counted anywhere, and none counts at other ticks.
        whole = replace(
            whole,
            enter_us=np.maximum(whole.enter_us, first_us),
            leave_us=np.minimum(whole.leave_us, last_us),
        )
        return part_rows(
            self.query, missing(self.shape, whole, whole.leave_us + 1, self.query.every_us), codes
        )

    def _state(self, rows: pa.Table, alive_us: int) -> pa.Table:
        """Return the state with the rows that are in their windows, or have been since a time."""
        windows = np.array([each.window_us for each in self.query.sides], np.int64)
        leave_us = rows["event_us"].to_numpy() + windows[rows["side"].to_numpy()]
        alive = rows.filter(pa.array(leave_us >= alive_us))
        held = HeldAggregate(self.query, self.shape)
        _, change = held.process(alive, self.until_us, self._came_us(alive))
        return state_rows(change, {self.batch: self.attempt})

    def _came_us(self, rows: pa.Table) -> Int64s | None:
        return horizons_of(rows["taken"].to_numpy(), self.came_us) if self.came_us else None
