"""Compiled checks of a condition: what lies within reach, and comparisons on top."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def is_near(reach: float, dx: float, dy: float, squared: bool) -> Any:
    """Tell if differences are within a band's width, or with ``squared`` within a distance's radius."""
    if squared:
        return dx * dx + dy * dy <= reach * reach
    return abs(dx) <= reach


@njit(cache=True)
def compare(comparisons: Any, numbers: Any, at: int, mine: int, values: Any, where: int) -> Any:
    """Tell if row ``at`` of side ``mine`` and the other side's row ``where`` satisfy all comparisons.

    ``values`` is sides x rows x columns.
    """
    for index in range(len(comparisons)):
        left, right = comparisons[index].left, comparisons[index].right
        if mine == 0:
            one, two = numbers[at, left], values[1, where, right]
        else:
            one, two = values[0, where, left], numbers[at, right]
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
