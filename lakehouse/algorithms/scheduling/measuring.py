"""Counts of an interval, and n, S and V from them.

What an interval did not reach keeps what was known of it. An operator never reached counts as fast and passing all: it
keeps its written place among its neighbours, at the end, until ``sampling.py`` asks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.scheduling.contract import LEFT, SECOND, Statistics

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Bools, Float64s, Int64s
    from lakehouse.algorithms.scheduling.network import Network

UNKNOWN_PER_S = 1e6


@dataclass(frozen=True)
class Counts:
    """What was counted since the interval began; the arrays are changed in place.

    By operator and side: ``taken`` tuples in, ``passed`` tuples out, ``busy_us`` time spent, float64. By stream:
    ``arrived``. ``switched``: how often another operator's turn came, and what that took in us. ``pool``, by operator:
    those with one number share their work, so what it costs is measured over all of them.
    """

    taken: Int64s
    passed: Int64s
    busy_us: Float64s
    arrived: Int64s
    switched: Int64s
    pool: Int64s

    @classmethod
    def zero(cls, network: Network, pool: Int64s | None = None) -> Counts:
        """Return counts of nothing; without ``pool`` each operator works for itself."""
        shape = network.size, 2
        return cls(
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(shape),
            np.zeros(len(network.streams), np.int64),
            np.zeros(2, np.int64),
            np.arange(network.size) if pool is None else pool,
        )

    def clear(self) -> None:
        """Begin another interval."""
        for counted in self._counted():
            counted.fill(0)

    def add(self, other: Counts) -> None:
        """Count what others have counted as well, of the same network."""
        for own, more in zip(self._counted(), other._counted(), strict=True):
            own += more

    def measured(self, length_us: int, before: Statistics) -> Statistics:
        """Return the statistics of an interval of this length, which is above 0."""
        is_known = self.taken > 0
        taken, busy_us = self._pooled(self.taken), self._pooled(self.busy_us)
        handled = np.where(is_known, taken * SECOND / np.maximum(busy_us, 1e-3), before.handled_per_s)
        passed = np.where(is_known, self.passed / np.maximum(self.taken, 1), before.selectivity)
        times, us = self.switched.tolist()
        switch_us = us / times if times else before.switch_us
        return Statistics(self.arrived * SECOND / length_us, handled, passed, switch_us)

    def _counted(self) -> tuple[Int64s | Float64s, ...]:
        return self.taken, self.passed, self.busy_us, self.arrived, self.switched

    def _pooled(self, counted: Int64s | Float64s) -> Float64s:
        sides = (np.bincount(self.pool, weights=side, minlength=len(self.pool)) for side in counted.T)
        by_pool: Float64s = np.stack(list(sides), axis=1).astype(np.float64)
        return by_pool[self.pool]


def is_measured(known: Statistics) -> Bools:
    """Return of which operators anything is known."""
    found: Bools = known.handled_per_s[:, LEFT] != UNKNOWN_PER_S
    return found


def nothing_measured(network: Network) -> Statistics:
    """Return what is assumed before the first interval."""
    shape = network.size, 2
    return Statistics(np.zeros(len(network.streams)), np.full(shape, UNKNOWN_PER_S), np.ones(shape))
