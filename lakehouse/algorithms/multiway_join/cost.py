"""Costs of moving blocks and messages.

An order p costs ``|dR| W[site][p1] + |dR join R_p1| W[p1][p2] + ... + |result| W[last][asker]``. Messages go between a
block's site and the centre: of a block with v entries of which f pass, its vector v entries, its filter f entries, its
order a name per stop, later its decrement v entries again. Compact: the filter at most v bits, no decrement. What else
travels with rows (the rest of the order, or the baseline's list of sites visited) is not counted.

Flat, a row travels for each combination found so far: ``sum over entries of block * product of stored``. Factorised,
the rows of a key travel once each, per site; the only row of its key at a site rides along in any of the others, so
they are the sum of those of its counts that are above 1, or 1 if none is. That is never more than their product.

Reference: Yin, Zhang, SMJ, 2009, sections 2, 3.1 and 5.1 (an entry is a quarter of a row).
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.multiway_join.contract import Cost, Float64s, Int64s, Legs, Query, Sending, Trip


def legs_of(query: Query, site: int) -> Legs:
    """Return what a row of a site's block costs on its ways."""
    transfer = query.sites.transfer
    stops = np.delete(np.arange(len(transfer)), site)
    back = np.zeros(len(stops)) if query.asker is None else transfer[stops, query.sites.number(query.asker)]
    return Legs(stops, transfer[site, stops], np.ascontiguousarray(transfer[np.ix_(stops, stops)]), back)


def sizes_of(trip: Trip, order: Int64s) -> Float64s:
    """Return the rows that leave the site and then each stop."""
    sizes: Float64s = sizes_along(trip.block, trip.stored, order, trip.is_factorised)
    return sizes


def route_cost(legs: Legs, order: Int64s, sizes: Float64s) -> float:
    """Return the cost of moving rows along an order, given how many leave the site and each stop."""
    ways = np.empty(len(order) + 1)
    ways[0], ways[-1] = legs.start[order[0]], legs.back[order[-1]]
    ways[1:-1] = legs.between[order[:-1], order[1:]]
    return float(ways @ sizes)


def message_cost(
    sending: Sending, announced: int, passed: int, stops: int, ways: tuple[float, float]
) -> Cost:
    """Return the cost of a block's messages: entries announced, entries that passed, and stops.

    ``ways``: what a row costs from the site to the centre, and back.
    """
    to_centre, from_centre = ways
    answer = passed * sending.entry
    if sending.is_compact:
        answer = min(answer, announced * sending.bit)
    return Cost(
        synopsis=announced * sending.entry * to_centre,
        filter=answer * from_centre if sending.filters else 0.0,
        order=stops * sending.hop * from_centre,
    )


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
