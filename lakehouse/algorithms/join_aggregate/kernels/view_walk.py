"""Compiled way of a row through a view tree: where each step goes on (``view_tree.py``).

A walk has its steps listed, up to the root or to a side of the circle. In the circle the next side is that of which
the fewest cells agree with those joined so far: it is found by its index of all attributes that are known then.

    path ....... by step: the cell that comes next, and in which column of a cell its next one is; kind and edge, or
                 side, of the step; the cell of rows at hand; the hub above it; walk, place in it; sides of the circle
                 joined so far, as bits; parts of the group; known attributes
"""

from typing import Any

from numba import njit

from lakehouse.algorithms.join_aggregate.kernels.keys import find

# Kinds of steps: over the views at a hub beside; over the rows of the parent at the hub above; over the rows of
# another side of the circle; none, at the end of all.
BESIDE, ABOVE, ACROSS, ROOT = range(4)
NEXT, LINK, KIND, EDGE, AT, UP, WALK, PLACE, JOINED, PARTS = range(10)


@njit(cache=True)
def start(side: Any, hub: Any, cell: Any, parents: Any, keys: Any, part: Any, path: Any, layout: Any) -> None:
    """Write where a row is: at its hub, and its cell if its side has any."""
    path[0] = 0
    path[0, AT], path[0, UP], path[0, WALK] = cell, hub, side
    path[0, PARTS + side] = part
    if parents[side] < 0:
        path[0, JOINED] = 1 << side
    for attribute in range(len(keys)):
        path[0, PARTS + layout.sides + attribute] = keys[attribute]


@njit(cache=True)
def aim(
    level: Any, steps: Any, lengths: Any, attributes: Any, meets: Any, cells: Any, hub_slots: Any, hubs: Any,
    path: Any, hub_name: Any, layout: Any,
) -> None:  # fmt: skip
    """Write the kind of a step, and the first cell that it meets."""
    walk, place = path[level, WALK], path[level, PLACE]
    path[level, NEXT] = -1
    if place < lengths[walk]:
        edge = steps[walk, place, 1]
        path[level, KIND], path[level, EDGE] = steps[walk, place, 0], edge
        if path[level, KIND] == ABOVE:
            path[level, LINK], path[level, NEXT] = layout.links + edge, hubs[path[level, UP], layout.rows]
        else:
            path[level, LINK] = layout.next_view
            path[level, NEXT] = hubs[cells[path[level, AT], 1 + edge], layout.views]
    elif path[level, JOINED] == layout.core:
        path[level, KIND] = ROOT
    else:
        _aim_across(level, attributes, meets, hub_slots, hubs, path, hub_name, layout)


@njit(cache=True, inline="always")
def is_at_end(level: Any, path: Any) -> Any:
    """Tell if a step meets nothing and adds to nothing: then what is behind it does not matter."""
    return path[level, NEXT] < 0 and (path[level, KIND] == BESIDE or path[level, KIND] == ACROSS)


@njit(cache=True)
def _aim_across(
    level: Any, attributes: Any, meets: Any, hub_slots: Any, hubs: Any, path: Any, hub_name: Any, layout: Any
) -> None:
    joined, least = path[level, JOINED], -1
    path[level, KIND] = ACROSS
    for side in range(layout.sides):
        index = meets[joined, side]
        if index < 0 or joined >> side & 1:
            continue
        hub_name[0] = index
        for attribute in range(attributes.shape[1]):
            is_known = attributes[index, attribute]
            hub_name[1 + attribute] = path[level, PARTS + layout.sides + attribute] if is_known else 0
        _, hub = find(hub_slots, hubs, hub_name)
        if hub < 0 or least < 0 or hubs[hub, layout.met] < least:
            least = hubs[hub, layout.met] if hub >= 0 else 0
            path[level, EDGE], path[level, LINK] = side, layout.links + index
            path[level, NEXT] = hubs[hub, layout.rows] if hub >= 0 else -1
        if least == 0:
            return


@njit(cache=True)
def go_on(
    level: Any,
    cell: Any,
    parents: Any,
    attributes: Any,
    meets: Any,
    cells: Any,
    hubs: Any,
    path: Any,
    layout: Any,
) -> None:
    """Write where the walk is after a cell that it has met."""
    after, kind, edge = level + 1, path[level, KIND], path[level, EDGE]
    for column in range(AT, path.shape[1]):
        path[after, column] = path[level, column]
    path[after, PLACE] += 1
    if kind == BESIDE:
        for side in range(layout.sides):
            if cells[cell, 1 + side] != 0:
                path[after, PARTS + side] = cells[cell, 1 + side]
        return
    side = edge if kind == ACROSS else parents[edge]
    path[after, PARTS + side] = cells[cell, layout.own]
    path[after, AT], path[after, UP] = cell, cells[cell, 1 + side]
    if kind == ACROSS:
        path[after, WALK], path[after, PLACE] = layout.sides + side, 0
    if parents[side] < 0:
        _join(after, side, cell, attributes, meets, cells, hubs, path, layout)


@njit(cache=True)
def _join(
    after: Any,
    side: Any,
    cell: Any,
    attributes: Any,
    meets: Any,
    cells: Any,
    hubs: Any,
    path: Any,
    layout: Any,
) -> None:
    """Note that a side of the circle is joined, and what its cell tells of attributes."""
    alone = 1 << side
    path[after, JOINED] |= alone
    if len(meets) > 1:
        index = meets[alone, side]
        hub = cells[cell, 1 + index]
        for attribute in range(attributes.shape[1]):
            if attributes[index, attribute]:
                path[after, PARTS + layout.sides + attribute] = hubs[hub, 1 + attribute]
