"""The join-aggregate methods as the paper runs them, to be measured against it.

Each side's rows lie in a fixed number of hash buckets, which are scanned, and rows leave whenever a row enters; then TC
and MTC add up all that rows carry.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
from lakehouse.algorithms.join_aggregate.incremental import Incremental
from lakehouse.algorithms.join_aggregate.incremental import enter_rows as count_rows
from lakehouse.algorithms.join_aggregate.incremental import leave_before as discount_before
from lakehouse.algorithms.join_aggregate.kernels.credit import enter_rows, improve_by, leave_before
from lakehouse.algorithms.join_aggregate.kernels.digits import add_times
from lakehouse.algorithms.join_aggregate.kernels.total import DIGITS, FUNCTION, NUMBER, SUM, USED
from lakehouse.algorithms.join_aggregate.kernels.window import LIVE
from lakehouse.algorithms.join_aggregate.multiway import Multiway
from lakehouse.algorithms.join_aggregate.tuple_count import TupleCount
from lakehouse.algorithms.join_aggregate.windows import WindowJoin, Windows
from tests.oracles.join_aggregate.materialised import Materialised


class Buckets(Windows):
    """Windows with so many hash buckets, however many rows they have."""

    def __init__(self, shape: Shape, buckets: int) -> None:
        self._buckets = buckets
        super().__init__(shape)

    def _empty(self, room: int) -> tuple[Any, ...]:
        parts = super()._empty(room)
        return *parts[:4], np.full((len(parts[4]), self._buckets), -1, np.int32), *parts[5:]


class _AsPaper(WindowJoin):
    """A method whose rows leave whenever a row enters: so ``_enter_rows`` of the methods below have it."""

    def __init__(self, shape: Shape, buckets: int) -> None:
        super().__init__(shape)
        self._windows = Buckets(shape, buckets)

    def _move_to(self, tick: int, entering: Rows) -> None:
        self._enter_all(entering)
        self._leave_before(tick)


class MaterialisedAsPaper(_AsPaper, Materialised):
    """PC."""

    at_each = True


class IncrementalAsPaper(_AsPaper, Incremental):
    """IC and GIC."""

    def _enter_rows(self, *arguments: Any) -> Any:
        return _count_rows(*arguments)


class MultiwayAsPaper(_AsPaper, Multiway):
    """MTC."""

    def _enter_rows(self, *arguments: Any) -> Any:
        return _credit_rows(*arguments)


class TupleCountAsPaper(_AsPaper, TupleCount):
    """TC and GTC."""

    def _enter_rows(self, *arguments: Any) -> Any:
        return _credit_rows(*arguments)


@njit(cache=True, inline="always")
def _row(rows: Any, at: int) -> Any:
    """Return one of some rows, in the same columns."""
    side, enter, leave, key, group, values, row = rows
    end = at + 1
    return side[at:end], enter[at:end], leave[at:end], key[at:end], group[at:end], values[at:end], row[at:end]


@njit(cache=True)
def _count_rows(
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
    for at in range(start, len(rows[0])):
        discount_before(rows[1][at], windows, plan, work, results, aggregates, totals, parts)
        one = _row(rows, at)
        taken, done = count_rows(one, 0, done, windows, plan, work, results, aggregates, totals, parts)
        if taken == 0:
            return at, done
    return len(rows[0]), 0


@njit(cache=True)
def _credit_rows(
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
    credits: Any,
) -> Any:
    for at in range(start, len(rows[0])):
        leave_before(rows[1][at], windows, plan, aggregates, totals, credits)
        one = _row(rows, at)
        taken, done, found = enter_rows(
            one, 0, done, windows, plan, work, results, aggregates, totals, parts, credits
        )
        if taken == 0:
            return at, done, found
        add_up(windows, aggregates, totals, credits)
    return len(rows[0]), 0, 0


@njit(cache=True)
def add_up(windows: Any, aggregates: Any, totals: Any, credits: Any) -> None:
    """Make the totals anew from what all live rows carry."""
    entries, heap, rows = windows[0], windows[6], windows[8][LIVE]
    items = credits[0]
    groups, _, counted, sums, extremes, stale, _, state = totals
    for group in range(state[USED]):
        groups[group].results = 0
        counted[group, :] = 0
        sums[group, :] = 0
        extremes[group, :, 0] = np.nan
        stale[group, :] = False
    for place in range(rows):
        at = entries[heap[place, 1]].carried
        while at >= 0:
            add_credit(at, aggregates, totals, credits)
            at = items[at].next


@njit(cache=True, inline="always")
def add_credit(at: int, aggregates: Any, totals: Any, credits: Any) -> None:
    """Add a credit to the totals of its group."""
    items, counted, sums, extremes, _ = credits
    groups, _, group_counted, group_sums, group_extremes, _, _, kept = totals
    group = items[at].group
    groups[group].results += items[at].results
    for column in range(len(aggregates)):
        group_counted[group, column] += counted[at, column]
        start, digits = aggregates[column, NUMBER] * kept[DIGITS], kept[DIGITS]
        if start >= 0:
            add_times(group_sums, group, start, sums, at, start, digits, 1)
        elif aggregates[column, FUNCTION] > SUM:
            improve_by(aggregates[column, FUNCTION], group_extremes, group, column, extremes, at)
