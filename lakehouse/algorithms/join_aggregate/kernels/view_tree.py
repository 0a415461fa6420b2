"""Compiled view tree: what a row changes, from its side up to the root of the join tree.

A side is a node. The attributes that it shares with its parent are the edge above it, named after it; the root has one
without attributes. An edge and a value of its attributes is a *hub*: there rows of the parent meet those below.

    cell of rows ... of a side with children or in a circle: rows that agree in the hubs around it and in their part of
                     the group
    cell of a view . of a hub and a group of the sides below it: all that these have joined
    ring ........... what rows come to: results, counts and sums (``rings.py``)
    event .......... change of a cell at a time, newest first; kept while a late row can ask for times before it
    list ........... per extreme, and one for all rows, what is greatest at each time (``envelopes.py``)

A row, or the rows alike that it stands for, is a *delta*: a ring at each of some times. It is multiplied by the views
beside it, added to the view above, multiplied by each cell of rows at that hub, and so on up, in a circle by the cells
of side after side (``view_walk.py``). A walk goes depth first, and where a table lacks room it stops and is resumed at
the same step. Of extremes a
delta is a wave for each list, from when the row enters until it has left; it is never taken away.

``plan``, ``tree``, ``work`` and ``waves`` (``view_waves.py``) are the tuples that ``ViewTree`` makes. Loops get arrays
one by one: to take them out of tuples costs more than to multiply them.

    cells ...... name (hub, or -1 - side; a group part or hub by side; own part), next cells at hubs, first event, first
                 steps of lists, ring
    hubs ....... name (edge, attributes), its first view, its first cell of rows, how many cells of rows it has
    events ..... time, next older event, cell, ring of the change
"""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.digits import add_number
from lakehouse.algorithms.join_aggregate.kernels.rings import BEYOND, add_ring, copy_ring, is_some, multiplied
from lakehouse.algorithms.join_aggregate.kernels.view_answers import answer
from lakehouse.algorithms.join_aggregate.kernels.view_cells import (
    CELL,
    CHANGE,
    EVENTS,
    GAINED,
    GAINS,
    ITEM,
    KEEP,
    LACK,
    LEVEL,
    LOWEST,
    NEEDED,
    NOTHING,
    OLDER,
    RESUMES,
    REVISES,
    ROOM,
    TIME,
    WAVES,
    cell_of,
    has_room,
    hub_of,
)
from lakehouse.algorithms.join_aggregate.kernels.view_walk import (
    ABOVE,
    EDGE,
    KIND,
    LINK,
    NEXT,
    PARTS,
    ROOT,
    UP,
    aim,
    go_on,
    is_at_end,
    start,
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
    write_waves,
)


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
    steps, lengths, joins, attributes, parents, meets = plan[0], plan[1], plan[2], plan[3], plan[4], plan[7]
    slots, cells, hub_slots, hubs, events = tree
    deltas, seen, path, name, hub_name = work
    state[LACK] = NOTHING
    while state[ITEM] < len(items) and state[LACK] == NOTHING:
        item = items[state[ITEM]]
        first, many, stays = item[FIRST], item[MANY], item[STAYS]
        if item[ROW] < 0:
            answer(times[first], plan[6], cells, hubs, waves, layout, out, state)
        else:
            if state[LEVEL] < 0:
                _begin(item, times, rows, plan, tree, layout, work, waves, state)
            if state[LACK] == NOTHING:
                _walk(
                    first, many, stays, times, steps, lengths, joins, attributes, parents, meets, slots, cells,
                    hub_slots, hubs, events, deltas, seen, path, name, hub_name, waves, gains, layout, state,
                )  # fmt: skip
        if state[LACK] == NOTHING:
            state[ITEM], state[LEVEL] = state[ITEM] + 1, -1


@njit(cache=True)
def _walk(
    first: Any, many: Any, stays: Any, times: Any, steps: Any, lengths: Any, joins: Any, attributes: Any,
    parents: Any, meets: Any, slots: Any, cells: Any, hub_slots: Any, hubs: Any, events: Any, deltas: Any,
    seen: Any, path: Any, name: Any, hub_name: Any, waves: Any, gains: Any, layout: Any, state: Any,
) -> None:  # fmt: skip
    """Go on from the step ``state[LEVEL]``, which is entered, or resumed where a cell is met."""
    level, is_entered = state[LEVEL], state[RESUMES] == 0
    state[RESUMES] = 0
    while level >= 0:
        if is_entered:
            state[LEVEL] = level
            if path[level, KIND] == ABOVE or path[level, KIND] == ROOT:
                _add_to_view(
                    first, many, stays, times, level, path[level, KIND] == ROOT, joins, slots, cells, hubs,
                    events, deltas, len(seen), path, name, waves, gains, layout, state,
                )  # fmt: skip
        if state[LACK] != NOTHING:
            return
        cell, is_entered = path[level, NEXT], False
        if cell < 0:
            level -= 1
            continue
        path[level, NEXT] = cells[cell, path[level, LINK]]
        go_on(level, cell, parents, attributes, meets, cells, hubs, path, layout)
        aim(level + 1, steps, lengths, attributes, meets, cells, hub_slots, hubs, path, hub_name, layout)
        if is_at_end(level + 1, path):
            continue
        if _multiply(first, many, times, level, cell, cells, events, deltas, seen, layout, state):
            kind, edge = path[level, KIND], path[level, EDGE]
            if layout.lists and not meet(level, kind, edge, cell, cells, waves, layout):
                state[LACK], state[LEVEL], state[RESUMES], path[level, NEXT] = WAVES, level, 1, cell
                return
            level, is_entered = level + 1, True


@njit(cache=True)
def _begin(
    item: Any, times: Any, rows: Any, plan: Any, tree: Any, layout: Any, work: Any, waves: Any, state: Any
) -> None:
    """Enter the first step of a row's walk, and add it to the cell of its like if its side has children."""
    side, keys, group = rows[0][item[ROW]], rows[1][item[ROW]], rows[2][item[ROW]]
    joins = plan[2]
    slots, cells, hub_slots, hubs, events = tree
    deltas, _, path, name, hub_name = work
    state[NEEDED] = 2 * layout.lists
    if not has_room(item[MANY], cells, hubs, events, waves[3], layout.edges, state):
        state[LACK] = ROOM
        return
    _write_delta(item, rows, plan[6], deltas, layout, state)
    if layout.lists:
        write_waves(item, times, rows, waves, layout, state)
    name[:] = 0
    for edge in range(layout.edges):
        if joins[side, edge]:
            hub_name[0] = edge
            for attribute in range(len(keys)):
                hub_name[1 + attribute] = keys[attribute] if plan[3][edge, attribute] else 0
            name[1 + edge] = hub_of(hub_name, hub_slots, hubs, layout, state)
    part, cell = group if plan[5][side] else 0, -1
    name[0], name[layout.own] = -1 - side, part
    has_cell = joins[side].sum() > joins[side, side]
    if has_cell:
        cell = cell_of(name, joins, slots, cells, hubs, layout, state)
    start(side, name[1 + side], cell, plan[4], keys, part, path, layout)
    aim(0, plan[0], plan[1], plan[3], plan[7], cells, hub_slots, hubs, path, hub_name, layout)
    state[LEVEL] = 0
    if has_cell:
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
    if not has_room(many, cells, hubs, events, waves[3], layout.edges, state):
        state[LACK] = ROOM
        return
    if is_root and state[REVISES] and (state[GAINED] + 1) * len(times) > len(gains):
        state[LACK] = GAINS
        return
    name[:] = 0
    name[0] = path[level, UP]
    for side in range(layout.sides):
        name[1 + side] = path[level, PARTS + side]
    cell = cell_of(name, joins, slots, cells, hubs, layout, state)
    base = level * most
    _change(first, many, stays, times, cell, base, not is_root, cells, events, deltas, layout, state)
    raise_lists(level, cell, cells, waves, layout, state)
    if is_root and state[REVISES]:
        if cells[cell, layout.gained] < 0:
            cells[cell, layout.gained] = state[GAINED]
            state[GAINED] += 1
        for step in range(many):
            into = cells[cell, layout.gained] * len(times) + first + step
            add_ring(gains, into, 0, deltas, base + step, 0, 1, layout)
        if layout.lists:
            gain(level, first, many, times, cells[cell, layout.gained], waves, layout)


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
