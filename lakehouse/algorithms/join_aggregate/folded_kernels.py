"""Compiled folding of rows that are alike: counts added, sums exactly, extremes compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_SUM, _MIN, _MAX = 1, 2, 3
# Of a sum; float64 has places for no more than these beside each other.
_MOST_PARTS = 64


@njit(cache=True)
def fold(values: Any, weight: Any, functions: Any, order: Any, starts: Any) -> Any:
    """Return values and weights of the folded rows, and which group of rows each is of.

    ``order`` lists the rows, those that are alike side by side, and ``starts`` where each group begins in it. A group
    becomes as many rows as its longest sum has parts; the first has the weight that the others, of 1 each, leave.
    """
    many, wide = len(order), values.shape[1]
    folded, weights, of = np.empty((many, wide)), np.empty(many, np.int64), np.empty(many, np.int64)
    parts, lengths = np.empty((wide, _MOST_PARTS)), np.empty(wide, np.int64)
    found = 0
    for group in range(len(starts)):
        end = starts[group + 1] if group + 1 < len(starts) else many
        own = order[starts[group] : end]
        most, total = 1, np.int64(0)
        for at in own:
            total += weight[at]
        for column in range(wide):
            lengths[column] = _combine(values, column, functions[column], own, parts[column])
            most = max(most, lengths[column])
        for place in range(most):
            weights[found], of[found] = (1 if place else total - (most - 1)), group
            for column in range(wide):
                if functions[column] == _SUM and lengths[column]:
                    folded[found, column] = parts[column, place] if place < lengths[column] else 0.0
                else:
                    folded[found, column] = parts[column, 0]
            found += 1
    return folded[:found], weights[:found], of[:found]


@njit(cache=True)
def _combine(values: Any, column: int, function: int, own: Any, parts: Any) -> Any:
    """Write the sum's parts, or the extreme, of a column of some rows; return how many parts a sum has, 0 if null."""
    first = values[own[0], column]
    parts[0] = first
    if function != _SUM or first != first:
        for at in own:
            value = values[at, column]
            if (function == _MIN and value < parts[0]) or (function == _MAX and value > parts[0]):
                parts[0] = value
        return 0
    length = 0
    for at in own:
        length = _add(values[at, column], parts, length)
    if not length:
        parts[0] = 0.0
    return max(length, 1)


@njit(cache=True)
def _add(value: float, parts: Any, length: int) -> Any:
    """Add a value to parts of a sum that share no digit, in ascending order; return how many there are (Shewchuk)."""
    kept = 0
    for place in range(length):
        other = parts[place]
        if abs(value) < abs(other):
            value, other = other, value
        together = value + other
        rest = other - (together - value)
        if rest != 0.0:
            parts[kept] = rest
            kept += 1
        value = together
    if value != 0.0:
        parts[kept] = value
        kept += 1
    return kept
