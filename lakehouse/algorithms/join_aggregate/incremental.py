"""IC and GIC: counts and sums follow the changes of two windows, and rows carry nothing."""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.choice import refuse_unless_able
from lakehouse.algorithms.join_aggregate.contract import Partials, Shape
from lakehouse.algorithms.join_aggregate.kernels.total import (
    SIDE,
    count_in,
    free_if_empty,
    group_of,
    is_full,
    parts_of,
)
from lakehouse.algorithms.join_aggregate.kernels.window import probe, put_in, take_out, write
from lakehouse.algorithms.join_aggregate.totals import Totals
from lakehouse.algorithms.join_aggregate.windows import WindowJoin


class Incremental(WindowJoin):
    """COUNT and SUM of a join of two streams, by group; AVG is a sum by its count.

    A change of the windows changes the answer by what Theorem 1 says, which is met row by row:

        a row leaves .... minus its results with what stays or leaves after it:
                          SetA x WB, SetB x WA and SetA x SetB of the paper, each pair once
        a row enters .... plus its results with the other window

    The change is all that happens between two ticks.

    Cost: a row O(its partners) when it enters and again when it leaves, and as much again per aggregate; a tick
    O(groups). Memory O(rows + groups).

    Guarantee: exactly the definition; sums of doubles are rounded once to high and once more to low, whatever came and
    left before.

    Raises:
        ValueError: the shape has more than two sides, or asks for a min or max, which cannot be taken away.

    >>> from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
    >>> counts = Incremental(Shape(attributes=((0,), (0,)), grouped=(False, False)))
    >>> rows = Rows.of([0, 1, 1], enter_us=[0, 5, 9], leave_us=[10, 15, 19], keys=[[7], [7], [7]])
    >>> counts.advance(rows, np.array([0, 5, 10, 11])).results.tolist()
    [1, 2]

    Reference: Wang et al., continuous J-A queries, sections 1.1 and 2.1. Differs from the paper: Theorem 1 without the
    misprint; rows leave one after the other, so that rows that leave at once need no nested loop; groups are hashed.
    """

    def __init__(self, shape: Shape) -> None:
        refuse_unless_able("incremental", shape)
        super().__init__(shape)
        self._totals = Totals(shape)
        self._results = np.empty((0, 2), np.int64)

    def _enter(self, columns: tuple[Any, ...]) -> None:
        # No row has more partners than there are rows.
        self._totals.widen(columns[0], columns[5])
        if len(self._results) < len(self._windows.entries):
            self._results = np.empty((len(self._windows.entries), 2), np.int64)
        at = done = 0
        while at < len(columns[0]):
            at, done = self._enter_rows(columns, at, done, *self._arguments)
            self._totals.make_room(1)

    def _enter_rows(self, *arguments: Any) -> Any:
        return enter_rows(*arguments)

    def _leave_before(self, now: int) -> None:
        leave_before(now, *self._arguments)

    def _answer(self, tick: int) -> Partials:
        return self._totals.answer(tick)

    @property
    def _arguments(self) -> tuple[Any, ...]:
        windows, totals = self._windows, self._totals
        return (
            windows.arrays,
            windows.plan.arrays,
            windows.work,
            self._results,
            totals.aggregates,
            totals.arrays,
            totals.parts,
        )


@njit(cache=True)
def enter_rows(
    rows: Any,
    start: int,
    done: int,
    windows: Any,
    plan: Any,
    work: Any,
    results: Any,
    aggregates: Any,
    totals: Any,
    parts: Any,
) -> Any:
    """Let rows from ``start`` on enter; ``done`` results of the first are counted already.

    Returns:
        Where it stopped for lack of room for groups, and how many results of that row are counted.
    """
    for at in range(start, len(rows[0])):
        slot = write(windows, rows, at)
        found = probe(windows, plan, slot, work, results)
        done = _count(1, done, found, results, windows, aggregates, totals, parts)
        if done < found:
            return at, done
        done = 0
        put_in(windows, plan, slot)
    return len(rows[0]), 0


@njit(cache=True)
def leave_before(
    now: int, windows: Any, plan: Any, work: Any, results: Any, aggregates: Any, totals: Any, parts: Any
) -> None:
    """Let all rows leave that do so before ``now``.

    Each takes away its results with the rows that leave after it or stay: of two that leave at once the first has
    them, so that what the paper counts apart, SetA joined with SetB, is in it.
    """
    slot = take_out(windows, plan, now)
    while slot >= 0:
        found = probe(windows, plan, slot, work, results)
        _count(-1, 0, found, results, windows, aggregates, totals, parts)
        slot = take_out(windows, plan, now)


@njit(cache=True, inline="always")
def _count(
    sign: int, start: int, found: int, results: Any, windows: Any, aggregates: Any, totals: Any, parts: Any
) -> Any:
    """Add results from ``start`` on to the totals, or take them away with ``sign`` -1; return where it stopped."""
    entries, values = windows[0], windows[2]
    groups, _, counted, sums, extremes, _, _, state = totals
    for at in range(start, found):
        if sign > 0 and is_full(totals):
            return at
        result = results[at]
        parts_of(result, entries, parts)
        group = group_of(parts, totals)
        groups[group].results += sign
        for column in range(len(aggregates)):
            row = result[aggregates[column, SIDE]]
            count_in(values, row, aggregates[column], counted, sums, extremes, group, column, state, sign)
        if sign < 0:
            free_if_empty(group, totals)
    return found
