"""The yardstick of orders: the cost of each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Trip


def every_order(trip: Trip) -> Iterator[tuple[tuple[int, ...], float]]:
    """Yield each order with its cost, written down as it is defined; O(k! k entries) for k stops."""
    for order in permutations(range(len(trip.legs.stops))):
        yield order, _cost(trip, order)


def _cost(trip: Trip, order: tuple[int, ...]) -> float:
    legs, cost, rows = trip.legs, 0.0, _rows(trip, ())
    for visit, stop in enumerate(order):
        cost += rows * (legs.between[order[visit - 1], stop] if visit else legs.start[stop])
        rows = _rows(trip, order[: visit + 1])
    return float(cost + rows * legs.back[order[-1]])


def _rows(trip: Trip, visited: tuple[int, ...]) -> float:
    """Return how many rows travel after some stops."""
    total = 0.0
    for entry, rows in enumerate(trip.block.tolist()):
        there = [float(trip.stored[stop, entry]) for stop in visited]
        if trip.is_factorised:
            several = [count for count in (rows, *there) if count > 1]
            total += max(sum(several), 1.0) if rows and all(there) else 0.0
        else:
            for stored in there:
                rows *= stored
            total += rows
    return total
