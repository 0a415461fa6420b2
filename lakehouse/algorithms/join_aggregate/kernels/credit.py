"""Compiled crediting: each result is added to what the row carries that leaves first of its rows, and to the totals.

A row carries one credit per group that such results fall in. When it leaves, its credits leave the totals: no join.
Sums are digits in both (``digits.py``), so that totals are exactly the sum of all credits of live rows.

Arguments named ``credits`` are the tuple of ``Credits.arrays``; ``windows``, ``plan``, ``totals`` as in their kernels.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import add_times
from lakehouse.algorithms.join_aggregate.kernels.total import (
    DIGITS,
    FUNCTION,
    NUMBER,
    SIDE,
    USED,
    count_in,
    free_if_empty,
    group_of,
    improve,
    is_full,
    parts_of,
)
from lakehouse.algorithms.join_aggregate.kernels.window import free_slot, probe, put_in, take_out, write

CREDIT = np.dtype(
    [
        ("results", np.int64),
        ("group", np.int32),
        # The next credit of the row, or the next free one.
        ("next", np.int32),
        # The neighbours among the group's credits.
        ("after", np.int32),
        ("before", np.int32),
    ],
    align=True,
)
# Fields of the credits' `state`: credits there are, places that were ever used, the first of those free again.
HELD, PLACES, FREE = range(3)


@njit(cache=True)
def enter_rows(
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
    """Let rows from ``start`` on enter; ``done`` results of the first are credited already.

    Returns:
        Where it stopped for lack of room, how many results of that row are credited, and how many it has.
    """
    for at in range(start, len(rows[0])):
        slot = free_slot(windows)
        if done == 0:
            # Written once: it may carry credits already when there was no room for all of them.
            write(windows, rows, at)
        found = probe(windows, plan, slot, work, results)
        if found > len(results):
            return at, done, found
        done = _credit(results, done, found, windows, aggregates, totals, parts, credits)
        if done < found:
            return at, done, found
        done = 0
        put_in(windows, plan, slot)
    return len(rows[0]), 0, 0


@njit(cache=True, inline="always")
def _credit(
    results: Any,
    start: int,
    found: int,
    windows: Any,
    aggregates: Any,
    totals: Any,
    parts: Any,
    credits: Any,
) -> Any:
    """Credit results from ``start`` on; return where it stopped."""
    entries, values = windows[0], windows[2]
    items, counted, sums, extremes, state = credits
    groups, _, group_counted, group_sums, group_extremes, _, _, kept = totals
    for at in range(start, found):
        if is_full(totals) or state[HELD] == len(items):
            return at
        result = results[at]
        parts_of(result, entries, parts)
        group = group_of(parts, totals)
        credit = credit_of(_first_to_leave(result, entries), group, entries, groups, credits)
        items[credit].results += 1
        groups[group].results += 1
        for column in range(len(aggregates)):
            aggregate, row = aggregates[column], result[aggregates[column, SIDE]]
            count_in(values, row, aggregate, counted, sums, extremes, credit, column, kept, 1)
            count_in(
                values, row, aggregate, group_counted, group_sums, group_extremes, group, column, kept, 1
            )
    return found


@njit(cache=True, inline="always")
def _first_to_leave(result: Any, entries: Any) -> Any:
    """Return the slot of the row with which the result ends; of those that leave together, the one that came first."""
    first = result[0]
    for side in range(1, len(result)):
        slot = result[side]
        if entries[slot].leave < entries[first].leave or (
            entries[slot].leave == entries[first].leave and entries[slot].number < entries[first].number
        ):
            first = slot
    return first


@njit(cache=True, inline="always")
def credit_of(slot: int, group: int, entries: Any, groups: Any, credits: Any) -> Any:
    """Return the place of a row's credit for a group, made if there is none; the caller has made room."""
    items, counted, sums, extremes, state = credits
    at = entries[slot].carried
    while at >= 0 and items[at].group != group:
        at = items[at].next
    if at >= 0:
        return at
    at = state[FREE]
    if at >= 0:
        state[FREE] = items[at].next
    else:
        at = state[PLACES]
        state[PLACES] += 1
    state[HELD] += 1
    item, first = items[at], groups[group].carried
    item.results, item.group, item.next = 0, group, entries[slot].carried
    item.after, item.before = first, -1
    if first >= 0:
        items[first].before = at
    entries[slot].carried = groups[group].carried = at
    counted[at, :] = 0
    sums[at, :] = 0
    extremes[at, :, 0] = np.nan
    return at


@njit(cache=True)
def leave_before(now: int, windows: Any, plan: Any, aggregates: Any, totals: Any, credits: Any) -> None:
    """Let all rows leave that do so before ``now``, and with them what they carry."""
    slot = take_out(windows, plan, now)
    while slot >= 0:
        at = windows[0][slot].carried
        while at >= 0:
            after = credits[0][at].next
            _take_credit(at, aggregates, totals, credits)
            at = after
        slot = take_out(windows, plan, now)


@njit(cache=True, inline="always")
def _take_credit(at: int, aggregates: Any, totals: Any, credits: Any) -> None:
    """Take a credit away from its group; an extreme that goes with it leaves the group's stale."""
    items, counted, sums, extremes, state = credits
    groups, _, group_counted, group_sums, group_extremes, stale, _, kept = totals
    item = items[at]
    group = item.group
    groups[group].results -= item.results
    for column in range(len(aggregates)):
        group_counted[group, column] -= counted[at, column]
        start, digits = aggregates[column, NUMBER] * kept[DIGITS], kept[DIGITS]
        if start >= 0:
            add_times(group_sums, group, start, sums, at, start, digits, -1)
        elif _is_same(extremes, at, group_extremes, group, column):
            stale[group, column] = True
    if item.after >= 0:
        items[item.after].before = item.before
    if item.before >= 0:
        items[item.before].after = item.after
    else:
        groups[group].carried = item.after
    item.next = state[FREE]
    state[FREE] = at
    state[HELD] -= 1
    free_if_empty(group, totals)


@njit(cache=True, inline="always")
def _is_same(one: Any, at: Any, other: Any, row: Any, column: Any) -> Any:
    return (
        one[at, column, 0] == other[row, column, 0]
        and one[at, column, 1] == other[row, column, 1]
        and one[at, column, 2] == other[row, column, 2]
    )


@njit(cache=True)
def refresh_extremes(aggregates: Any, totals: Any, credits: Any) -> None:
    """Find stale extremes again among the credits of their group."""
    groups, _, _, _, group_extremes, stale, _, state = totals
    for group in range(state[USED]):
        for column in range(len(aggregates)):
            if stale[group, column]:
                at = groups[group].carried
                group_extremes[group, column, 0], stale[group, column] = np.nan, False
                while at >= 0:
                    improve_by(aggregates[column, FUNCTION], group_extremes, group, column, credits[3], at)
                    at = credits[0][at].after


@njit(cache=True, inline="always")
def improve_by(function: int, table: Any, row: Any, column: Any, other: Any, at: Any) -> None:
    """Let a table keep the best of what it has and another one has, which may be none."""
    value, high, low = other[at, column, 0], other[at, column, 1], other[at, column, 2]
    if value == value:
        improve(function, table, row, column, value, high, low)
