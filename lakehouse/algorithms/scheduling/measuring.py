"""Counts of an interval, and n, S and V from them.

What an interval did not reach keeps what was known of it. An operator never reached counts as fast and passing all: it
keeps its written place among its neighbours, at the end, until ``Sampling`` asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.scheduling.chunks import Chunk
from lakehouse.algorithms.scheduling.contract import LEFT, SECOND, Bools, Float64s, Int64s, Statistics
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.operators import Predicate

UNKNOWN_PER_S = 1e6
# Rows asked of at once, so many that a call costs little beside them; and how often, to see several batches.
SAMPLE_ROWS, SAMPLES = 256, 4
SHARE = 0.05


@dataclass(frozen=True)
class Counts:
    """Counts since the interval began; the arrays are changed in place.

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
    is_known: Bools = known.handled_per_s[:, LEFT] != UNKNOWN_PER_S
    return is_known


def nothing_measured(network: Network) -> Statistics:
    """Return what is assumed before the first interval."""
    shape = network.size, 2
    return Statistics(np.zeros(len(network.streams)), np.full(shape, UNKNOWN_PER_S), np.ones(shape))


class Sampling:
    """Asks operators that no row reaches of a few rows, so that the next plan knows what they cost and pass.

    A filter behind one that passes nothing is never measured: were it cheaper, nobody would know, and it stayed there.
    So in each interval every filter that nothing reached in the one before, and in the first every one of which nothing
    is known, is asked of rows that enter its segment, whatever the filters before it say of them. Its verdicts on them
    are kept only if it is shared. One that raises on rows that filters before it keep from it is not asked again.

    Cost: at most ``SHARE`` of the time, told by the clock that is given, and ``SAMPLE_ROWS * SAMPLES`` rows an operator
    and interval.
    Source: ours; in Dong et al., MultiFactor, statistics are of what reaches an operator.
    """

    def __init__(
        self, network: Network, operators: Sequence[Predicate], counts: Counts, clock_ns: Callable[[], int]
    ) -> None:
        self._operators, self._counts, self._clock_ns = operators, counts, clock_ns
        self._segments = {int(segment[0]): segment for segment in network.segments}
        self._is_barred = np.zeros(network.size, np.bool_)
        self._due: dict[int, list[int]] = {}
        self._left_ns = 0

    def begin(self, is_reached: Bools, length_us: int) -> None:
        """Begin an interval of about this length; ``is_reached``: the operators that need not be asked."""
        self._left_ns = round(SHARE * length_us * 1000)
        is_due = ~(is_reached | self._is_barred)
        segments = {first: segment[is_due[segment]] for first, segment in self._segments.items()}
        # The last ones first: they are the least likely to be reached.
        self._due = {first: SAMPLES * due[::-1].tolist() for first, due in segments.items() if len(due)}

    def look(self, position: int, chunk: Chunk) -> None:
        """Ask one operator, if a chunk that enters its segment is about to be handled."""
        if self._left_ns <= 0 or position not in self._due:
            return
        operator = self._due[position].pop(0)
        if not self._due[position]:
            del self._due[position]
        if not self._is_barred[operator]:
            self._ask(operator, self._operators[operator], _sample(chunk))

    def _ask(self, operator: int, code: Predicate, sample: Chunk) -> None:
        begun_ns = self._clock_ns()
        try:
            passed = np.count_nonzero(code.mask(sample))
        except Exception:
            # It has a guard before it. What it raises of rows that do reach it is the query's error.
            self._is_barred[operator] = True
            return
        finally:
            spent_ns = self._clock_ns() - begun_ns
            self._left_ns -= spent_ns
        self._counts.taken[operator, LEFT] += sample.num_rows
        self._counts.passed[operator, LEFT] += passed
        self._counts.busy_us[operator, LEFT] += spent_ns / 1000


def _sample(chunk: Chunk) -> Chunk:
    """Return rows evenly over a chunk."""
    picked = np.arange(chunk.num_rows) if chunk.picked is None else chunk.picked
    rows = picked[:: -(-len(picked) // SAMPLE_ROWS)]
    return Chunk(chunk.number, chunk.since_us, chunk.batch, rows, None)
