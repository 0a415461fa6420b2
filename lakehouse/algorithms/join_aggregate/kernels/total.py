"""Compiled running totals: per group how many results there are, and for each aggregate what their values come to.

Counts are whole numbers and sums are exact (``digits.py``): results that are taken away leave no trace, and a
group without results is free for the next. Extremes cannot be taken away: who does so marks them stale.

Arguments named ``totals`` are the tuple of ``Totals.arrays``. ``aggregates`` int64, aggregates x 5: function, side,
column of values, number among the sums, and limbs.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import add_number, shown
from lakehouse.algorithms.join_aggregate.kernels.extremes import is_less, limb_of

COUNT, SUM, MIN, MAX = range(4)
FUNCTION, SIDE, COLUMN, NUMBER, LIMBS = range(5)
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
# Fields of the totals' `state`: groups that have results, places that were ever used, the first of those free again;
# how many digits sums have, and the place of the lowest.
GROUPS, USED, FREE, DIGITS, LOWEST = range(5)


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
        extremes[group, column, 0], stale[group, column] = np.nan, False
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
def improve(function: int, table: Any, row: Any, column: Any, value: float, high: float, low: float) -> None:
    """Let a table keep the lesser or the greater of what it has and a value, of which NaN is none."""
    own, own_high, own_low = table[row, column, 0], table[row, column, 1], table[row, column, 2]
    is_better = own != own
    if function == MIN:
        is_better |= is_less(value, high, low, own, own_high, own_low)
    else:
        is_better |= is_less(own, own_high, own_low, value, high, low)
    if is_better:
        table[row, column, 0], table[row, column, 1], table[row, column, 2] = value, high, low


@njit(cache=True, inline="always")
def count_in(
    values: Any, at: Any, aggregate: Any, counted: Any, sums: Any, extremes: Any, row: Any, which: Any, state: Any,
    sign: Any,
) -> None:  # fmt: skip
    """Add a value of a result to an aggregate's count and sum or extreme in a row of tables, or take it away."""
    function, column, limbs = aggregate[FUNCTION], aggregate[COLUMN], aggregate[LIMBS]
    if values[at, column] == values[at, column]:
        counted[row, which] += sign
        if function == SUM:
            digits, lowest = state[DIGITS], state[LOWEST]
            add_number(sums, row, aggregate[NUMBER] * digits, digits, lowest, values, at, column, limbs, sign)
        elif function > SUM:
            improve(
                function, extremes, row, which, limb_of(values, at, column, limbs, 0),
                limb_of(values, at, column, limbs, 1), limb_of(values, at, column, limbs, 2),
            )  # fmt: skip


@njit(cache=True)
def list_numbers(at: Any, totals: Any, aggregates: Any, high: Any, low: Any, extreme: Any) -> None:
    """Write the sums and extremes of groups at places ``at`` into the columns of their aggregates."""
    _, _, _, sums, extremes, _, _, state = totals
    for row in range(len(at)):
        for column in range(len(aggregates)):
            number, digits = aggregates[column, NUMBER], state[DIGITS]
            high[row, column], low[row, column], extreme[row, column] = 0.0, 0.0, np.nan
            if number >= 0:
                start, limbs = number * digits, aggregates[column, LIMBS]
                parts = shown(sums, at[row], start, digits, state[LOWEST], limbs)
                high[row, column], low[row, column], extreme[row, column] = parts
            elif extremes[at[row], column, 0] == extremes[at[row], column, 0]:
                extreme[row, column] = extremes[at[row], column, 0]
                high[row, column], low[row, column] = (
                    extremes[at[row], column, 1],
                    extremes[at[row], column, 2],
                )
