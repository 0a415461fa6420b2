"""Compiled loop of the paper's statistics: per side and bin of delay, rows, matches and offers."""

from __future__ import annotations

from typing import Any

from numba import njit

from lakehouse.algorithms.late_join.arrival_counts import arrived_between, count_arrival
from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.slack_grid import bin_of

# Of each row by the bin of its delay: how many, its matches, the rows that it was offered.
ROWS, MATCHES, OFFERS = range(3)


@njit(cache=True)
def learn_delays(
    trace: Any, window: int, width: int, grid: Any, by_delay: Any, largest: Any, arrivals: Any
) -> None:
    """Add rows to ``by_delay``, sides x 3 x bins, and raise the largest delay of each side."""
    granules, counts = arrivals
    per_us = 1.0 / grid[1]
    for index in range(len(trace)):
        row = trace[index]
        side = row.side
        delay = 0 if row.newest == NO_TIME else max(0, row.newest - row.ts)
        largest[side] = max(largest[side], delay)
        # A delay of (D g, (D + 1) g] is covered by a slack of (D + 1) g: one microsecond less than a need.
        where = bin_of(grid, delay - 1, per_us)
        low, high = max(row.ts - window, row.horizon + 1), row.ts + window
        by_delay[side, ROWS, where] += 1.0
        by_delay[side, MATCHES, where] += row.matches
        if low <= high:
            by_delay[side, OFFERS, where] += arrived_between(granules, counts, 1 - side, low, high, width)
        count_arrival(granules, counts, side, row.ts // width)
