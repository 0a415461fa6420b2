"""The yardstick: every join result is kept until it leaves (PC, GPC, MPC of the paper)."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import (
    LIMB_BITS,
    Aggregate,
    Float64s,
    Int64s,
    Partials,
    Shape,
)
from lakehouse.algorithms.join_aggregate.kernels.window import probe, put_in, take_out, write
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM, WindowJoin


class Materialised(WindowJoin):
    """Join results as the places of their rows; every answer is aggregated from all results there are.

    What it answers: any shape. Symbols: alpha, beta: rows in the windows.

    Cost: a row O(partial results that it has); a result O(log results) when it enters and when it leaves; a tick
    O(results); memory O(alpha * beta).
    Guarantee: exactly the definition; sums are rounded once to high and once more to low.

    >>> from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
    >>> counts = Materialised(Shape(attributes=((0,), (0,)), grouped=(False, False)))
    >>> rows = Rows.of([0, 1, 1], enter_us=[0, 5, 9], leave_us=[10, 15, 19], keys=[[7], [7], [7]])
    >>> counts.advance(rows, np.array([0, 5, 10, 11])).results.tolist()
    [1, 2]

    Reference: Wang et al., continuous J-A queries, section 3: the method that theirs is compared with.
    """

    # Whether rows leave before each row that enters, as in the paper.
    at_each = False

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._kept, self._many = self._empty(LEAST_ROOM), 0

    def _enter(self, columns: tuple[Any, ...]) -> None:
        windows, at = self._windows, 0
        while at < len(columns[0]):
            where = windows.arrays, windows.plan.arrays, windows.work
            at, self._many, found = enter_rows(columns, at, self.at_each, *where, *self._kept, self._many)
            if (need := self._many + found) > len(self._kept[1]):
                larger = self._empty(1 << (need - 1).bit_length())
                for old, new in zip(self._kept, larger, strict=True):
                    new[: self._many] = old[: self._many]
                self._kept = larger

    def _leave_before(self, now: int) -> None:
        windows = self._windows
        self._many = leave_before(now, windows.arrays, windows.plan.arrays, *self._kept, self._many)

    def _answer(self, tick: int) -> Partials:
        results = self._kept[0][: self._many]
        groups, values = self._windows.entries["group"][results], self._windows.arrays[2]
        group, which = np.unique(groups, axis=0, return_inverse=True)
        members = np.split(
            np.argsort(which.ravel(), kind="stable"), np.cumsum(np.bincount(which.ravel()))[:-1]
        )
        members = members if len(group) else []
        cells = [
            [_aggregated(each, values[results[part, each.side], _columns(each)]) for part in members]
            for each in self.shape.aggregates
        ]
        shaped = np.array(cells).reshape(len(cells), len(group), 4)
        counted, high, low, extreme = np.ascontiguousarray(np.moveaxis(shaped, (0, 1, 2), (2, 1, 0)))
        return Partials(
            tick_us=np.full(len(group), tick),
            group=group,
            results=np.array([len(part) for part in members], np.int64),
            counted=counted.astype(np.int64),
            high=high,
            low=low,
            extreme=extreme,
        )

    def _empty(self, room: int) -> tuple[Int64s, Int64s]:
        """Return the slots of each result's rows, and when it leaves."""
        return np.zeros((room, self.shape.sides), np.int64), np.zeros(room, np.int64)


def _columns(aggregate: Aggregate) -> slice:
    return slice(aggregate.column, aggregate.column + aggregate.limbs)


def _aggregated(aggregate: Aggregate, values: Float64s) -> tuple[float, float, float, float]:
    """Return how many values, rows of limbs, are not null, and their high, low and extreme."""
    known = values[~np.isnan(values[:, 0])]
    if aggregate.is_extreme and len(known):
        best = (min if aggregate.function == "min" else max)(known[:, ::-1].tolist())
        extreme, high, low = [*best, 0.0, 0.0][:3]
        return len(known), high, low, extreme
    if aggregate.function != "sum":
        return len(known), 0.0, 0.0, math.nan
    return len(known), *(_limbs_summed(known) if aggregate.limbs > 1 else _summed(known[:, 0]))


def _limbs_summed(known: Float64s) -> tuple[float, float, float]:
    whole = sum(int(limb) << (LIMB_BITS * place) for row in known.tolist() for place, limb in enumerate(row))
    low, rest = abs(whole) % 2**LIMB_BITS, abs(whole) >> LIMB_BITS
    limbs = rest % 2**LIMB_BITS, low, rest >> LIMB_BITS
    high, low_limb, extreme = (math.copysign(float(limb), whole) if limb else 0.0 for limb in limbs)
    return high, low_limb, extreme


def _summed(known: Float64s) -> tuple[float, float, float]:
    """Return the sum of doubles, as a fraction where it may be beyond their range."""
    power = 0
    if np.any(np.abs(known) > 2.0**900):
        total = sum(map(Fraction, known.tolist()), Fraction(0))
        power = 128 if abs(total) >= 2**960 else 0
        total /= 2**power
        high = float(total)
        low = float(total - Fraction(high))
    else:
        high = math.fsum(known)
        low = math.fsum([*known, -high])
    # A rest that rounds to half of high's last digit may be a tie that high + low rounds the other way.
    return high + low, low - ((high + low) - high), float(power) if power else math.nan


@njit(cache=True)
def enter_rows(
    rows: Any,
    start: int,
    at_each: bool,
    windows: Any,
    plan: Any,
    work: Any,
    kept: Any,
    leaves: Any,
    many: int,
) -> Any:
    """Let rows from ``start`` on enter, ``many`` results being there; with ``at_each`` rows leave before each.

    Returns:
        Where it stopped for lack of room, how many results there are then, and how many the row there adds.
    """
    entries = windows[0]
    for at in range(start, len(rows[0])):
        if at_each:
            many = leave_before(rows[1][at], windows, plan, kept, leaves, many)
        slot = write(windows, rows, at)
        found = probe(windows, plan, slot, work, kept[many:])
        if many + found > len(kept):
            return at, many, found
        for result in range(many, many + found):
            leaves[result] = entries[slot].leave
            for side in range(kept.shape[1]):
                leaves[result] = min(leaves[result], entries[kept[result, side]].leave)
            _rise(kept, leaves, result)
        many += found
        put_in(windows, plan, slot)
    return len(rows[0]), many, 0


@njit(cache=True)
def leave_before(now: int, windows: Any, plan: Any, kept: Any, leaves: Any, many: int) -> Any:
    """Let all rows and results leave that do so before ``now``; return how many results are left."""
    while take_out(windows, plan, now) >= 0:
        pass
    while many > 0 and leaves[0] < now:
        many -= 1
        _swap(kept, leaves, 0, many)
        _sink(kept, leaves, many)
    return many


@njit(cache=True)
def _rise(kept: Any, leaves: Any, at: int) -> None:
    """Bring the result at a place to where no result above it leaves later."""
    while at > 0 and leaves[(at - 1) // 2] > leaves[at]:
        _swap(kept, leaves, at, (at - 1) // 2)
        at = (at - 1) // 2


@njit(cache=True)
def _sink(kept: Any, leaves: Any, many: int) -> None:
    """Bring the result at place 0 to where none of the ``many`` below it leaves earlier."""
    at, child = 0, 1
    while child < many:
        if child + 1 < many and leaves[child + 1] < leaves[child]:
            child += 1
        if leaves[child] >= leaves[at]:
            break
        _swap(kept, leaves, at, child)
        at, child = child, 2 * child + 1


@njit(cache=True)
def _swap(kept: Any, leaves: Any, one: int, other: int) -> None:
    leaves[one], leaves[other] = leaves[other], leaves[one]
    for side in range(kept.shape[1]):
        kept[one, side], kept[other, side] = kept[other, side], kept[one, side]
