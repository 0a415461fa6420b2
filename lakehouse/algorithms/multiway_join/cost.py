"""What it costs to move blocks and messages.

An order p costs ``|dR| W[site][p1] + |dR join R_p1| W[p1][p2] + ... + |result| W[last][asker]``. Messages go between a
block's site and the centre: of a block with v entries of which f pass, its vector v entries, its filter f entries, its
order a name per stop, later its decrement v entries again. Compact: the filter at most v bits, no decrement. What else
travels with rows (the rest of the order, or the baseline's list of sites visited) is not counted.

Reference: Yin, Zhang, SMJ, 2009, sections 2, 3.1 and 5.1 (an entry is a quarter of a row).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Cost, Legs
from lakehouse.algorithms.multiway_join.cost_kernels import sizes_along

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Float64s, Int64s, Query, Sending, Trip


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


def message_cost(sending: Sending, announced: int, passed: int, told: int, ways: tuple[float, float]) -> Cost:
    """Return the cost of a block's messages: entries announced, entries that passed, stops told.

    ``ways``: what a row costs from the site to the centre, and back.
    """
    to_centre, from_centre = ways
    answer = passed * sending.entry
    if sending.is_compact:
        answer = min(answer, announced * sending.bit)
    return Cost(
        synopsis=announced * sending.entry * to_centre,
        filter=answer * from_centre if sending.filters else 0.0,
        order=told * sending.hop * from_centre,
    )
