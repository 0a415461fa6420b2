"""Compiled loops of the per-key aggregates: rows enter and leave, keys that changed settle, groups are answered.

At a tick rows enter and leave their keys' strips; then each key that changed takes what it was at the last tick out of
the totals of its groups and puts in what it is now: the totals see one change a key, and never a part of it. The loops
stop where something has no room left, with ``state[LACK]`` saying what and ``state[NEEDED]`` how much, and go on from
there when they are called again.

Arguments, in the order in which they are taken apart:

    rows ....... side, enter, leave, keys, group, values, weight of those that may enter, and their order in time
    gone ....... rows that leave: leave, place, weight, values, as integers and as floats; their order; of each run
                 of that which is sorted by leave the first that has not left, and the end
    entered .... the same of each row that may enter, and the order of those that leave before the last tick; place is
                 -1 until a tick finds the row in its window
    plan ....... aggregates (function, side, column, number among its kind, limbs), grouped sides, join attributes
    keys ....... slots, strips, free strips, and the keys that changed
    groups ..... slots, and a row per group
    pools ...... stairs, nodes, and the states of both
    out ........ tick, group, results, counted, high, low, extreme

What is done once a row or a key is put in line and takes single arrays, and ends with a use of each (keys.py
tells why): references to arrays would be counted else, at a cost above that of the row.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import MOST, add_number, add_times, product, shown
from lakehouse.algorithms.join_aggregate.kernels.extremes import (
    TAKEN,
    clear_stairs,
    limb_of,
    put_in_heap,
    put_on_stairs,
    without_outdated,
)
from lakehouse.algorithms.join_aggregate.kernels.keys import (
    NONE,
    extra_strip,
    fetch,
    fetch_keys,
    find,
    first_of,
    has_room,
    new_strip,
    next_of,
    tidy,
)

# Of `state`, after USED and FREE of the strips.
GROUPS, LOWEST, STAMP, TICK, ENTERED, LEFT, CHANGED, SETTLED, ANSWERED, LACK, NEEDED, FETCHED = range(2, 14)
FIELDS = 14
# Rows or keys whose strips are fetched at a time: as many as the processor reads side by side, and some.
AHEAD = 64
NOTHING, STRIPS, GROUP_NAMES, STAIRS, NODES, OUT, BEYOND = range(7)
COUNT, SUM, MIN, MAX = range(4)
LEAVE, PLACE, WEIGHT, VALUES = range(4)
# A place is a strip and a side.
SIDE_BITS, SIDE_MASK = 3, 7


@njit(cache=True)
def answer(
    ticks: Any,
    rows: Any,
    gone: Any,
    entered: Any,
    plan: Any,
    layout: Any,
    keys: Any,
    groups: Any,
    pools: Any,
    out: Any,
    state: Any,
) -> None:
    """Go on with the ticks until all are answered, or something has no room."""
    state[LACK] = NOTHING
    while state[TICK] < len(ticks):
        tick = ticks[state[TICK]]
        _let_in(tick, rows, entered, plan, layout, keys, pools, state)
        if state[LACK]:
            return
        _let_go(tick, gone, entered, plan, layout, keys, state)
        _settle(tick, plan, layout, keys, groups, pools, state)
        if state[ANSWERED] + state[GROUPS] > len(out[0]):
            state[LACK] = OUT
        if state[LACK]:
            return
        _emit(tick, plan, layout, keys, groups, pools, out, state)
        state[CHANGED], state[SETTLED] = 0, 0
        state[STAMP] += 1
        state[TICK] += 1


@njit(cache=True)
def _add_values(
    at: Any,
    own: Any,
    strip: Any,
    leave: Any,
    values: Any,
    weight: Any,
    aggregates: Any,
    layout: Any,
    strips: Any,
    stairs: Any,
    stairs_state: Any,
    lowest: Any,
) -> None:
    """Add the values of a row of a side to a strip."""
    for which in range(len(aggregates)):
        function, number_of, limbs = aggregates[which, 0], aggregates[which, 3], aggregates[which, 4]
        column = aggregates[which, 2]
        value = values[at, column] if aggregates[which, 1] == own else np.nan
        if value == value:
            strips[strip, layout.now + layout.sides + which] += weight[at]
            if function == SUM:
                start = layout.now + layout.sums + number_of * layout.digits
                add_number(strips, strip, start, layout.digits, lowest, values, at, column, limbs, 1)
            elif function != COUNT:
                sign, ends = -1.0 if function == MIN else 1.0, layout.ends + 2 * number_of
                put_on_stairs(
                    stairs, stairs_state, strips, strip, ends, leave[at],
                    sign * limb_of(values, at, column, limbs, 0),
                    sign * limb_of(values, at, column, limbs, 1),
                    sign * limb_of(values, at, column, limbs, 2),
                )  # fmt: skip


@njit(cache=True)
def _let_in(
    tick: Any, rows: Any, entered: Any, plan: Any, layout: Any, keys: Any, pools: Any, state: Any
) -> None:
    """Add the rows that are in their windows at a tick to the strips of their keys."""
    side, enter, leave, key, group, values, weight, order = rows
    table, floats, _ = entered
    aggregates, grouped, attributes = plan
    slots, strips, _, changed = keys
    stairs, ends, lowest = pools[0], pools[2][0], state[LOWEST]
    first = 1 if layout.is_grouped else 0
    wanted = np.zeros(max(4, 1 + len(attributes)) if layout.is_grouped else len(attributes), np.int64)
    at_most = 2 if layout.is_grouped else 1
    number, now = state[CHANGED], state[STAMP]
    place = fetched = state[ENTERED]
    while place < len(order) and enter[order[place]] <= tick:
        at = order[place]
        if leave[at] < tick:
            place += 1
            continue
        if not has_room(strips, state, at_most):
            state[LACK] = STRIPS
            break
        if len(stairs) - ends[TAKEN] < layout.extremes:
            state[LACK] = STAIRS
            break
        if layout.is_grouped:
            wanted[:] = 0
        if place >= fetched:
            some = order[place : place + AHEAD]
            state[FETCHED], fetched = (
                fetch_keys(slots, strips, key, some, attributes, wanted, first),
                place + AHEAD,
            )
        for column in range(len(attributes)):
            wanted[first + column] = key[at, attributes[column]]
        slot, strip = find(slots, strips, wanted)
        if strip < 0:
            strip = new_strip(keys, layout, state, slot, wanted, NONE)
        if strips[strip, layout.stamp] != now:
            strips[strip, layout.stamp] = now
            changed[number] = strip
            number += 1
        own = np.int64(side[at])
        if grouped[own]:
            if strips[strip, layout.now + own] == 0:
                strips[strip, layout.parts + own] = group[at]
            if strips[strip, layout.parts + own] != group[at]:
                strip = extra_strip(keys, layout, state, wanted, strip, own, group[at])
        strips[strip, layout.now + own] += weight[at]
        table[at, PLACE] = strip << SIDE_BITS | own
        for column in range(values.shape[1]):
            floats[at, VALUES + column] = values[at, column]
        _add_values(at, own, strip, leave, values, weight, aggregates, layout, strips, stairs, ends, lowest)
        place += 1
    state[ENTERED], state[CHANGED] = place, number


@njit(cache=True)
def _let_go(tick: Any, gone: Any, entered: Any, plan: Any, layout: Any, keys: Any, state: Any) -> None:
    """Take the rows that have left before a tick out of their strips."""
    table, floats, order, runs = gone
    for run in range(len(runs)):
        leaving = table, floats, order[: runs[run, 1]]
        runs[run, 0] = _let_go_of(tick, leaving, runs[run, 0], plan[0], layout, keys, state)
    state[LEFT] = _let_go_of(tick, entered, state[LEFT], plan[0], layout, keys, state)


@njit(cache=True)
def _let_go_of(
    tick: Any, leaving: Any, place: Any, aggregates: Any, layout: Any, keys: Any, state: Any
) -> Any:
    """Do so with the rows of one table, from this place in their order on; return the place after them."""
    table, floats, order = leaving
    _, strips, _, changed = keys
    number, now, fetched = state[CHANGED], state[STAMP], place
    while place < len(order) and table[order[place], LEAVE] < tick:
        if place >= fetched:
            some, fetched = order[place : place + AHEAD], place + AHEAD
            state[FETCHED] = fetch(strips, table[some, PLACE] >> SIDE_BITS)
        at = order[place]
        place += 1
        strip, side = table[at, PLACE] >> SIDE_BITS, table[at, PLACE] & SIDE_MASK
        if strip < 0:
            continue
        owner = strips[strip, layout.owner] if layout.is_grouped else strip
        if strips[owner, layout.stamp] != now:
            strips[owner, layout.stamp] = now
            changed[number] = owner
            number += 1
        strips[strip, layout.now + side] -= table[at, WEIGHT]
        for which in range(len(aggregates)):
            value = floats[at, VALUES + aggregates[which, 2]] if aggregates[which, 1] == side else np.nan
            if value == value:
                strips[strip, layout.now + layout.sides + which] -= table[at, WEIGHT]
                if aggregates[which, 0] == SUM:
                    start = layout.now + layout.sums + aggregates[which, 3] * layout.digits
                    column, limbs = VALUES + aggregates[which, 2], aggregates[which, 4]
                    add_number(
                        strips, strip, start, layout.digits, state[LOWEST], floats, at, column, limbs, -1
                    )
    state[CHANGED] = number
    return place


@njit(cache=True)
def _group_of(name: Any, groups: Any, state: Any) -> Any:
    """Return the row of a group's totals, a new one where it has none; there is room."""
    slots, table = groups
    slot, group = find(slots, table, name)
    if group < 0:
        group = state[GROUPS]
        state[GROUPS] += 1
        slots[slot] = group
        table[group, : len(name)] = name
    return group


@njit(cache=True)
def _settle(tick: Any, plan: Any, layout: Any, keys: Any, groups: Any, pools: Any, state: Any) -> None:
    """Bring the totals of the groups from what the keys that changed were to what they are."""
    aggregates, grouped, _ = plan
    _, strips, _, changed = keys
    table = groups[1]
    stairs, nodes, pool_states = pools
    picks, name = np.zeros(layout.sides, np.int64), np.zeros(layout.sides, np.int64)
    size = layout.then - layout.now
    for place in range(state[SETTLED], state[CHANGED]):
        if place % AHEAD == 0:
            some = changed[place : min(place + AHEAD, state[CHANGED])]
            state[FETCHED] = fetch(strips, some)
        owner = np.int64(changed[place])
        if layout.extremes:
            _clear(tick, owner, strips, layout, stairs, pool_states)
        combinations = _combinations(strips, layout, owner)
        if layout.is_grouped and len(table) - state[GROUPS] < combinations:
            state[LACK], state[NEEDED], state[SETTLED] = GROUP_NAMES, combinations, place
            return
        if len(nodes) - pool_states[1, TAKEN] < combinations * layout.extremes:
            state[LACK], state[NEEDED], state[SETTLED] = NODES, combinations * layout.extremes, place
            return
        for turn in range(2):
            block, sign = (layout.now, 1) if turn else (layout.then, -1)
            side = _pick_first(strips, layout, owner, block, picks)
            while side >= 0:
                found = np.int64(1)
                for each in range(layout.sides):
                    found = product(found, strips[picks[each], block + each])
                group = np.int64(0)
                if layout.is_grouped:
                    for each in range(layout.sides):
                        name[each] = strips[picks[each], layout.parts + each] if grouped[each] else 0
                    group = _group_of(name, groups, state)
                if found < 0 or table[group, layout.results] > MOST - found:
                    state[LACK] = BEYOND
                    return
                table[group, layout.results] += sign * found
                for which in range(len(aggregates)):
                    function, own, at = aggregates[which, 0], aggregates[which, 1], aggregates[which, 3]
                    strip = picks[own]
                    others = sign * (found // strips[strip, block + own])
                    counted = strips[strip, block + layout.sides + which]
                    table[group, layout.totals + which] += others * counted
                    if function == SUM:
                        total = layout.totals + len(aggregates) + at * layout.digits
                        start = block + layout.sums + at * layout.digits
                        add_times(table, group, total, strips, strip, start, layout.digits, others)
                    elif function != COUNT and turn and counted:
                        greatest = stairs[strips[strip, layout.ends + 2 * at]]
                        root = table[group, layout.roots + at]
                        table[group, layout.roots + at] = put_in_heap(
                            nodes, pool_states[1], root, owner, state[STAMP], greatest
                        )
                side = _pick_next(strips, layout, owner, block, picks)
        for column in range(layout.now, layout.then):
            strips[owner, column + size] = strips[owner, column]
        if layout.is_grouped:
            tidy(strips, layout, owner)
    state[SETTLED] = state[CHANGED]


@njit(cache=True, inline="always")
def _pick_first(strips: Any, layout: Any, owner: Any, block: Any, picks: Any) -> Any:
    """Pick each side's first strip; return -1 if a side has none."""
    side = 0
    while side < layout.sides:
        picks[side] = first_of(strips, layout, owner, side, block)
        side = side + 1 if picks[side] >= 0 else layout.sides + 1
    return (0 if side == layout.sides else -1) + 0 * (len(strips) + len(picks))


@njit(cache=True, inline="always")
def _pick_next(strips: Any, layout: Any, owner: Any, block: Any, picks: Any) -> Any:
    """Pick the next combination of strips; return -1 if there is none."""
    side = layout.sides - 1 if layout.is_grouped else -1
    while side >= 0:
        picks[side] = next_of(strips, layout, owner, picks[side], side, block)
        if picks[side] >= 0:
            break
        picks[side] = first_of(strips, layout, owner, side, block)
        side -= 1
    return side + 0 * (len(strips) + len(picks))


@njit(cache=True)
def _combinations(strips: Any, layout: Any, owner: Any) -> Any:
    """Return in how many groups a key has results at most."""
    combinations = np.int64(1)
    for side in range(layout.sides if layout.is_grouped else 0):
        parts, strip = 0, first_of(strips, layout, owner, side, layout.now)
        while strip >= 0:
            parts += 1
            strip = next_of(strips, layout, owner, strip, side, layout.now)
        combinations *= parts
    return combinations


@njit(cache=True)
def _clear(tick: Any, owner: Any, strips: Any, layout: Any, stairs: Any, pool_states: Any) -> None:
    """Drop what has left from the stairs of all strips of a key."""
    for number in range(layout.extremes):
        clear_stairs(stairs, pool_states[0], strips, owner, layout.ends + 2 * number, tick)
    for side in range(layout.sides if layout.is_grouped else 0):
        strip = strips[owner, layout.heads + side]
        while strip >= 0:
            for number in range(layout.extremes):
                clear_stairs(stairs, pool_states[0], strips, strip, layout.ends + 2 * number, tick)
            strip = strips[strip, layout.following]


@njit(cache=True)
def _emit(
    tick: Any, plan: Any, layout: Any, keys: Any, groups: Any, pools: Any, out: Any, state: Any
) -> None:
    """Write the answers of all groups that have results."""
    (_, table), strips, (aggregates, _, _) = groups, keys[1], plan
    _, _, _, totals, high, low, extreme = out
    for group in range(state[GROUPS]):
        if table[group, layout.results] == 0:
            continue
        at = state[ANSWERED]
        state[ANSWERED] += 1
        out[0][at], out[2][at] = tick, table[group, layout.results]
        out[1][at] = table[group, : layout.sides]
        for which in range(len(aggregates)):
            function, number = aggregates[which, 0], aggregates[which, 3]
            totals[at, which] = table[group, layout.totals + which]
            high[at, which], low[at, which], extreme[at, which] = 0.0, 0.0, np.nan
            if function == SUM:
                start = layout.totals + len(aggregates) + number * layout.digits
                sums = shown(table, group, start, layout.digits, state[LOWEST], aggregates[which, 4])
                high[at, which], low[at, which], extreme[at, which] = sums
            elif function != COUNT:
                root = table[group, layout.roots + number]
                root = without_outdated(pools[1], pools[2][1], root, strips, layout.stamp)
                table[group, layout.roots + number] = root
                if root >= 0:
                    greatest, sign = pools[1][root], -1.0 if function == MIN else 1.0
                    extreme[at, which] = sign * greatest.value
                    high[at, which], low[at, which] = sign * greatest.high, sign * greatest.low
