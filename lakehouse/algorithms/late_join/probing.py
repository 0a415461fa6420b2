"""A condition as kernels read it: each row's cell, the cells of its partners, and the exact check of what lies there.

Every row gets one *cell*, and its partners can only lie in the cells at the plan's ``offsets`` from it: its own for an
equality, three for a band, nine for a distance.

Cells of a band are ``floor(x / (width * (1 + 2^-20)))``, held within +-2^30. The margin outweighs the rounding of
the division, so numbers within the width are never two cells apart; numbers beyond the last cell share it, which
costs time and never a pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.conditions import OPERATORS, Band, Comparison, Distance, Equality

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.algorithms.late_join.conditions import Condition
    from lakehouse.algorithms.late_join.contract import Batch, Bools, Int64s

EQUALITY, BAND, DISTANCE = 0, 1, 2
LAST_CELL = 2**30
COMPARISON = np.dtype(
    [("left", np.int64), ("operator", np.int64), ("right", np.int64), ("plus", np.float64)], align=True
)


@dataclass(frozen=True)
class Plan:
    """A condition for kernels. ``shape`` int64: kind and the columns of x and y; ``reach``: width or radius."""

    shape: Int64s
    reach: float
    offsets: Int64s
    comparisons: npt.NDArray[np.void]

    @classmethod
    def of(cls, condition: Condition) -> Plan:
        """Return the plan of a condition.

        Raises:
            ValueError: a width or radius is neither 0 nor within 1e-100 and 1e100, or an operator is unknown.
        """
        around = np.array([-1, 0, 1])
        match condition:
            case Band():
                shape, reach, offsets = [BAND, condition.column, 0], condition.width, around
            case Distance():
                shape, reach = [DISTANCE, *condition.columns], condition.radius
                offsets = (around[:, None] * 2**32 + around).ravel()
            case Equality():
                shape, reach, offsets = [EQUALITY, 0, 0], 0.0, np.zeros(1, np.int64)
        if reach != 0 and not 1e-100 <= reach <= 1e100:
            raise ValueError(f"expected a width or radius of 0 or within 1e-100 and 1e100, found {reach}")
        return cls(np.array(shape), float(reach), offsets, _packed(condition.where))

    @cached_property
    def columns(self) -> int:
        """Return how many columns of numbers rows must have at least."""
        kind, first, second = self.shape.tolist()
        read = [[], [first], [first, second]][kind]
        read += self.comparisons["left"].tolist() + self.comparisons["right"].tolist()
        return max(read, default=-1) + 1

    def cells(self, batch: Batch) -> tuple[Int64s, Bools]:
        """Return each row's cell, and which rows can join at all.

        Raises:
            ValueError: the batch has fewer columns of numbers than the condition reads.
        """
        if batch.numbers.shape[1] < self.columns:
            raise ValueError(f"expected {self.columns} columns of numbers, found {batch.numbers.shape[1]}")
        kind, first, second = self.shape.tolist()
        if kind == EQUALITY:
            return batch.key, ~batch.missing
        x, can = self._along(batch.numbers[:, first])
        if kind == BAND:
            return x, can & ~batch.missing
        y, can_too = self._along(batch.numbers[:, second])
        return x * 2**32 + y, can & can_too & ~batch.missing

    def _along(self, numbers: Any) -> tuple[Int64s, Bools]:
        width = self.reach * (1 + 2.0**-20) if self.reach else 1.0
        can = np.isfinite(numbers)
        with np.errstate(over="ignore"):
            cells = np.floor(np.where(can, numbers, 0.0) / width)
        return np.clip(cells, -LAST_CELL, LAST_CELL).astype(np.int64), can


def _packed(where: tuple[Comparison, ...]) -> npt.NDArray[np.void]:
    if unknown := {each.operator for each in where} - set(OPERATORS):
        raise ValueError(f"expected operators out of {OPERATORS}, found {sorted(unknown)}")
    rows = [(each.left, OPERATORS.index(each.operator), each.right, each.plus) for each in where]
    return np.array(rows, COMPARISON)


@njit(cache=True)
def is_near(reach: float, dx: float, dy: float, squared: bool) -> Any:
    """Tell if differences are within a band's width, or with ``squared`` within a distance's radius."""
    if squared:
        return dx * dx + dy * dy <= reach * reach
    return abs(dx) <= reach


@njit(cache=True)
def compare(comparisons: Any, numbers: Any, at: Any, mine: Any, others: Any, where: Any) -> Any:
    """Tell if ``numbers`` of row ``at``, of side ``mine``, and ``others`` of the other's row ``where`` satisfy all."""
    for index in range(len(comparisons)):
        left, right = comparisons[index].left, comparisons[index].right
        if mine == 0:
            one, two = numbers[at, left], others[where, right]
        else:
            one, two = others[where, left], numbers[at, right]
        if not _holds(comparisons[index].operator, one, two + comparisons[index].plus):
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
