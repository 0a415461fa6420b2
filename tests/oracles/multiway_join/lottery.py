"""Lottery routing: the baseline, which learns from what came back where to send rows next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.oracles.multiway_join.lottery_kernels import route

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s, Trip


class Lottery:
    """Each site sends to the unvisited site with the largest ratio of rows sent there to results they made there.

    A site that drops most of what it gets is visited early. Nobody knows costs or synopses; ratios are what each site
    has seen of its own sending. A site from which nothing has come back, or that was never tried, has the largest; of
    equals, the lowest number is taken.

    Cost: O(k^2 + k entries) for k stops; here a trip is told beforehand how many results each stop would make, and
    learns each when it has chosen the stop.
    Guarantee: an order of all stops, no more.
    Reference: Yin, Zhang, SMJ, 2009, section 5.2, after Avnur, Hellerstein, Eddies, 2000.
    """

    is_sent = False

    def __init__(self, sites: int) -> None:
        # Line: who sent; column: to whom.
        self._sent, self._returned = np.zeros((2, sites, sites))

    def choose(self, trip: Trip) -> Int64s:
        """Return the order in which the rows are sent on, and remember what they made."""
        what = trip.block, trip.stored, trip.is_factorised
        order: Int64s = route(what, trip.site, trip.legs.stops, self._sent, self._returned)
        return order

    def snapshot(self) -> bytes:
        """Return rows sent and results returned, by both sites."""
        return self._sent.tobytes() + self._returned.tobytes()

    def restore(self, packed: bytes) -> None:
        """Become what the snapshot was taken of."""
        self._sent, self._returned = np.frombuffer(packed).reshape(2, *self._sent.shape).copy()
