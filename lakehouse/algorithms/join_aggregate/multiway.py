"""MTC: every row carries what its results add to the answer, and takes it along when it leaves."""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Partials, Shape
from lakehouse.algorithms.join_aggregate.kernels.credit import (
    CREDIT,
    HELD,
    enter_rows,
    leave_before,
    refresh_extremes,
)
from lakehouse.algorithms.join_aggregate.totals import Totals
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM, WindowJoin


class Credits:
    """Credits by place, in growing arrays: 24 bytes each, 32 per aggregate, and 8 per digit of a sum."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._state = np.array([0, 0, -1], np.int64)
        self._items = self._empty(LEAST_ROOM)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays and the state, as kernels take them."""
        return (*self._items, self._state)

    def make_room(self) -> None:
        """Grow, if no more credit fits."""
        room = len(self._items[0])
        if int(self._state[HELD]) == room:
            larger = self._empty(2 * room)
            for old, new in zip(self._items, larger, strict=True):
                new[:room] = old
            self._items = larger

    def widen(self, side: Any, values: Any) -> None:
        """Make sums, also those of the totals, keep all digits that the values of rows need."""
        [sums] = self.totals.widen(side, values, self._items[2])
        self._items = (*self._items[:2], sums, self._items[3])

    def _empty(self, room: int) -> tuple[Any, ...]:
        """Return credits, counts of values, sums, extremes."""
        wide = len(self.totals.aggregates)
        return (
            np.zeros(room, CREDIT),
            np.zeros((room, wide), np.int64),
            np.zeros((room, self.totals.sums), np.int64),
            np.zeros((room, wide, 3)),
        )


class Multiway(WindowJoin):
    """COUNT, SUM, MIN and MAX of a join of two to eight streams on any attributes.

    A row that enters is joined with the windows of the other sides, one side after the other, for each partial result
    the side with the fewest rows to expect first. Each result is credited to the row that leaves first of its rows (of
    those that leave at once, the one that came first): with it the result ends, and nothing else can end it. The answer
    is the sum of all credits of live rows, kept as a running total; of extremes the best of all credits.

    Cost: a row O(partial results that it has), and as much again per aggregate; its leaving O(groups that its results
    fall in), without a join. A tick O(groups); and where an extreme has left since the last one, O(credits of its
    group), which only a trend of values towards the worse makes frequent. Memory O(rows + credits): a row has one
    credit per group of its results.

    Guarantee: exactly the definition; sums of doubles are rounded once to high and once more to low, whatever came and
    left before.

    >>> from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
    >>> shape = Shape(((0,), (0, 1), (1,)), (False,) * 3, (Aggregate("sum", 2, 0),))
    >>> totals = Multiway(shape)
    >>> rows = Rows.of([0, 1, 2], [1, 2, 3], [11, 22, 33], [[7, 0], [7, 8], [0, 8]], values=[[0], [0], [2.5]])
    >>> answers = totals.advance(rows, np.array([3, 11, 12]))
    >>> answers.tick_us.tolist(), answers.results.tolist(), answers.high.tolist()
    ([3, 11], [1, 1], [[2.5], [2.5]])

    Reference: Wang et al., continuous J-A queries, sections 1.2 and 2.2. Differs from the paper: results are credited
    to the row that leaves first, not to the one that came first, which is the same only for equal windows and rows in
    order; no credit is null, not 0; totals are kept, not summed anew at each row; the order of sides is chosen per
    partial result.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._totals = Totals(shape)
        self._credits = Credits(self._totals)
        self._results = np.empty((LEAST_ROOM, shape.sides), np.int64)

    def _enter(self, columns: tuple[Any, ...]) -> None:
        self._credits.widen(columns[0], columns[5])
        at = done = 0
        while at < len(columns[0]):
            at, done, found = self._enter_rows(
                columns,
                at,
                done,
                self._windows.arrays,
                self._windows.plan.arrays,
                self._windows.work,
                self._results,
                self._totals.aggregates,
                self._totals.arrays,
                self._totals.parts,
                self._credits.arrays,
            )
            if found > len(self._results):
                self._results = np.empty((2 * found, self.shape.sides), np.int64)
            self._totals.make_room(1)
            self._credits.make_room()

    def _enter_rows(self, *arguments: Any) -> Any:
        return enter_rows(*arguments)

    def _leave_before(self, now: int) -> None:
        leave_before(
            now,
            self._windows.arrays,
            self._windows.plan.arrays,
            self._totals.aggregates,
            self._totals.arrays,
            self._credits.arrays,
        )

    def _answer(self, tick: int) -> Partials:
        if self._totals.has_extremes:
            refresh_extremes(self._totals.aggregates, self._totals.arrays, self._credits.arrays)
        return self._totals.answer(tick)
