"""Compiled dynamic programme over (stops visited, last stop), and the way back through it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


# Without the flag for NaN the least of a line cannot be found by vector instructions; there is no NaN here.
@njit(cache=True, fastmath={"nnan"})
def cheapest_by_set(sizes: Any, start: Any, between: Any) -> Any:
    """Return the least cost of visiting each set of stops, by the last of them; infinite for stops not in the set."""
    stops = len(start)
    into = between.T.copy()
    least = np.full((1 << stops, stops), np.inf)
    for last in range(stops):
        least[1 << last, last] = sizes[0] * start[last]
    for visited in range(1, 1 << stops):
        if visited & (visited - 1) == 0:
            continue
        for last in range(stops):
            if (visited >> last) & 1:
                before = visited ^ (1 << last)
                cheapest = np.inf
                for previous in range(stops):
                    cheapest = min(cheapest, least[before, previous] + sizes[before] * into[last, previous])
                least[visited, last] = cheapest
    return least


@njit(cache=True)
def order_of(least: Any, sizes: Any, between: Any, back: Any) -> Any:
    """Return the cheapest order, the lowest stop where several are as cheap."""
    stops = len(back)
    order = np.empty(stops, np.int64)
    visited = (1 << stops) - 1
    order[-1] = np.argmin(least[visited] + sizes[visited] * back)
    for visit in range(stops - 1, 0, -1):
        visited ^= 1 << order[visit]
        order[visit - 1] = np.argmin(least[visited] + sizes[visited] * between[:, order[visit]])
    return order
