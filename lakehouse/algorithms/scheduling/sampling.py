"""Asks operators that no row reaches of a few rows, so that the next plan knows what they cost and pass.

A filter behind one that passes nothing is never measured: were it cheaper, nobody would know, and it stayed there. So
in each interval every filter that nothing reached in the one before, and in the first every one of which nothing is
known, is asked of rows that enter its segment, whatever the filters before it say of them. Its verdicts on them are
kept only if it is shared. One that raises on rows that filters before it keep from it is not asked again.

Cost: at most ``SHARE`` of the time, and ``SAMPLE_ROWS * SAMPLES`` rows an operator and interval.
Source: ours; in Dong et al., MultiFactor, statistics are of what reaches an operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.scheduling.chunks import Chunk
from lakehouse.algorithms.scheduling.contract import LEFT
from lakehouse.algorithms.scheduling.operators import Predicate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakehouse.algorithms.scheduling.contract import Bools
    from lakehouse.algorithms.scheduling.measuring import Counts
    from lakehouse.algorithms.scheduling.network import Network
    from lakehouse.algorithms.scheduling.operators import Runnable

# Rows asked of at once, so many that a call costs little beside them; and how often, to see several batches.
SAMPLE_ROWS, SAMPLES = 256, 4
SHARE = 0.05


class Sampling:
    """Which operators are to be asked in this interval; time is told by the clock that is given."""

    def __init__(
        self, network: Network, operators: Sequence[Runnable], counts: Counts, clock_ns: Callable[[], int]
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
        found = {first: segment[is_due[segment]] for first, segment in self._segments.items()}
        # The last ones first: they are the least likely to be reached.
        self._due = {first: SAMPLES * each[::-1].tolist() for first, each in found.items() if len(each)}

    def look(self, position: int, chunk: Chunk) -> None:
        """Ask one operator, if a chunk that enters its segment is about to be handled."""
        if self._left_ns <= 0 or position not in self._due:
            return
        operator = self._due[position].pop(0)
        if not self._due[position]:
            del self._due[position]
        code = self._operators[operator]
        if isinstance(code, Predicate) and not self._is_barred[operator]:
            self._ask(operator, code, _sample(chunk))

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
