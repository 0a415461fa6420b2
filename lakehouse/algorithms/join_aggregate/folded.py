"""Rows that no tick can tell apart, as one: what is kept of a stream grows with keys and ticks, not with its rows.

Answers are asked for at ticks only, so a row is as well in its window from the first tick in it to the last. Rows of
one side, key and group that share both are one row of their weight, with the sum or the extreme of their values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.folded_kernels import fold

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s

_FOLDED = {"count": 0, "sum": 1, "min": 2, "max": 3}


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
