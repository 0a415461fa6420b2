"""A condition as kernels read it: each row's cell, the cells of its partners, and the exact check of what lies there.

Every row gets one *cell*, and its partners can only lie in the cells at the plan's ``offsets`` from it: its own for an
equality, three for a band, nine for a distance.

Cells of a band are ``floor(x / (width * (1 + 2^-18)))`` in doubles, held within +-2^30. The margin outweighs the
rounding of x and of the division, so numbers within the width are never two cells apart; numbers beyond the last cell
share it, which costs time and never a pair. The check of what lies in the cells is exact for exact numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lakehouse.algorithms.late_join.conditions import (
    OPERATORS,
    Band,
    Comparison,
    Condition,
    Distance,
    Equality,
    scales_of,
)
from lakehouse.algorithms.late_join.contract import MISSING, Batch, Bools, Int64s
from lakehouse.algorithms.late_join.kernels.wide import (
    are_within,
    difference,
    is_at_most,
    order_of_sum,
    words_of,
)

EQUALITY, BAND, DISTANCE = 0, 1, 2
LAST_CELL = 2**30
# A number that others are compared with: as a double, and in both words of an exact number.
BOUND = np.dtype([("double", np.float64), ("low", np.uint64), ("high", np.int64)], align=True)
COMPARISON = np.dtype(
    [
        ("left", np.int64),
        ("operator", np.int64),
        ("right", np.int64),
        ("is_exact", np.int64),
        *((name, BOUND[name]) for name in ("double", "low", "high")),
    ],
    align=True,
)


@dataclass(frozen=True)
class Plan:
    """A condition for kernels; columns are those of ``Batch.numbers``, of which an exact number has two.

    ``shape`` int64: kind, the columns of x and y, and 1 if they are exact. ``reach``: the width or the radius.
    ``columns``: how many there must be at least.
    """

    shape: Int64s
    reach: npt.NDArray[np.void]
    offsets: Int64s
    comparisons: npt.NDArray[np.void]
    columns: int

    @classmethod
    def of(cls, condition: Condition) -> Plan:
        """Return the plan of a condition.

        Raises ValueError when a width or radius is neither 0 nor within 1e-100 and 1e100, or an operator is unknown.
        """
        around, at = np.array([-1, 0, 1]), _first_columns(condition)
        match condition:
            case Band(reach, column, _, scale):
                shape, offsets = [BAND, at[column], 0], around
            case Distance(reach, (x, y), _, scale):
                shape = [DISTANCE, at[x], at[y]]
                offsets = (around[:, None] * 2**32 + around).ravel()
            case Equality():
                shape, reach, scale, offsets = [EQUALITY, 0, 0], 0.0, None, np.zeros(1, np.int64)
        if scale is None and reach != 0 and not 1e-100 <= reach <= 1e100:
            raise ValueError(f"expected a width or radius of 0 or within 1e-100 and 1e100, found {reach}")
        bound = np.array([_bound(reach, scale)], BOUND)
        packed = np.array([_packed(each, at) for each in condition.where], COMPARISON)
        return cls(np.array([*shape, scale is not None]), bound, offsets, packed, at[-1])

    def cells(self, batch: Batch) -> tuple[Int64s, Bools]:
        """Return each row's cell, and which rows can join at all.

        Raises ValueError when the batch has fewer columns of numbers than the condition reads.
        """
        if batch.numbers.shape[1] < self.columns:
            raise ValueError(f"expected {self.columns} columns of numbers, found {batch.numbers.shape[1]}")
        kind, first, second, _ = self.shape.tolist()
        if kind == EQUALITY:
            return batch.key, ~batch.missing
        x, can = self._along(batch.numbers, first)
        if kind == BAND:
            return x, can & ~batch.missing
        y, can_too = self._along(batch.numbers, second)
        return x * 2**32 + y, can & can_too & ~batch.missing

    def _along(self, numbers: Any, column: int) -> tuple[Int64s, Bools]:
        is_exact = bool(self.shape[3])
        x = _nearest(numbers, column) if is_exact else numbers[:, column]
        can = np.isfinite(x)
        width = float(self.reach["double"][0]) * (1 + 2.0**-18) or 1.0
        with np.errstate(over="ignore"):
            cells = np.floor(np.where(can, x, 0.0) / width)
        return np.clip(cells, -LAST_CELL, LAST_CELL).astype(np.int64), can


def _first_columns(condition: Condition) -> list[int]:
    """Return the first column of each number, by its place in the condition; last how many columns there are."""
    scales = scales_of(condition)
    widths = (1 if scales.get(each) is None else 2 for each in range(max(scales, default=-1) + 1))
    return [0, *accumulate(widths)]


def _bound(number: float, scale: int | None) -> tuple[float, int, int]:
    return float(number), *(words_of(int(number)) if scale is not None else (0, 0))


def _packed(each: Comparison, at: list[int]) -> tuple[Any, ...]:
    if each.operator not in OPERATORS:
        raise ValueError(f"expected operators out of {OPERATORS}, found [{each.operator!r}]")
    columns = at[each.left], OPERATORS.index(each.operator), at[each.right]
    return *columns, each.scale is not None, *_bound(each.plus, each.scale)


def _nearest(numbers: Any, column: int) -> Any:
    """Return doubles within three units in the last place of exact numbers, NaN where one is missing."""
    low, high = (numbers[:, each].view(np.int64) for each in (column, column + 1))
    near = np.where(high == low >> 63, low, high * 2.0**64 + low.view(np.uint64))
    return np.where(high == MISSING, np.nan, near)


@njit(cache=True)
def is_near_exactly(
    reach: Any, words: Any, at: Any, others: Any, where: Any, kind: Any, first: Any, second: Any
) -> Any:
    """Tell if exact numbers of two rows are within a band's width, or a distance's radius."""
    low, high = difference(words, at, others, where, first)
    if not is_at_most(low, high, reach.low, reach.high):
        return False
    if kind == BAND:
        return True
    other_low, other_high = difference(words, at, others, where, second)
    return are_within(low, high, other_low, other_high, reach.low, reach.high)


@njit(cache=True)
def is_near(reach: float, dx: float, dy: float, squared: bool) -> Any:
    """Tell if differences are within a band's width, or with ``squared`` within a distance's radius."""
    if squared:
        return dx * dx + dy * dy <= reach * reach
    return abs(dx) <= reach


@njit(cache=True)
def compare(
    comparisons: Any, numbers: Any, words: Any, at: Any, mine: Any, others: Any, more: Any, where: Any
) -> Any:
    """Tell if ``numbers`` of row ``at``, of side ``mine``, and ``others`` of the other's row ``where`` satisfy all.

    ``words`` and ``more``: the same as int64.
    """
    for index in range(len(comparisons)):
        left, right = comparisons[index].left, comparisons[index].right
        if comparisons[index].is_exact:
            each = comparisons[index]
            if mine == 0:
                order = order_of_sum(words, at, left, more, where, right, each.low, each.high)
            else:
                order = order_of_sum(more, where, left, words, at, right, each.low, each.high)
            if not _holds(each.operator, order, 0.0):
                return False
            continue
        if mine == 0:
            one, two = numbers[at, left], others[where, right]
        else:
            one, two = others[where, left], numbers[at, right]
        if not _holds(comparisons[index].operator, one, two + comparisons[index].double):
            return False
    return True


@njit(cache=True)
def _holds(operator: int, left: float, right: float) -> Any:
    if operator == 0:
        return left < right
    if operator == 1:
        return left <= right
    if operator == 2:
        return left == right
    if operator == 3:
        return left < right or left > right
    if operator == 4:
        return left >= right
    return left > right
