"""SMJH: a cheap order for any number of sites, and which ordering is for how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.heuristic_kernels import search

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s, Ordering, Trip

# Up to so many sites the cheapest order takes no longer to find than a cheap one of so many routes.
EXACT_SITES, ROUTES = 15, 64


def ordering_for(sites: int) -> Ordering:
    """Return what orders the visits of so many sites: exactly while that is quick, beyond it by ``ROUTES`` routes."""
    return Smje() if sites <= EXACT_SITES else Smjh(ROUTES)


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

    is_told = True

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
