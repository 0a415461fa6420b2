"""Compiled running totals: per group how many results there are, and for each aggregate what their values come to.

Counts are whole numbers and sums are exact (``exact.py``): results that are taken away leave no trace, and a
group without results is free for the next. Extremes cannot be taken away: who does so marks them stale.

Arguments named ``totals`` are the tuple of ``Totals.arrays``. ``aggregates`` int64, aggregates x 4: function, side,
column of values, and number among the sums.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.exact import rounded

COUNT, SUM, MIN, MAX = range(4)
FUNCTION, SIDE, COLUMN, NUMBER = range(4)
TOTAL = np.dtype(
    [
        ("results", np.int64),
        # The next group with this hash, or the next free one.
        ("next", np.int32),
        # The first of what rows carry for this group, for methods whose rows carry something.
        ("carried", np.int32),
    ],
    align=True,
)
# Fields of the totals' `state`: groups that have results, places that were ever used, the first of those free again.
GROUPS, USED, FREE = range(3)


@njit(cache=True)
def group_of(parts: Any, totals: Any) -> Any:
    """Return the place of a group, made if it has no results yet; the caller has made room."""
    groups, known, _, _, _, _, heads, state = totals
    bucket = _bucket(parts, len(heads))
    at = heads[bucket]
    while at >= 0 and not _is_equal(known[at], parts):
        at = groups[at].next
    if at < 0:
        at = state[FREE]
        if at >= 0:
            state[FREE] = groups[at].next
        else:
            at = state[USED]
            state[USED] += 1
        for side in range(len(parts)):
            known[at, side] = parts[side]
        groups[at].next, groups[at].carried, groups[at].results = heads[bucket], -1, 0
        heads[bucket] = at
        state[GROUPS] += 1
    return at


@njit(cache=True, inline="always")
def free_if_empty(group: int, totals: Any) -> None:
    """Let a group go that has no results left; its counts and sums are zero again."""
    groups, known, _, _, extremes, stale, heads, state = totals
    if groups[group].results:
        return
    for column in range(extremes.shape[1]):
        extremes[group, column], stale[group, column] = np.nan, False
    bucket = _bucket(known[group], len(heads))
    at = heads[bucket]
    if at == group:
        heads[bucket] = groups[group].next
    else:
        while groups[at].next != group:
            at = groups[at].next
        groups[at].next = groups[group].next
    groups[group].next = state[FREE]
    state[FREE] = group
    state[GROUPS] -= 1


@njit(cache=True, inline="always")
def _bucket(parts: Any, buckets: int) -> Any:
    mixed = np.uint64(0)
    for side in range(len(parts)):
        mixed = (mixed ^ np.uint64(parts[side])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed & np.uint64(buckets - 1))


@njit(cache=True, inline="always")
def _is_equal(one: Any, other: Any) -> Any:
    side = 0
    while side < len(one) and one[side] == other[side]:
        side += 1
    return side == len(one)


@njit(cache=True)
def chain_groups(totals: Any) -> None:
    """Put all groups into empty chains."""
    groups, known, _, _, _, _, heads, state = totals
    for at in range(state[USED]):
        if groups[at].results:
            bucket = _bucket(known[at], len(heads))
            groups[at].next = heads[bucket]
            heads[bucket] = at


@njit(cache=True, inline="always")
def parts_of(result: Any, entries: Any, parts: Any) -> None:
    """Write the group of a result, the slots of its rows given."""
    for side in range(len(parts)):
        parts[side] = entries[result[side]].group


@njit(cache=True, inline="always")
def is_full(totals: Any) -> Any:
    """Tell if there is no room for another group."""
    return totals[7][GROUPS] == len(totals[0])


@njit(cache=True, inline="always")
def better(function: int, one: float, other: float) -> Any:
    """Return the lesser or the greater of two values, of which NaN is none."""
    if np.isnan(one) or (function == MIN and other < one) or (function == MAX and other > one):
        return other
    return one


@njit(cache=True)
def list_sums(at: Any, limbs: Any, aggregates: Any, high: Any, low: Any) -> None:
    """Write the sums of groups at places ``at`` as two floats each, into the columns of their aggregates."""
    for row in range(len(at)):
        for column in range(len(aggregates)):
            number = aggregates[column, NUMBER]
            if number >= 0:
                high[row, column], low[row, column] = rounded(limbs[at[row], number])
