"""SMJE: the cheapest order of all."""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.multiway_join.contract import Int64s, Trip
from lakehouse.algorithms.multiway_join.cost import sizes_by_set

MOST_STOPS = 20


class Smje:
    """The optimum, by a dynamic programme over (stops visited, last stop).

    What travels after some stops does not depend on the order in which they were visited, so of all ways to have
    visited them and to stand at the last only the cheapest can be part of the cheapest order.

    Cost: O(2^k (k^2 + entries)) time and 8 k 2^k bytes for k stops: 80 MB for 19.
    Guarantee: no order is cheaper (``every_order``).
    Reference: Yin, Zhang, SMJ, 2009, section 3.3.
    Differs from the paper, which tries each of the k! orders.
    """

    is_sent = True

    def choose(self, trip: Trip) -> Int64s:
        """Return the cheapest order. Raises ValueError when there are too many stops; ``Smjh`` takes them."""
        legs = trip.legs
        if len(legs.stops) > MOST_STOPS:
            raise ValueError(
                f"expected at most {MOST_STOPS + 1} sites, found {len(legs.stops) + 1}; use Smjh"
            )
        sizes = sizes_by_set(trip.block, trip.stored, trip.is_factorised)
        least = cheapest_by_set(sizes, legs.start, legs.between)
        order: Int64s = order_of(least, sizes, legs.between, legs.back)
        return order

    def snapshot(self) -> bytes:
        """Return nothing: there is no state."""
        return b""

    def restore(self, packed: bytes) -> None:
        """Do nothing."""


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
