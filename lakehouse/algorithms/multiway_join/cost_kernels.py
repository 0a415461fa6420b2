"""Compiled loops over the entries of a trip: how many rows travel after which stops.

Flat, a row travels for each combination found so far: ``sum over entries of block * product of stored``. Factorised,
the rows of a key travel once each, per site; the only row of its key at a site rides along in any of the others, so
they are the sum of those of its counts that are above 1, or 1 if none is. That is never more than their product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def sizes_along(block: Any, stored: Any, order: Any, is_factorised: bool) -> Any:
    """Return the rows that leave the start, and then each stop of an order."""
    sizes = np.empty(len(order) + 1)
    travelling = block.copy()
    sizes[0] = travelling.sum()
    for visit in range(len(order)):
        sizes[visit + 1] = meet(travelling, stored[order[visit]], is_factorised)
    return sizes


@njit(cache=True)
def meet(travelling: Any, stored: Any, is_factorised: bool) -> Any:
    """Let rows meet a site's window, in place; return how many travel on."""
    total = 0.0
    for entry in range(len(travelling)):
        travelling[entry] = met(travelling[entry], stored[entry], is_factorised)
        total += travelling[entry]
    return total


@njit(cache=True)
def met(travelling: float, stored: float, is_factorised: bool) -> Any:
    """Return what travels on of one entry; the order of the sites plays no part, and meeting 1 changes nothing."""
    if is_factorised and travelling > 1 and stored > 1:
        return travelling + stored
    return travelling * stored


@njit(cache=True)
def sizes_by_set(block: Any, stored: Any, is_factorised: bool) -> Any:
    """Return the rows that travel after the stops of each set, a bit a stop; O(2^stops x entries).

    ``after[t]`` is what travels after the set's stops from t on: counting up changes the lowest of them only.
    """
    stops, entries = stored.shape
    sizes = np.empty(1 << stops)
    after = np.empty((stops + 1, entries))
    after[:] = block
    sizes[0] = block.sum()
    for visited in range(1, 1 << stops):
        lowest = 0
        while not (visited >> lowest) & 1:
            lowest += 1
        total = 0.0
        for entry in range(entries):
            travels = met(after[lowest + 1, entry], stored[lowest, entry], is_factorised)
            after[lowest, entry] = travels
            total += travels
        for below in range(lowest):
            after[below] = after[lowest]
        sizes[visited] = total
    return sizes
