"""SMJE: the cheapest order of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.algorithms.multiway_join.cost_kernels import sizes_by_set
from lakehouse.algorithms.multiway_join.exhaustive_kernels import cheapest_by_set, order_of

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s, Trip

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

    is_told = True

    def choose(self, trip: Trip) -> Int64s:
        """Return the cheapest order.

        Raises:
            ValueError: there are too many stops; ``Smjh`` takes them.
        """
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
