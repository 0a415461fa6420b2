"""The yardstick: keep every row, look at all of them for every question."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tests.oracles.rollup.contract import Answer, Snapshot

if TYPE_CHECKING:
    from tests.oracles.rollup.contract import Aggregate, Times, Values


class Recompute:
    """Every row of one measure; exact, slow, and too simple to be wrong.

    Cost: insert O(1), query O(rows), memory O(rows).
    Guarantee: exact. A sum or a mean is the double nearest to the true one.

    >>> history = Recompute()
    >>> history.insert_batch([10, 20, 30], [1.0, None, 5.0])
    >>> history.query(0, 30, "sum").value, history.query(0, 31, "avg").value
    (1.0, 3.0)
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, float]] = []
        self._newest_us: int | None = None
        self._missing = 0

    def insert(self, time_us: int, value: float | None) -> None:
        """Keep one row; one without a finite value is only counted."""
        self._newest_us = time_us if self._newest_us is None else max(self._newest_us, time_us)
        if value is None or not math.isfinite(value):
            self._missing += 1
        else:
            self._rows.append((int(time_us), float(value) + 0.0))

    def insert_batch(self, times: Times, values: Values) -> None:
        """Insert the rows one by one."""
        for time_us, value in zip(times, values, strict=True):
            self.insert(int(time_us), value)

    def query(self, start_us: int, end_us: int, aggregate: Aggregate) -> Answer:
        """Answer one aggregate over ``[start_us, end_us)`` by looking at every row."""
        found = [value for time_us, value in self._rows if start_us <= time_us < end_us]
        value = _AGGREGATES[aggregate](found)
        return Answer(
            value=value,
            low=value,
            high=value,
            exact=True,
            rows=float(len(found)),
            rows_low=len(found),
            rows_high=len(found),
            nodes_read=len(self._rows),
            finest_granularity_us=1 if self._rows else None,
        )

    def snapshot(self) -> Snapshot:
        """Return all rows in order of time and value."""
        rows = sorted(self._rows)
        times = np.array([time_us for time_us, _ in rows], dtype=np.int64)
        values = np.array([value for _, value in rows], dtype=np.float64)
        earliest = rows[0][0] if rows else None
        return Snapshot(
            "Recompute", self._newest_us, earliest, self._missing, (times.tobytes(), values.tobytes())
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Become the history that the snapshot was taken of."""
        if snapshot.method != "Recompute":
            raise ValueError(f"expected a snapshot of Recompute, found one of {snapshot.method}")
        times, values = snapshot.parts
        self._rows = list(
            zip(np.frombuffer(times, np.int64).tolist(), np.frombuffer(values).tolist(), strict=True)
        )
        self._newest_us = snapshot.newest_us
        self._missing = snapshot.missing

    def check(self) -> None:
        """Raise AssertionError if a row has no finite value or is newer than the newest."""
        for time_us, value in self._rows:
            assert math.isfinite(value), f"a value that is no number at {time_us}"
            assert self._newest_us is not None and time_us <= self._newest_us, (
                f"{time_us} is newer than the newest"
            )


_AGGREGATES: dict[Aggregate, Callable[[list[float]], float | None]] = {
    "sum": math.fsum,
    "count": lambda found: float(len(found)),
    # A rounded sum divided by the count can leave the values: three times 0.1 would have a mean above 0.1.
    "avg": lambda found: float(sum(map(Fraction, found), Fraction()) / len(found)) if found else None,
    "min": lambda found: min(found, default=None),
    "max": lambda found: max(found, default=None),
}
