"""Rows that no tick can tell apart, as one: what is kept of a stream grows with keys and ticks, not with its rows.

Answers are asked for at ticks only, so a row is as well in its window from the first tick in it to the last. Rows of
one side, key and group that share both are one row of their weight, with the sum or the extreme of their values.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Int64s, Rows, Shape

_FOLDED = {"count": 0, "sum": 1, "min": 2, "max": 3}
_SUM, _MIN, _MAX = 1, 2, 3
# Of a sum; float64 has places for no more than these beside each other.
_MOST_PARTS = 64


def at_ticks(rows: Rows, every_us: int) -> Rows:
    """Return rows in their windows from their first tick to their last, those that no tick finds left out."""
    first = -(-rows.enter_us // every_us) * every_us
    last = rows.leave_us // every_us * every_us
    snapped = replace(rows, enter_us=first, leave_us=last)
    found = first <= last
    return snapped if found.all() else snapped[found]


def spread(shape: Shape) -> Shape:
    """Return the shape of folded rows: each aggregate has a column of its own."""
    own = tuple(Aggregate(each.function, each.side, column) for column, each in enumerate(shape.aggregates))
    return replace(shape, aggregates=own)


def spread_values(shape: Shape, rows: Rows) -> Rows:
    """Return rows of a shape as rows of its ``spread``: of aggregates of other sides null."""
    columns = [
        np.where(rows.side == each.side, rows.values[:, each.column], np.nan) for each in shape.aggregates
    ]
    values = np.column_stack(columns) if columns else np.empty((len(rows), 0))
    return replace(rows, values=values)


def folded(shape: Shape, rows: Rows) -> Rows:
    """Return rows of a ``spread`` shape, those as one that share side, key, group, enter, leave, and which are null.

    Cost: a sort. Guarantee: answers stay what they are. A sum that needs more digits than a float64 has is kept as rows
    of its parts, which are never more than the rows it is of.
    """
    if len(rows) < 2:
        return rows
    nulls = np.packbits(np.isnan(rows.values), axis=1).astype(np.int64)
    names = (rows.enter_us, rows.leave_us, rows.group, rows.side.astype(np.int64), *rows.keys.T, *nulls.T)
    order = np.lexsort(names)
    starts = _starts([each[order] for each in names])
    functions = np.array([_FOLDED[each.function] for each in shape.aggregates], np.int64)
    values, weight, of = fold(np.ascontiguousarray(rows.values), rows.weight, functions, order, starts)
    return replace(rows[order[starts[of]]], values=values, weight=weight)


def _starts(names: list[Int64s]) -> Int64s:
    is_first = np.ones(len(names[0]), np.bool_)
    is_first[1:] = False
    for each in names:
        is_first[1:] |= each[1:] != each[:-1]
    return np.flatnonzero(is_first)


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
