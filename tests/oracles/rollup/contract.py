"""Contract of every rollup method: the shapes that go in and out, and the verbs they share.

Times are int64 microseconds UTC and every range is half-open, ``[start_us, end_us)``. A rollup follows one
measure of one series; values that are missing, NaN or infinite never enter it and are only counted.

    row ............ (time_us, value)
    node ........... what is kept of all rows inside one aligned interval
    answer ......... an estimate between two sides that the truth cannot cross
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = Sequence[int] | npt.NDArray[np.int64]
    Values = Sequence[float | None] | npt.NDArray[np.float64]

Aggregate = Literal["sum", "count", "avg", "min", "max"]
AGGREGATES: tuple[Aggregate, ...] = ("sum", "count", "avg", "min", "max")


@dataclass(frozen=True)
class Node:
    """What is kept of the ``n`` rows inside ``[start, end)``; a node without rows is never made."""

    start: int
    end: int
    n: int
    sum: float
    min: float
    max: float
    first_us: int
    last_us: int


@dataclass(frozen=True)
class Answer:
    """An estimate and the interval that is sure to hold the truth.

    A side is None where nothing can be promised: a MIN whose range may be empty has no upper side, a range
    that reaches below what the top level still keeps has no side that forgotten rows could move. ``value`` is
    None for AVG, MIN and MAX over no rows. AVG's sides hold if there is any row at all; ``rows_low == 0``
    says that there may be none.

    ``exact`` means the sides would coincide but for the rounding of double additions. ``rows`` is the number
    of rows behind the value, estimated like COUNT. ``finest_granularity_us`` is the width of the finest node
    read, None if none was.
    """

    value: float | None
    low: float | None
    high: float | None
    exact: bool
    rows: float
    rows_low: int
    rows_high: int | None
    nodes_read: int
    finest_granularity_us: int | None


@dataclass(frozen=True)
class Answers:
    """The answers to many ranges as columns, each as in ``Answer``; one of them is ``answers[i]``.

    A value or side that is None is NaN here, ``rows_high`` then -1, ``finest_granularity_us`` 0.
    """

    value: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    exact: npt.NDArray[np.bool_]
    rows: npt.NDArray[np.float64]
    rows_low: npt.NDArray[np.int64]
    rows_high: npt.NDArray[np.int64]
    nodes_read: npt.NDArray[np.int64]
    finest_granularity_us: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: int) -> Answer:
        rows_high, finest = int(self.rows_high[index]), int(self.finest_granularity_us[index])
        return Answer(
            value=_none_if_nan(self.value[index]),
            low=_none_if_nan(self.low[index]),
            high=_none_if_nan(self.high[index]),
            exact=bool(self.exact[index]),
            rows=float(self.rows[index]),
            rows_low=int(self.rows_low[index]),
            rows_high=None if rows_high < 0 else rows_high,
            nodes_read=int(self.nodes_read[index]),
            finest_granularity_us=finest or None,
        )


def _none_if_nan(number: np.float64) -> float | None:
    return None if number != number else float(number)


@dataclass(frozen=True)
class Snapshot:
    """A rollup's whole state as plain values: equal states give equal snapshots.

    ``parts`` are packed arrays, one per level and finest first, in the method's own format.
    """

    method: str
    newest_us: int | None
    earliest_us: int | None
    missing: int
    parts: tuple[bytes, ...]


class Rollup(Protocol):
    """A history of rows that answers aggregates over any time range.

    Four laws hold for all methods: a batch does what its rows would do one by one, arrival order leaves no
    trace, restoring a snapshot changes no answer, and the truth never leaves an answer's interval.
    """

    def insert(self, time_us: int, value: float | None) -> None:
        """Add one row, however late."""

    def insert_batch(self, times: Times, values: Values) -> None:
        """Add rows in any order; the same as adding them one by one."""

    def query(self, start_us: int, end_us: int, aggregate: Aggregate) -> Answer:
        """Answer one aggregate over ``[start_us, end_us)``."""

    def snapshot(self) -> Snapshot:
        """Return the whole state; later inserts do not change it."""

    def restore(self, snapshot: Snapshot) -> None:
        """Become the rollup that the snapshot was taken of."""

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""
