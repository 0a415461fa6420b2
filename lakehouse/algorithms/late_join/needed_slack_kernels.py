"""Compiled loops of the needed-slack policy: what logged rows may have missed, and the cheapest slacks that suffice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.arrival_counts import arrived, arrived_between, count_arrival
from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.slack_grid import bin_of

# One row in so many tells the selectivity of all.
SAMPLED = 16
# Fields of `totals`: matches and offers of sampled rows, and how many rows were looked at.
MATCHES, OFFERS, SEEN = range(3)


@njit(cache=True)
def learn(
    trace: Any, window: int, width: int, grid: Any, quarter: Any, estimated: Any, behind: Any, arrivals: Any
) -> None:
    """Add rows to a quarter: their lag behind T, and for logged rows the slack that missed pairs may have needed.

    ``estimated`` and ``behind`` are sides x bins, by stored side; ``quarter`` are the totals that go with them.
    """
    granules, counts = arrivals
    for index in range(len(trace)):
        row = trace[index]
        other = 1 - row.side
        if row.time != NO_TIME:
            behind[other, bin_of(grid, row.edge + window - row.ts)] += 1.0
        if row.logged or int(quarter[SEEN]) % SAMPLED == 0:
            low, high = max(row.ts - window, row.horizon + 1), row.ts + window
            offers = 0.0
            if low <= high:
                offers = arrived_between(granules, counts, other, low, high, width)
            if int(quarter[SEEN]) % SAMPLED == 0:
                quarter[MATCHES] += row.matches
                quarter[OFFERS] += offers
            if row.logged:
                _add_missed(row, offers, window, width, grid, quarter, estimated[other], arrivals)
        quarter[SEEN] += 1.0
        count_arrival(granules, counts, row.side, row.ts // width)


@njit(cache=True)
def _add_missed(
    row: Any,
    offers: float,
    window: int,
    width: int,
    grid: Any,
    quarter: Any,
    estimated: Any,
    arrivals: Any,
) -> None:
    """Spread what a logged row may have missed over the slacks that it would have needed."""
    granules, counts = arrivals
    low, high = row.ts - window, min(row.horizon, row.ts + window)
    usual = quarter[MATCHES] / quarter[OFFERS] if quarter[MATCHES] > 0.0 and quarter[OFFERS] > 0.0 else 0.0
    if usual > 0.0:
        share = (row.matches + 2.0) / (offers + 2.0 / usual)
    else:
        share = row.matches / offers if offers > 0.0 else 0.0
    share = min(share, 1.0)
    for granule in range(low // width, high // width + 1):
        count = arrived(granules, counts, 1 - row.side, granule)
        if count:
            first, last = max(low, granule * width), min(high, granule * width + width - 1)
            needed = row.edge - (first + last) // 2
            estimated[bin_of(grid, needed)] += share * count * (last - first + 1) / width


@njit(cache=True)
def cheapest(covered: Any, totals: Any, share: float, least: Any, rates: Any, grid: Any) -> Any:
    """Return the bins of both slacks that need least memory and cover a share of every period's pairs.

    ``covered`` is periods x sides x slacks, pairs that each slack covers; ``totals`` pairs of each period; ``least``
    bins below which no side goes. Where nothing covers enough the largest useful slack is taken. Cost O(periods x
    slacks): the more slack one side has, the less the other needs.
    """
    last = covered.shape[2] - 1
    right = last
    best_left, best_right, best = last, last, np.inf
    for left in range(least[0], last + 1):
        while right > least[1] and _suffices(covered, totals, share, left, right - 1):
            right -= 1
        if not _suffices(covered, totals, share, left, right):
            continue
        memory = grid[left] * rates[0] + grid[right] * rates[1]
        if memory < best:
            best_left, best_right, best = left, right, memory
    return best_left, best_right


@njit(cache=True)
def _suffices(covered: Any, totals: Any, share: float, left: int, right: int) -> Any:
    for period in range(len(totals)):
        if covered[period, 0, left] + covered[period, 1, right] < share * totals[period] - 1e-9:
            return False
    return True
