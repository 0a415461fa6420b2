"""SMJH: a cheap order for any number of sites, and both orderings by name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.multiway_join.contract import Int64s, Ordering, Trip
from lakehouse.algorithms.multiway_join.cost import met
from lakehouse.algorithms.multiway_join.exhaustive import Smje

# Routes that are kept.
ROUTES = 64


class Smjh:
    """A route built stop by stop from its end, where most rows travel: with one greedily, else ``width`` routes kept.

    Rows that have passed the filter match something at every stop, so they only become more on their way, and the last
    ways cost most: they are chosen first. Sizes are exact; what a route promises is its cost so far, the cheapest way
    into its first stop, and an estimate of the ways before that.

    Cost: O(width k^2) steps for k stops, each O(entries + k); no memory to speak of.
    Guarantee: an order of all stops, no more; up to ``width`` routes it is the cheapest. How far it is from that is
    measured by the benchmark.
    Reference: Yin, Zhang, SMJ, 2009, section 3.3; the paper names a heuristic of O(k^2), its listing is lost. One route
    is as dear; to keep more is ours.
    """

    is_sent = True

    def __init__(self, width: int = ROUTES) -> None:
        if width < 1:
            raise ValueError(f"expected to keep at least one route, found {width}")
        self.width = width

    def choose(self, trip: Trip) -> Int64s:
        """Return the cheapest order found."""
        legs = trip.legs
        ways = legs.start, legs.between, legs.back
        order: Int64s = search((trip.block, trip.stored, trip.is_factorised), ways, self.width)
        return order

    def snapshot(self) -> bytes:
        """Return nothing: there is no state."""
        return b""

    def restore(self, packed: bytes) -> None:
        """Do nothing."""


# Up to 15 sites the cheapest order takes no longer to find than a cheap one.
ORDERINGS: Mapping[str, Callable[[], Ordering]] = {"smje": Smje, "smjh": Smjh}


@njit(cache=True)
def search(trip: Any, ways: Any, width: int) -> Any:
    """Return the stops in the order of the visits.

    A route is the end of an order: ``rest`` are the stops before it, ``first`` its first stop, ``cost`` that of all
    ways behind ``first``. In each round every route kept grows by each stop of its rest, and the ``width`` that promise
    most are kept.
    """
    block, stored, is_factorised = trip
    start, back = ways[0], ways[2]
    stops = len(start)
    rest = np.ones((stops, stops), np.bool_)
    routes = np.empty((stops, stops), np.int64)
    cost = np.empty(stops)
    whole = sizes_without(block, stored, rest[0], is_factorised)[1]
    for stop in range(stops):
        rest[stop, stop] = False
        routes[stop, stops - 1] = stop
        cost[stop] = whole * back[stop]
    for visit in range(stops - 2, -1, -1):
        grown, promised, stop_of, route_of = _grow(trip, ways, rest, routes[:, visit + 1], cost)
        kept = _best(promised, stop_of, route_of, rest, width)
        rest, routes, cost = rest[route_of[kept]], routes[route_of[kept]], grown[kept]
        for route in range(len(kept)):
            rest[route, stop_of[kept[route]]] = False
            routes[route, visit] = stop_of[kept[route]]
    return routes[np.argmin(cost + block.sum() * start[routes[:, 0]])]


@njit(cache=True)
def sizes_without(block: Any, stored: Any, among: Any, is_factorised: bool) -> Any:
    """Return the rows that travel after the stops ``among`` but one, for each of them; and after all of them.

    What the stops before one and the stops after one make of each entry meet in it: one pass each way, no division.
    """
    stops, entries = stored.shape
    sizes, total = np.zeros(stops), 0.0
    behind = np.empty((stops + 1, entries))
    behind[stops] = 1.0
    for stop in range(stops - 1, -1, -1):
        for entry in range(entries):
            there = behind[stop + 1, entry]
            if among[stop]:
                there = met(there, stored[stop, entry], is_factorised)
            behind[stop, entry] = there
    for entry in range(entries):
        before = block[entry]
        for stop in range(stops):
            if among[stop]:
                sizes[stop] += met(before, behind[stop + 1, entry], is_factorised)
                before = met(before, stored[stop, entry], is_factorised)
        total += before
    return sizes, total


@njit(cache=True)
def _grow(trip: Any, ways: Any, rest: Any, first: Any, cost: Any) -> Any:
    """Return, for each route and each stop of its rest, the cost with it, what it promises, the stop and the route."""
    block, stored, is_factorised = trip
    start, between, _ = ways
    room = len(rest) * len(start)
    grown, promised = np.empty(room), np.empty(room)
    stop_of, route_of = np.empty(room, np.int64), np.empty(room, np.int64)
    count = 0
    for route in range(len(rest)):
        sizes, size = sizes_without(block, stored, rest[route], is_factorised)
        near, from_stop, second = _nearest(start, between, rest[route])
        for stop in range(len(start)):
            if not rest[route, stop]:
                continue
            grown[count] = cost[route] + size * between[stop, first[route]]
            ahead = _ahead(stop, rest[route], sizes[stop], block.sum(), (near, from_stop, second), ways)
            promised[count] = grown[count] + ahead
            stop_of[count], route_of[count] = stop, route
            count += 1
    return grown[:count], promised[:count], stop_of[:count], route_of[:count]


@njit(cache=True)
def _nearest(start: Any, between: Any, rest: Any) -> Any:
    """Return the cheapest way into each stop from start or rest, the stop it comes from, and the second cheapest."""
    stops = len(start)
    near, from_stop, second = start.copy(), np.full(stops, -1), np.full(stops, np.inf)
    for stop in range(stops):
        for other in range(stops):
            if rest[stop] and rest[other] and other != stop:
                if between[other, stop] < near[stop]:
                    second[stop] = near[stop]
                    near[stop], from_stop[stop] = between[other, stop], other
                elif between[other, stop] < second[stop]:
                    second[stop] = between[other, stop]
    return near, from_stop, second


@njit(cache=True)
def _ahead(stop: int, rest: Any, size: float, least_size: float, nearest: Any, ways: Any) -> Any:
    """Return an estimate of all ways up to a stop: the cheapest into it, and the cheapest into those before it.

    ``size`` rows leave the last of those before it, ``least_size`` the block's site; between them sizes are taken to
    grow by an equal factor.
    """
    near, from_stop, second = nearest
    start, between, _ = ways
    into, others, sum_of_ways = np.inf, 0, 0.0
    for other in range(len(rest)):
        if rest[other] and other != stop:
            others += 1
            into = min(into, between[other, stop])
            sum_of_ways += second[other] if from_stop[other] == stop else near[other]
    if others == 0:
        return size * start[stop]
    factor = (size / least_size) ** (1 / others)
    sizes, remaining = 0.0, least_size
    for _ in range(others):
        sizes += remaining
        remaining *= factor
    return size * into + sum_of_ways / others * sizes


@njit(cache=True)
def _best(promised: Any, stop_of: Any, route_of: Any, rest: Any, width: int) -> Any:
    """Return the most promising grown routes, of those with the same rest and first stop only the best."""
    kept = np.empty(width, np.int64)
    count = 0
    for grown in np.argsort(promised, kind="mergesort"):
        is_new = True
        for other in kept[:count]:
            if stop_of[other] == stop_of[grown] and np.array_equal(
                rest[route_of[other]], rest[route_of[grown]]
            ):
                is_new = False
                break
        if is_new:
            kept[count] = grown
            count += 1
            if count == width:
                break
    return kept[:count]
