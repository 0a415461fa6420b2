"""Compiled changes of counts and sums: what a row that enters adds, and what a row that leaves takes away.

Arguments are as in ``window_kernels.py`` and ``total_kernels.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.exact_kernels import add
from lakehouse.algorithms.join_aggregate.total_kernels import (
    COLUMN,
    NUMBER,
    SIDE,
    free_if_empty,
    group_of,
    is_full,
    parts_of,
)
from lakehouse.algorithms.join_aggregate.window_kernels import probe, put_in, take_out, write


@njit(cache=True)
def enter_rows(
    rows: Any,
    start: int,
    done: int,
    at_each: bool,
    windows: Any,
    plan: Any,
    work: Any,
    results: Any,
    aggregates: Any,
    totals: Any,
    parts: Any,
) -> Any:
    """Let rows from ``start`` on enter; ``done`` results of the first are counted already.

    With ``at_each`` rows leave before each row that enters, as in the paper.

    Returns:
        Where it stopped for lack of room for groups, and how many results of that row are counted.
    """
    for at in range(start, len(rows[0])):
        if at_each:
            leave_before(rows[1][at], windows, plan, work, results, aggregates, totals, parts)
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
    groups, _, counted, limbs, _, _, _, _ = totals
    for at in range(start, found):
        if sign > 0 and is_full(totals):
            return at
        result = results[at]
        parts_of(result, entries, parts)
        group = group_of(parts, totals)
        groups[group].results += sign
        for column in range(len(aggregates)):
            value = values[result[aggregates[column, SIDE]], aggregates[column, COLUMN]]
            if not np.isnan(value):
                counted[group, column] += sign
                if aggregates[column, NUMBER] >= 0:
                    add(limbs[group, aggregates[column, NUMBER]], sign * value)
        if sign < 0:
            free_if_empty(group, totals)
    return found
