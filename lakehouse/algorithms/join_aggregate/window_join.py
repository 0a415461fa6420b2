"""What the methods have in common that let rows meet: rows enter and leave windows, answers are read off at ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import Arrivals
from lakehouse.algorithms.join_aggregate.contract import Partials, Rows
from lakehouse.algorithms.join_aggregate.windows import Windows, columns_of

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s, Shape

# Rows that enter at a time where rows leave in between, so that room is needed for no more.
CHUNK = 16_384


class WindowJoin:
    """Takes rows in and out of windows; a method says what that changes, and what the answer at a tick is.

    Without ``buckets`` all rows that have left by a tick leave first, and only those enter that are still in their
    windows then: what happens between two ticks is one change. Rows are found by an exact hash index.

    With ``buckets`` it works as the paper does, to be measured against it: each side's rows lie in that many hash
    buckets, which are scanned, and rows leave whenever a row enters.
    """

    def __init__(self, shape: Shape, buckets: int | None = None) -> None:
        self.shape = shape
        self._arrivals = Arrivals(shape)
        self._windows = Windows(shape, buckets)

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks.

        Raises:
            ValueError: rows lack columns or are of sides that the shape does not have; ticks do not ascend.
        """
        answers = [Partials.none(self.shape)]
        for tick, entering in self._arrivals.take(rows, ticks_us):
            if not self._at_each:
                self._leave_before(tick)
                entering = entering[entering.leave_us >= tick]
            for start in range(0, len(entering), CHUNK):
                part = entering[start : start + CHUNK]
                self._windows.make_room(len(part))
                self._enter(columns_of(part))
            if self._at_each:
                self._leave_before(tick)
            answers.append(self._answer(tick))
        return Partials.joined(answers)

    def rows(self) -> Rows:
        """Return the rows held, sorted by enter, those of one time in order of arrival."""
        held = Rows.joined([self._windows.rows(), self._arrivals.waiting])
        return held[np.argsort(held.enter_us, kind="stable")]

    def check(self) -> None:
        """Raise AssertionError if an index of the windows is not what their rows make it."""
        self._windows.check()

    def _enter(self, columns: tuple[Any, ...]) -> None:
        """Let rows enter, for which the windows have room."""
        raise NotImplementedError

    def _leave_before(self, now: int) -> None:
        """Let rows leave that do so before ``now``."""
        raise NotImplementedError

    def _answer(self, tick: int) -> Partials:
        """Return the answer at a tick, all rows in their windows then being in, and no others."""
        raise NotImplementedError

    @property
    def _own_bytes(self) -> int:
        raise NotImplementedError

    @property
    def _at_each(self) -> bool:
        return self._windows.buckets is not None

    @property
    def bytes(self) -> int:
        """Return the bytes that the method uses of its arrays; what waits for growth is left out."""
        return self._arrivals.bytes + self._windows.bytes + self._own_bytes
