"""The yardstick for counters: keep every reading, walk over all of them for every question."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.oracles.rollup.contract import Times, Values


class CounterScan:
    """Every reading of one counter; exact, slow, and too simple to be wrong.

    >>> history = CounterScan()
    >>> history.insert_batch([30, 10, 20], [4.0, 100.0, 105.0])
    >>> history.increase(0, 40)
    9.0
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, float]] = []
        self.missing = 0

    def insert_batch(self, times: Times, values: Values) -> None:
        """Keep the readings; what is not finite or below zero is only counted."""
        for time_us, value in zip(times, values, strict=True):
            if value is None or not math.isfinite(value) or value < 0:
                self.missing += 1
            else:
                self._rows.append((int(time_us), float(value)))

    def increase(self, start_us: int, end_us: int) -> float:
        """Return the double nearest to the sum of steps between the rows in ``[start_us, end_us)``."""
        found = sorted(row for row in self._rows if start_us <= row[0] < end_us)
        steps = (
            Fraction(after) - (Fraction(before) if after >= before else 0)
            for (_, before), (_, after) in pairwise(found)
        )
        return float(sum(steps, Fraction()))
