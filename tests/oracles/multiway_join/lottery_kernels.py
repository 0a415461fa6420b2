"""Compiled loop of Lottery routing: choose a stop, let the rows meet its window, learn from what came of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.multiway_join.cost import meet


@njit(cache=True)
def route(trip: Any, site: int, stops: Any, sent: Any, returned: Any) -> Any:
    """Return positions of all stops in the order of the visits; what was sent and returned is added up."""
    block, stored, is_factorised = trip
    order = np.empty(len(stops), np.int64)
    travelling, rows, at = block.copy(), block.sum(), site
    is_visited = np.zeros(len(stops), np.bool_)
    for visit in range(len(stops)):
        best, largest = 0, -1.0
        for position in range(len(stops)):
            came_back = returned[at, stops[position]]
            ratio = sent[at, stops[position]] / came_back if came_back > 0 else np.inf
            if not is_visited[position] and ratio > largest:
                best, largest = position, ratio
        order[visit] = best
        is_visited[best] = True
        made = meet(travelling, stored[best], is_factorised)
        sent[at, stops[best]] += rows
        returned[at, stops[best]] += made
        rows, at = made, stops[best]
    return order
