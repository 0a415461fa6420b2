"""Recall of every period, once repair has told what there was to find; and which periods a repair may still change.

A period is event time ``[t, t + period)``, sliding by a step; a pair belongs to the periods of its newer row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from lakehouse.algorithms.late_join.contract import Bools, Float64s, Int64s

# A period with fewer pairs is reported, not scored: one pair would be more than a percent.
SCORED_PAIRS = 100


@dataclass(frozen=True)
class Periods:
    """Periods in order of time: when each starts, its pairs, and how many were found online."""

    start_us: Int64s
    pairs: Int64s
    online: Int64s

    @property
    def recall(self) -> Float64s:
        """Return the share of each period's pairs that was found online; 1 of none."""
        recall: Float64s = np.where(self.pairs > 0, self.online / np.maximum(self.pairs, 1), 1.0)
        return recall

    @property
    def is_scored(self) -> Bools:
        """Tell which periods have enough pairs to be judged."""
        scored: Bools = self.pairs >= SCORED_PAIRS
        return scored

    def met(self, recall: float) -> tuple[int, int]:
        """Return how many scored periods have reached a recall, and how many are scored."""
        scored = self.is_scored
        return int(np.count_nonzero(scored & (self.recall >= recall))), int(np.count_nonzero(scored))


@dataclass(frozen=True)
class Waiting:
    """Logged rows that no repair has looked at: the first and the last event time that a missing pair of each can have.

    A row x misses pairs with rows y of ``[x.ts - w, min(x.ts + w, H)]``, H the horizon it was logged with; a pair is of
    its newer row's time. So it lies in ``[x.ts, max(x.ts, min(x.ts + w, H))]``, both ends included.
    """

    first_us: Int64s
    last_us: Int64s

    @classmethod
    def of(cls, event_us: Int64s, horizon_us: Int64s, window_us: int) -> Self:
        """Return what waits, from the times and horizons of logged rows."""
        return cls(event_us, np.maximum(event_us, np.minimum(event_us + window_us, horizon_us)))

    def since(self, start_us: int) -> Waiting:
        """Return those that may bring pairs of this time or later, and of those pairs only these."""
        kept = self.last_us >= start_us
        return Waiting(np.maximum(self.first_us[kept], start_us), self.last_us[kept])

    def __len__(self) -> int:
        return len(self.first_us)

    def inside(self, start_us: Int64s, length_us: int) -> Int64s:
        """Return how many may bring pairs to each ``[start, start + length)``; one is open that has any.

        Cost: O((rows + starts) log rows).
        """
        begun = np.searchsorted(np.sort(self.first_us), start_us + length_us)
        ended = np.searchsorted(np.sort(self.last_us), start_us)
        return begun - ended

    def steps(self, step_us: int) -> Int64s:
        """Return the starts, ascending, of all steps that are open; gaps between them cost nothing."""
        order = np.argsort(self.first_us, kind="stable")
        low = self.first_us[order] // step_us
        # Only what reaches beyond all before it adds steps: from where they end, or where it begins.
        reached = np.maximum.accumulate(self.last_us[order] // step_us)
        low[1:] = np.maximum(low[1:], reached[:-1] + 1)
        counts = np.maximum(reached - low + 1, 0)
        nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts: Int64s = (np.repeat(low, counts) + nth) * step_us
        return starts


def periods_of_steps(at_us: Int64s, pairs: Int64s, online: Int64s, period_us: int, step_us: int) -> Periods:
    """Return the sliding periods of counts by step, those in which no step is given left out.

    ``at_us`` are the starts of the steps given, ascending multiples of the step: gaps of years cost nothing.
    """
    if len(at_us) == 0:
        return Periods(at_us, at_us, at_us)
    last = max(int(at_us[-1]) + step_us - period_us, int(at_us[0]))
    # Each period is given by the first of its steps.
    low = np.maximum(np.concatenate([at_us[:1], at_us[:-1] + step_us]), at_us - period_us + step_us)
    low = np.maximum(low, at_us[0])
    counts = np.maximum((np.minimum(at_us, last) - low) // step_us + 1, 0)
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    start = np.repeat(low, counts) + nth * step_us
    first, end = np.searchsorted(at_us, start), np.searchsorted(at_us, start + period_us)
    whole, found = (
        sums[end] - sums[first]
        for sums in (np.concatenate([[0], np.cumsum(each, dtype=np.int64)]) for each in (pairs, online))
    )
    return Periods(start, whole, found)
