"""Recall of every period, once repair has told what there was to find.

A period is event time ``[t, t + period)``, sliding by a step; a pair belongs to the periods of its newer row.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
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


def audit(
    online_us: Int64s,
    repaired_us: Int64s,
    period_us: int,
    step_us: int,
    span_us: tuple[int, int] | None = None,
) -> Periods:
    """Return every period between the first and the last pair, from the event times of pairs.

    ``span_us`` are the ends of event time when known otherwise; a stream shorter than a period is one period.

    Raises:
        ValueError: the period is not a positive multiple of the step.
    """
    if step_us < 1 or period_us < step_us or period_us % step_us:
        raise ValueError(
            f"expected a period that is a multiple of the step, found {period_us} and {step_us} us"
        )
    ends = np.concatenate([online_us, repaired_us])
    if span_us is None and len(ends) == 0:
        none = np.empty(0, np.int64)
        return Periods(none, none, none)
    start, end = span_us or (int(ends.min()), int(ends.max()) + 1)
    first = start // step_us
    steps = max(-(-end // step_us) - first, 1)
    online, repaired = (
        np.bincount(times // step_us - first, minlength=steps)[:steps] for times in (online_us, repaired_us)
    )
    return periods_of(online + repaired, online, first * step_us, period_us, step_us)


def periods_of(pairs: Int64s, online: Int64s, start_us: int, period_us: int, step_us: int) -> Periods:
    """Return the sliding periods of counts that are given by step."""
    width = min(period_us // step_us, len(pairs))
    sliding = [
        np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        for counts in (pairs, online)
    ]
    whole, found = (sums[width:] - sums[:-width] for sums in sliding)
    return Periods(start_us + np.arange(len(whole)) * step_us, whole, found)


def periods_with_pairs(slots: Int64s, pairs: Int64s, online: Int64s, period_us: int, step_us: int) -> Periods:
    """Return the periods that have any pair, of counts by slot ``[slot * step, (slot + 1) * step)``, ascending.

    As ``audit``, but silent time between pairs costs nothing, however long it is.
    """
    if not len(slots):
        return audit(slots, slots, period_us, step_us)
    width = period_us // step_us
    cuts = [0, *(np.flatnonzero(np.diff(slots) >= width) + 1).tolist(), len(slots)]
    found = [
        # Inside, a run is followed by the periods that only begin or end in it; at the ends whole periods alone count.
        _periods_of_run(
            slots[low:high] - slots[low],
            (pairs[low:high], online[low:high]),
            int(slots[low]),
            (width - 1 if low else 0, width - 1 if high < len(slots) else 0),
            (period_us, step_us),
        )
        for low, high in pairwise(cuts)
    ]
    whole = [
        np.concatenate([getattr(each, name) for each in found]) for name in ("start_us", "pairs", "online")
    ]
    kept = whole[1] > 0
    return Periods(*(column[kept] for column in whole))


def _periods_of_run(
    places: Int64s,
    counts: tuple[Int64s, Int64s],
    first: int,
    around: tuple[int, int],
    spans_us: tuple[int, int],
) -> Periods:
    before, after = around
    period_us, step_us = spans_us
    pairs, online = (np.zeros(before + int(places[-1]) + 1 + after, np.int64) for _ in counts)
    pairs[before + places], online[before + places] = counts
    return periods_of(pairs, online, (first - before) * step_us, period_us, step_us)
