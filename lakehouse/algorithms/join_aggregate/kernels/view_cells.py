"""Compiled tables of a view tree: cells and hubs by their names, and how they are tied (``view_tree.py``)."""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.keys import find, put_in_slots

# Columns of events, and fields of the state; events up to KEEP are not kept, and no row is known to enter after NEWEST.
TIME, OLDER, CELL, CHANGE = range(4)
LACK, ITEM, LEVEL, RESUMES, HUBS, CELLS, EVENTS, STEPS = range(8)
ROOTS, ANSWERED, GAINED, KEEP, LOWEST, REVISES, NEWEST, NEEDED = range(8, 16)
FIELDS = 16
# What is lacking.
NOTHING, ROOM, OUT, GAINS, WAVES = range(5)


@njit(cache=True)
def has_room(many: Any, cells: Any, hubs: Any, events: Any, steps: Any, edges: Any, state: Any) -> Any:
    """Tell if a cell and its hubs, so many events, and as many steps as are needed have room."""
    fits = state[HUBS] + edges <= len(hubs) and state[CELLS] < len(cells)
    return fits and state[EVENTS] + many < len(events) and state[STEPS] + state[NEEDED] <= len(steps)


@njit(cache=True)
def hub_of(name: Any, slots: Any, hubs: Any, layout: Any, state: Any) -> Any:
    """Return the hub of a name, which is new where there was none; there is room."""
    slot, hub = find(slots, hubs, name)
    if hub < 0:
        hub = state[HUBS]
        state[HUBS] += 1
        slots[slot] = hub
        for column in range(len(name)):
            hubs[hub, column] = name[column]
        hubs[hub, layout.views], hubs[hub, layout.rows], hubs[hub, layout.met] = -1, -1, 0
    return hub


@njit(cache=True)
def cell_of(name: Any, joins: Any, slots: Any, cells: Any, hubs: Any, layout: Any, state: Any) -> Any:
    """Return the cell of a name, which is new where there was none; there is room."""
    slot, cell = find(slots, cells, name)
    if cell < 0:
        cell = state[CELLS]
        state[CELLS] += 1
        slots[slot] = cell
        cells[cell] = 0
        for column in range(len(name)):
            cells[cell, column] = name[column]
        cells[cell, layout.tops : layout.ring] = -1
        _link(cell, joins, cells, hubs, layout, state)
    return cell


@njit(cache=True)
def _link(cell: Any, joins: Any, cells: Any, hubs: Any, layout: Any, state: Any) -> None:
    """Make a cell the first at its hubs."""
    hub = cells[cell, 0]
    cells[cell, layout.links : layout.tops] = -1
    if hub >= 0:
        cells[cell, layout.next_view] = hubs[hub, layout.views]
        hubs[hub, layout.views] = cell
        state[ROOTS] += hub == 0
        return
    side = -1 - hub
    for edge in range(layout.edges):
        if joins[side, edge] and edge != side:
            hub = cells[cell, 1 + edge]
            cells[cell, layout.links + edge] = hubs[hub, layout.rows]
            hubs[hub, layout.rows] = cell
            hubs[hub, layout.met] += 1


@njit(cache=True)
def link_all(joins: Any, tree: Any, layout: Any, state: Any) -> None:
    """Link all cells to their hubs, and events, which ascend in time, to their cells."""
    slots, cells, hub_slots, hubs, events = tree
    put_in_slots(slots, cells, layout.links, state[CELLS])
    put_in_slots(hub_slots, hubs, layout.views, state[HUBS])
    for hub in range(state[HUBS]):
        hubs[hub, layout.views], hubs[hub, layout.rows], hubs[hub, layout.met] = -1, -1, 0
    state[ROOTS] = 0
    for cell in range(state[CELLS]):
        _link(cell, joins, cells, hubs, layout, state)
    for event in range(state[EVENTS]):
        cell = events[event, CELL]
        events[event, OLDER], cells[cell, layout.event] = cells[cell, layout.event], event
