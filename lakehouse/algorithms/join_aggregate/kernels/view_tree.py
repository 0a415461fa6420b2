"""Compiled view tree: what a row changes, from its side up to the root of the join tree.

A side is a node. The attributes that it shares with its parent are the edge above it, named after it; the root has one
without attributes. An edge and a value of its attributes is a *hub*: there rows of the parent meet those below.

    cell of rows ... of a side with children: rows that agree in the hubs around it and in their part of the group
    cell of a view . of a hub and a group of the sides below it: all that these have joined
    ring ........... what rows come to: results, counts and sums (``rings.py``)
    event .......... change of a cell at a time, newest first; kept while a late row can ask for times before it
    list ........... per extreme, and one for all rows, what is greatest at each time (``envelopes.py``)

A row, or the rows alike that it stands for, is a *delta*: a ring at each of some times. It is multiplied by the views
beside it, added to the view above, multiplied by each cell of rows at that hub, and so on up. A walk lists these steps
for a side; it goes depth first, and where a table lacks room it stops and is resumed at the same step. Of extremes a
delta is a wave for each list, from when the row enters until it has left; it is never taken away.

``plan``, ``tree``, ``work`` and ``waves`` (``view_waves.py``) are the tuples that ``ViewTree`` makes. Loops get arrays
one by one: to take them out of tuples costs more than to multiply them.

    cells ...... name (hub, or -1 - side; a group part or hub by side; own part), next cells at hubs, first event, first
                 steps of lists, ring
    hubs ....... name (edge, attributes), its first view, its first cell of rows
    events ..... time, next older event, cell, ring of the change
    path ....... by step: the cell that comes next, the cell of rows at hand, the hub above it, parts of the group
"""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import add_number, shown
from lakehouse.algorithms.join_aggregate.kernels.envelopes import step_at
from lakehouse.algorithms.join_aggregate.kernels.rings import BEYOND, add_ring, copy_ring, is_some, multiplied
from lakehouse.algorithms.join_aggregate.kernels.view_cells import (
    ANSWERED,
    CELL,
    CHANGE,
    EVENTS,
    GAINED,
    ITEM,
    KEEP,
    LACK,
    LEVEL,
    LOWEST,
    NEEDED,
    OLDER,
    RESUMES,
    REVISES,
    ROOTS,
    TIME,
    cell_of,
    has_room,
    hub_of,
)
from lakehouse.algorithms.join_aggregate.kernels.view_waves import (
    FIRST,
    MANY,
    ROW,
    SIGN,
    STAYS,
    gain,
    meet,
    raise_lists,
    write_extreme,
    write_waves,
)

# Kinds of steps of a walk: over the views at a hub beside, and over the rows of the parent at the hub above.
BESIDE, ABOVE = range(2)
NEXT, AT, UP, PARTS = range(4)
# What is lacking.
NOTHING, ROOM, OUT, GAINS, WAVES = range(5)


@njit(cache=True)
def spread(
    items: Any,
    times: Any,
    rows: Any,
    plan: Any,
    tree: Any,
    layout: Any,
    work: Any,
    waves: Any,
    gains: Any,
    out: Any,
    state: Any,
) -> None:
    """Let rows enter and leave, and write answers, from item ``state[ITEM]`` on; ``state[LACK]`` says why it stops."""
    steps, lengths, joins, parents = plan[0], plan[1], plan[2], plan[4]
    slots, cells, hubs, events = tree[0], tree[1], tree[3], tree[4]
    deltas, seen, path, name = work[0], work[1], work[2], work[3]
    state[LACK] = NOTHING
    while state[ITEM] < len(items) and state[LACK] == NOTHING:
        item = items[state[ITEM]]
        row, first, many, stays = item[ROW], item[FIRST], item[MANY], item[STAYS]
        if row < 0:
            _answer(times[first], plan[6], cells, hubs, waves, layout, out, state)
        else:
            if state[LEVEL] < 0:
                _begin(item, times, rows, plan, tree, layout, work, waves, state)
            if state[LACK] == NOTHING:
                side = rows[0][row]
                _walk(
                    first, many, stays, times, steps[side], lengths[side], joins, parents, slots, cells, hubs,
                    events, deltas, seen, path, name, waves, gains, layout, state,
                )  # fmt: skip
        if state[LACK] == NOTHING:
            state[ITEM], state[LEVEL] = state[ITEM] + 1, -1


@njit(cache=True)
def _walk(
    first: Any, many: Any, stays: Any, times: Any, steps: Any, length: Any, joins: Any, parents: Any, slots: Any,
    cells: Any, hubs: Any, events: Any, deltas: Any, seen: Any, path: Any, name: Any, waves: Any, gains: Any,
    layout: Any, state: Any,
) -> None:  # fmt: skip
    """Go on from the step ``state[LEVEL]``, which is entered, or resumed where a cell is met."""
    level, is_entered = state[LEVEL], state[RESUMES] == 0
    state[RESUMES] = 0
    while level >= 0:
        if is_entered:
            state[LEVEL] = level
            if level == length or steps[level, 0] == ABOVE:
                _add_to_view(
                    first, many, stays, times, level, level == length, joins, slots, cells, hubs, events, deltas,
                    len(seen), path, name, waves, gains, layout, state,
                )  # fmt: skip
            path[level, NEXT] = -1
            if level < length and state[LACK] == NOTHING:
                hub = path[level, UP]
                if steps[level, 0] == BESIDE:
                    hub = cells[path[level, AT], 1 + steps[level, 1]]
                path[level, NEXT] = hubs[hub, layout.rows if steps[level, 0] == ABOVE else layout.views]
        if state[LACK] != NOTHING:
            return
        cell, is_entered = path[level, NEXT], False
        if cell < 0:
            level -= 1
            continue
        kind, edge = steps[level, 0], steps[level, 1]
        path[level, NEXT] = cells[cell, layout.links + (edge if kind == ABOVE else layout.sides)]
        if _multiply(first, many, times, level, cell, cells, events, deltas, seen, layout, state):
            if layout.lists and not meet(level, kind, edge, cell, cells, waves, layout):
                state[LACK], state[LEVEL], state[RESUMES], path[level, NEXT] = WAVES, level, 1, cell
                return
            _step(level, cell, parents[edge] if kind == ABOVE else -1, cells, path, layout)
            level, is_entered = level + 1, True


@njit(cache=True)
def _step(level: Any, cell: Any, parent: Any, cells: Any, path: Any, layout: Any) -> None:
    """Write where the walk is after a cell: of rows of a parent, or of a view where there is none."""
    after = level + 1
    for column in range(AT, PARTS + layout.sides):
        path[after, column] = path[level, column]
    if parent >= 0:
        path[after, PARTS + parent] = cells[cell, 1 + layout.sides]
        path[after, AT], path[after, UP] = cell, cells[cell, 1 + parent]
    else:
        for side in range(layout.sides):
            if cells[cell, 1 + side] != 0:
                path[after, PARTS + side] = cells[cell, 1 + side]


@njit(cache=True)
def _begin(
    item: Any, times: Any, rows: Any, plan: Any, tree: Any, layout: Any, work: Any, waves: Any, state: Any
) -> None:
    """Enter the first step of a row's walk, and add it to the cell of its like if its side has children."""
    side, keys, group = rows[0][item[ROW]], rows[1][item[ROW]], rows[2][item[ROW]]
    joins, sides = plan[2], layout.sides
    slots, cells, hub_slots, hubs, events = tree
    deltas, _, path, name, hub_name = work
    state[NEEDED] = 2 * layout.lists
    if not has_room(item[MANY], cells, hubs, events, waves[3], sides, state):
        state[LACK] = ROOM
        return
    _write_delta(item, rows, plan[6], deltas, layout, state)
    if layout.lists:
        write_waves(item, times, rows, waves, layout, state)
    name[:] = 0
    for edge in range(sides):
        if joins[side, edge]:
            hub_name[0] = edge
            for attribute in range(len(keys)):
                hub_name[1 + attribute] = keys[attribute] if plan[3][edge, attribute] else 0
            name[1 + edge] = hub_of(hub_name, hub_slots, hubs, layout, state)
    path[0] = 0
    if plan[5][side]:
        path[0, PARTS + side] = name[1 + sides] = group
    state[LEVEL], path[0, UP], path[0, AT] = 0, name[1 + side], -1
    if joins[side].sum() > 1:
        name[0] = -1 - side
        cell = cell_of(name, joins, slots, cells, hubs, layout, state)
        path[0, AT] = cell
        _change(
            item[FIRST], item[MANY], item[STAYS], times, cell, 0, True, cells, events, deltas, layout, state
        )
        raise_lists(0, cell, cells, waves, layout, state)


@njit(cache=True)
def _write_delta(item: Any, rows: Any, aggregates: Any, deltas: Any, layout: Any, state: Any) -> None:
    side, values, weight = rows[0][item[ROW]], rows[3], rows[4][item[ROW]]
    deltas[0] = 0
    deltas[0, 0] = item[SIGN] * weight
    for number in range(len(aggregates)):
        value = values[item[ROW], aggregates[number, 1]]
        if aggregates[number, 0] == side and value == value:
            deltas[0, 1 + number] = deltas[0, 0]
            if aggregates[number, 2] >= 0:
                start = 1 + layout.aggregates + aggregates[number, 2] * layout.digits
                add_number(
                    deltas, 0, start, layout.digits, state[LOWEST], values, item[ROW], aggregates[number, 1],
                    aggregates[number, 3], item[SIGN],
                )  # fmt: skip
    for step in range(1, item[MANY]):
        copy_ring(deltas, step, 0, deltas, 0, 0, layout)


@njit(cache=True)
def _add_to_view(
    first: Any, many: Any, stays: Any, times: Any, level: Any, is_root: Any, joins: Any, slots: Any, cells: Any,
    hubs: Any, events: Any, deltas: Any, most: Any, path: Any, name: Any, waves: Any, gains: Any, layout: Any,
    state: Any,
) -> None:  # fmt: skip
    """Add a delta to the view of its hub and group; gains of the root are noted where rows are late."""
    if layout.lists:
        state[NEEDED] = 2 * (waves[2][level, layout.lists] - waves[2][level, 0])
    if not has_room(many, cells, hubs, events, waves[3], layout.sides, state):
        state[LACK] = ROOM
        return
    gained = layout.links + layout.sides + 1
    if is_root and state[REVISES] and (state[GAINED] + 1) * len(times) > len(gains):
        state[LACK] = GAINS
        return
    name[0], name[1 + layout.sides] = path[level, UP], 0
    for side in range(layout.sides):
        name[1 + side] = path[level, PARTS + side]
    cell = cell_of(name, joins, slots, cells, hubs, layout, state)
    base = level * most
    _change(first, many, stays, times, cell, base, not is_root, cells, events, deltas, layout, state)
    raise_lists(level, cell, cells, waves, layout, state)
    if is_root and state[REVISES]:
        if cells[cell, gained] < 0:
            cells[cell, gained] = state[GAINED]
            state[GAINED] += 1
        for step in range(many):
            into = cells[cell, gained] * len(times) + first + step
            add_ring(gains, into, 0, deltas, base + step, 0, 1, layout)
        if layout.lists:
            gain(level, first, many, times, cells[cell, gained], waves, layout)


@njit(cache=True)
def _change(
    first: Any, many: Any, stays: Any, times: Any, cell: Any, base: Any, is_remembered: Any, cells: Any,
    events: Any, deltas: Any, layout: Any, state: Any,
) -> None:  # fmt: skip
    """Add a delta to a cell as it is now, and to what it was before."""
    if stays:
        add_ring(cells, cell, layout.ring, deltas, base + many - 1, 0, 1, layout)
        if cells[cell, layout.ring] < 0:
            raise OverflowError(BEYOND)
    if is_remembered and times[first + many - 1] >= state[KEEP]:
        _remember(first, many, stays, times, cell, base, cells, events, deltas, layout, state)


@njit(cache=True)
def _remember(
    first: Any, many: Any, stays: Any, times: Any, cell: Any, base: Any, cells: Any, events: Any, deltas: Any,
    layout: Any, state: Any,
) -> None:  # fmt: skip
    """Put a delta's changes from time to time among the events of a cell, from its end to its beginning."""
    newer, older = -1, cells[cell, layout.event]
    for step in range(many - stays, -1, -1):
        time = times[first + step] if step < many else times[first + step - 1] + 1
        if time <= state[KEEP]:
            break
        event = state[EVENTS]
        events[event] = 0
        if step < many:
            add_ring(events, event, CHANGE, deltas, base + step, 0, 1, layout)
        if step:
            add_ring(events, event, CHANGE, deltas, base + step - 1, 0, -1, layout)
        while older >= 0 and events[older, TIME] > time:
            newer, older = older, events[older, OLDER]
        if older >= 0 and events[older, TIME] == time:
            add_ring(events, older, CHANGE, events, event, CHANGE, 1, layout)
        elif is_some(events, event, CHANGE, layout.width):
            events[event, TIME], events[event, OLDER], events[event, CELL] = time, older, cell
            if newer >= 0:
                events[newer, OLDER] = event
            else:
                cells[cell, layout.event] = event
            newer = event
            state[EVENTS] += 1


@njit(cache=True)
def _multiply(
    first: Any, many: Any, times: Any, level: Any, cell: Any, cells: Any, events: Any, deltas: Any, seen: Any,
    layout: Any, state: Any,
) -> Any:  # fmt: skip
    """Write the delta of the next step, that of this one times a cell; tell if it is not zero at all times."""
    is_any, base, event = False, level * len(seen), cells[cell, layout.event]
    if many == 1 and (event < 0 or events[event, TIME] <= times[first]):
        return multiplied(deltas, base, base + len(seen), cells, cell, layout.ring, layout)
    last = many - 1
    copy_ring(seen, last, 0, cells, cell, layout.ring, layout)
    for step in range(last, -1, -1):
        if step < last:
            copy_ring(seen, step, 0, seen, step + 1, 0, layout)
        while event >= 0 and events[event, TIME] > times[first + step]:
            add_ring(seen, step, 0, events, event, CHANGE, -1, layout)
            event = events[event, OLDER]
        is_any |= multiplied(deltas, base + step, base + len(seen) + step, seen, step, 0, layout)
    return is_any


@njit(cache=True)
def _answer(
    tick: Any, aggregates: Any, cells: Any, hubs: Any, waves: Any, layout: Any, out: Any, state: Any
) -> None:
    """Write the answers at a tick: the views of the root."""
    steps, heights, lists = waves[3], waves[4], waves[7]
    if state[ANSWERED] + state[ROOTS] > len(out[0]):
        state[LACK] = OUT
        return
    cell = hubs[0, layout.views]
    while cell >= 0:
        if cells[cell, layout.ring] != 0:
            for which in range(1, layout.lists):
                step = step_at(cells[cell, layout.tops + which], steps, tick)
                if step >= 0:
                    write_extreme(heights[step], lists[which], out, state[ANSWERED])
            _write(tick, cells[cell], cells, cell, layout.ring, aggregates, layout, out, state)
        cell = cells[cell, layout.links + layout.sides]


@njit(cache=True)
def list_gains(
    times: Any,
    aggregates: Any,
    cells: Any,
    hubs: Any,
    waves: Any,
    gains: Any,
    layout: Any,
    out: Any,
    state: Any,
) -> None:
    """Write the gains at all times and let go of them; there is room."""
    gained = layout.links + layout.sides + 1
    cell = hubs[0, layout.views]
    while cell >= 0:
        slot = cells[cell, gained]
        cells[cell, gained] = -1
        for number in range(len(times) if slot >= 0 else 0):
            row = slot * len(times) + number
            if gains[row, 0] != 0:
                for which in range(1, layout.lists):
                    write_extreme(waves[6][row, which - 1], waves[7][which], out, state[ANSWERED])
                _write(times[number], cells[cell], gains, row, 0, aggregates, layout, out, state)
        cell = cells[cell, layout.links + layout.sides]


@njit(cache=True)
def _write(
    tick: Any,
    name: Any,
    table: Any,
    row: Any,
    start: Any,
    aggregates: Any,
    layout: Any,
    out: Any,
    state: Any,
) -> None:
    ticks, group, results, counted, high, low, extreme = out
    at = state[ANSWERED]
    state[ANSWERED] += 1
    ticks[at], results[at] = tick, table[row, start]
    group[at] = name[1 : 1 + layout.sides]
    for number in range(layout.aggregates):
        counted[at, number] = table[row, start + 1 + number]
        if aggregates[number, 2] >= 0:
            column = start + 1 + layout.aggregates + aggregates[number, 2] * layout.digits
            parts = shown(table, row, column, layout.digits, state[LOWEST], aggregates[number, 3])
            high[at, number], low[at, number], extreme[at, number] = parts
