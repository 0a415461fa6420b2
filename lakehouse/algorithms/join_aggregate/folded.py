"""Rows that no tick can tell apart, as one: what is kept of a stream grows with keys and ticks, not with its rows.

Answers are asked for at ticks only, so a row is as well in its window from the first tick in it to the last. Rows of
one side, key and group that share both are one row of their weight, with the sum or the extreme of their values.
"""

from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import LIMB_BITS, Int64s, Rows, Shape
from lakehouse.algorithms.join_aggregate.kernels.extremes import is_less, limb_of

_FOLDED = {"count": 0, "sum": 1, "min": 2, "max": 3}
_SUM, _MIN, _MAX = 1, 2, 3
# Of a sum; float64 has places for no more than these beside each other, but of sums beyond its range.
_MOST_PARTS = 64
# A highest limb above it is not added to, lest it be rounded.
_MOST_LIMB = 2.0**52
_BASE = 1 << LIMB_BITS


def at_ticks(rows: Rows, every_us: int) -> Rows:
    """Return rows in their windows from their first tick to their last, those that no tick finds left out."""
    first = -(-rows.enter_us // every_us) * every_us
    last = rows.leave_us // every_us * every_us
    snapped = replace(rows, enter_us=first, leave_us=last)
    found = first <= last
    return snapped if found.all() else snapped[found]


def spread(shape: Shape) -> Shape:
    """Return the shape of folded rows: each aggregate has a column of its own."""
    ends = accumulate(each.limbs for each in shape.aggregates)
    own = (replace(each, column=end - each.limbs) for each, end in zip(shape.aggregates, ends, strict=True))
    return replace(shape, aggregates=tuple(own))


def spread_values(shape: Shape, rows: Rows) -> Rows:
    """Return rows of a shape as rows of its ``spread``: of aggregates of other sides null."""
    columns = [
        np.where(rows.side == each.side, rows.values[:, each.column + limb], np.nan)
        for each in shape.aggregates
        for limb in range(each.limbs)
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
    own = [(_FOLDED[each.function], each.column, each.limbs) for each in shape.aggregates]
    aggregates = np.array(own, np.int64).reshape(-1, 3)
    values, weight, of = fold(np.ascontiguousarray(rows.values), rows.weight, aggregates, order, starts)
    return replace(rows[order[starts[of]]], values=values, weight=weight)


def _starts(names: list[Int64s]) -> Int64s:
    is_first = np.ones(len(names[0]), np.bool_)
    is_first[1:] = False
    for each in names:
        is_first[1:] |= each[1:] != each[:-1]
    return np.flatnonzero(is_first)


@njit(cache=True)
def fold(values: Any, weight: Any, aggregates: Any, order: Any, starts: Any) -> Any:
    """Return values and weights of the folded rows, and which group of rows each is of.

    ``order`` lists the rows, those that are alike side by side, and ``starts`` where each group begins in it. A group
    becomes as many rows as its longest sum has parts; the first has the weight that the others, of 1 each, leave.
    ``aggregates``: function, column, limbs.
    """
    many, wide, longest = len(order), len(aggregates), _MOST_PARTS
    for group in range(len(starts)):
        longest = max(longest, (starts[group + 1] if group + 1 < len(starts) else many) - starts[group])
    folded, weights, of = (
        np.empty((many, values.shape[1])),
        np.empty(many, np.int64),
        np.empty(many, np.int64),
    )
    parts, lengths = np.empty((wide, longest + 1, 3)), np.empty(wide, np.int64)
    found = 0
    for group in range(len(starts)):
        end = starts[group + 1] if group + 1 < len(starts) else many
        own = order[starts[group] : end]
        most, total = 1, np.int64(0)
        for at in own:
            total += weight[at]
        for number in range(wide):
            function, column, limbs = aggregates[number, 0], aggregates[number, 1], aggregates[number, 2]
            lengths[number] = _combine(values, column, limbs, function, own, parts[number])
            most = max(most, lengths[number])
        for place in range(most):
            weights[found], of[found] = (1 if place else total - (most - 1)), group
            for number in range(wide):
                column, length = aggregates[number, 1], lengths[number]
                for limb in range(aggregates[number, 2]):
                    part = parts[number, place if length else 0, limb]
                    folded[found, column + limb] = part if place < length or not length else 0.0
            found += 1
    return folded[:found], weights[:found], of[:found]


@njit(cache=True)
def _combine(values: Any, column: int, limbs: int, function: int, own: Any, parts: Any) -> Any:
    """Write the sum's parts, or the extreme, of a number of some rows; return how many parts a sum has, 0 if null."""
    best, length = own[0], 0
    if function == _SUM and values[best, column] == values[best, column]:
        for at in own:
            if limbs > 1:
                length = _add_limbs(values, at, column, limbs, parts, length)
            else:
                length = _add(values[at, column], parts, length)
        if not length:
            parts[0] = 0.0
        return max(length, 1)
    for at in own if function in (_MIN, _MAX) else own[:1]:
        least, most = (at, best) if function == _MIN else (best, at)
        if is_less(
            limb_of(values, least, column, limbs, 0),
            limb_of(values, least, column, limbs, 1),
            limb_of(values, least, column, limbs, 2),
            limb_of(values, most, column, limbs, 0),
            limb_of(values, most, column, limbs, 1),
            limb_of(values, most, column, limbs, 2),
        ):
            best = at
    for limb in range(limbs):
        parts[0, limb] = values[best, column + limb]
    return 0


@njit(cache=True)
def _add_limbs(values: Any, at: Any, column: int, limbs: int, parts: Any, length: int) -> Any:
    """Add a number to the last part of a sum, or begin another where that has no room; return how many there are."""
    if not length or abs(parts[length - 1, limbs - 1]) > _MOST_LIMB:
        parts[length] = 0.0
        length += 1
    carry: Any = np.int64(0)
    for limb in range(limbs):
        total = carry + np.int64(parts[length - 1, limb]) + np.int64(values[at, column + limb])
        carry = 0 if limb == limbs - 1 else (total // _BASE if total >= 0 else -(-total // _BASE))
        parts[length - 1, limb] = total - carry * _BASE
    return length


@njit(cache=True)
def _add(value: float, parts: Any, length: int) -> Any:
    """Add a value to parts of a sum that share no digit, in ascending order; return how many there are (Shewchuk).

    Parts whose sum is beyond the range of doubles stay apart.
    """
    kept = 0
    for place in range(length):
        other = parts[place, 0]
        if abs(value) < abs(other):
            value, other = other, value
        together = value + other
        rest = other - (together - value)
        if np.isinf(together):
            together, rest = value, other
        if rest != 0.0:
            parts[kept, 0] = rest
            kept += 1
        value = together
    if value != 0.0:
        parts[kept, 0] = value
        kept += 1
    return kept
