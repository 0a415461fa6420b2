"""Compiled loops of the repair: logged rows look up the candidates of their cells by time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.probing import compare, is_near


@njit(cache=True)
def find_missing(logged: Any, horizon: Any, window: int, plan: Any, rows: Any, index: Any) -> Any:
    """Return (logged row, its earlier partner) for every pair that was missed, positions in ``rows``.

    ``index`` holds, by side, the candidates in order of (cell, event time), their cells and their times.
    """
    side, event, cells, numbers, values = rows
    shape, reach, offsets, comparisons = plan
    pairs, found = np.empty((1024, 2), np.int64), 0
    for number in range(len(logged)):
        at = logged[number]
        mine, low = side[at], event[at] - window
        high = min(horizon[number], event[at] + window)
        order, by_cell, by_time = index[1 - mine]
        for offset in offsets:
            cell = cells[at] + offset
            for place in range(_first(by_cell, by_time, cell, low), len(order)):
                if by_cell[place] != cell or by_time[place] > high:
                    break
                partner = order[place]
                if partner < at and _joins(shape, reach, comparisons, numbers, at, mine, values, partner):
                    if found == len(pairs):
                        more = np.empty((2 * found, 2), np.int64)
                        more[:found] = pairs
                        pairs = more
                    pairs[found, 0], pairs[found, 1] = at, partner
                    found += 1
    return pairs[:found]


@njit(cache=True)
def _first(by_cell: Any, by_time: Any, cell: int, low: int) -> Any:
    """Return the first place that is not before (cell, low)."""
    start, end = 0, len(by_cell)
    while start < end:
        middle = (start + end) // 2
        if by_cell[middle] < cell or (by_cell[middle] == cell and by_time[middle] < low):
            start = middle + 1
        else:
            end = middle
    return start


@njit(cache=True)
def _joins(
    shape: Any, reach: float, comparisons: Any, numbers: Any, at: int, mine: int, values: Any, partner: int
) -> Any:
    if shape[0] != 0:
        dx = numbers[at, shape[1]] - numbers[partner, shape[1]]
        dy = numbers[at, shape[2]] - numbers[partner, shape[2]]
        if not is_near(reach, dx, dy, shape[0] == 2):
            return False
    return compare(comparisons, numbers, at, mine, values, partner)
