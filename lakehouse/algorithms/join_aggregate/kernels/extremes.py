"""Extremes of what comes and goes: of the rows of one key, and over the keys of one group.

**Stairs.** Of a key's rows of one side only those can ever be its greatest that no row beats which leaves as late: by
time of leaving they go down in value. The first is the greatest; a row that comes in takes out the ones that it beats.

    value | x               rows that leave in the order in which they come cost O(1) amortised;
          |    x    x       one that leaves earlier than others passes over the stairs that leave later
          |            x
          +--------------- leave

**Heaps.** Over keys, each group has a pairing heap of the greatest value of each key. A key that changes puts in a new
node and outdates its old ones by its stamp; these are dropped when they come to the top, or when the pool is full.

A value is three limbs, the highest first (``value``, ``high``, ``low``; 0 behind a double). Smallest values are
greatest ones of the other sign. Stairs and nodes lie in pools; -1 is none.
"""

from typing import Any

import numpy as np
from numba import njit

_LIMBS = [("value", np.float64), ("high", np.float64), ("low", np.float64)]
STAIR = np.dtype([("leave", np.int64), *_LIMBS, ("next", np.int32), ("previous", np.int32)], align=True)
NODE = np.dtype(
    [
        *_LIMBS,
        ("stamp", np.int64),
        ("key", np.int32),
        ("child", np.int32),
        ("sibling", np.int32),
    ],
    align=True,
)
# What is known of a pool: the first that is free, chained by `next` or `sibling`, and how many are taken.
FREE, TAKEN = range(2)


@njit(cache=True, inline="always")
def limb_of(values: Any, at: Any, column: Any, limbs: Any, place: int) -> float:
    """Return a limb of the number in ``values[at]`` from a column on, by its place: the highest is at 0."""
    return values[at, column + limbs - 1 - place] if place < limbs else 0.0


@njit(cache=True, inline="always")
def is_less(one: float, high: float, low: float, other: float, other_high: float, other_low: float) -> Any:
    """Compare two values, limb by limb."""
    return one < other or (one == other and (high < other_high or (high == other_high and low < other_low)))


@njit(cache=True, inline="always")
def _is_lower(item: Any, value: float, high: float, low: float) -> Any:
    return is_less(item.value, item.high, item.low, value, high, low)


@njit(cache=True)
def put_on_stairs(
    stairs: Any,
    state: Any,
    table: Any,
    row: Any,
    ends: Any,
    leave: Any,
    value: float,
    high: float,
    low: float,
) -> None:
    """Take a value into the stairs whose first and last are in ``table[row]`` from column ``ends``; there is room."""
    after, at = np.int64(-1), table[row, ends + 1]
    while at >= 0 and stairs[at].leave > leave:
        after, at = at, np.int64(stairs[at].previous)
    is_beaten = after >= 0 and not _is_lower(stairs[after], value, high, low)
    is_beaten |= at >= 0 and stairs[at].leave == leave and not _is_lower(stairs[at], value, high, low)
    while not is_beaten and at >= 0:
        if is_less(value, high, low, stairs[at].value, stairs[at].high, stairs[at].low):
            break
        at = _drop(stairs, state, at)
    if not is_beaten:
        new = state[FREE]
        state[FREE] = stairs[new].next
        state[TAKEN] += 1
        stairs[new].leave, stairs[new].value = leave, value
        stairs[new].high, stairs[new].low = high, low
        stairs[new].next, stairs[new].previous = after, at
        if at >= 0:
            stairs[at].next = new
        else:
            table[row, ends] = new
        if after >= 0:
            stairs[after].previous = new
        else:
            table[row, ends + 1] = new


@njit(cache=True)
def clear_stairs(stairs: Any, state: Any, table: Any, row: Any, ends: Any, tick: Any) -> None:
    """Drop what has left before a tick."""
    at = table[row, ends]
    if at < 0 or stairs[at].leave >= tick:
        return
    while at >= 0 and stairs[at].leave < tick:
        after = np.int64(stairs[at].next)
        _drop(stairs, state, at)
        at = after
    table[row, ends] = at
    if at >= 0:
        stairs[at].previous = -1
    else:
        table[row, ends + 1] = -1


@njit(cache=True, inline="always")
def _drop(stairs: Any, state: Any, at: Any) -> Any:
    """Free a stair, whose neighbours are still to be tied to each other; return the one before."""
    stairs[at].next = state[FREE]
    state[FREE] = at
    state[TAKEN] -= 1
    return np.int64(stairs[at].previous)


@njit(cache=True)
def put_in_heap(nodes: Any, state: Any, root: Any, key: Any, stamp: Any, stair: Any) -> Any:
    """Put in a key's value, that of a stair or node, as of a stamp, and return the new root; the pool has room."""
    new = state[FREE]
    node = nodes[new]
    state[FREE] = node.sibling
    state[TAKEN] += 1
    node.value, node.high, node.low = stair.value, stair.high, stair.low
    node.stamp, node.key, node.child, node.sibling = stamp, key, -1, -1
    return _melded(nodes, root, new)


@njit(cache=True)
def without_outdated(nodes: Any, state: Any, root: Any, strips: Any, stamp: Any) -> Any:
    """Return the root of a heap whose greatest is of its key's stamp, which ``strips`` has in that column."""
    while root >= 0 and strips[nodes[root].key, stamp] != nodes[root].stamp:
        rest = _paired(nodes, nodes[root].child)
        nodes[root].sibling = state[FREE]
        state[FREE] = root
        state[TAKEN] -= 1
        root = rest
    return root


@njit(cache=True)
def _paired(nodes: Any, first: Any) -> Any:
    """Return the root of a heap of all these siblings: melded by twos, then all from the last to the first."""
    pairs = -1
    while first >= 0:
        second = nodes[first].sibling
        after = nodes[second].sibling if second >= 0 else -1
        nodes[first].sibling = -1
        if second >= 0:
            nodes[second].sibling = -1
        both = _melded(nodes, first, second)
        nodes[both].sibling = pairs
        pairs, first = both, after
    root = -1
    while pairs >= 0:
        after = nodes[pairs].sibling
        nodes[pairs].sibling = -1
        root = _melded(nodes, root, pairs)
        pairs = after
    return root


@njit(cache=True, inline="always")
def _melded(nodes: Any, one: Any, other: Any) -> Any:
    if one < 0:
        return other
    if other < 0:
        return one
    if _is_lower(nodes[one], nodes[other].value, nodes[other].high, nodes[other].low):
        one, other = other, one
    nodes[other].sibling = nodes[one].child
    nodes[one].child = other
    return one


@njit(cache=True)
def copy_heaps(old: Any, new: Any, state: Any, groups: Any, columns: Any, strips: Any, stamp: Any) -> None:
    """Move all heaps into a pool of which nothing is taken, without what is outdated; ``columns``: those of roots."""
    waiting = np.empty(state[TAKEN] + 1, np.int64)
    state[FREE], state[TAKEN] = 0, 0
    for group in range(len(groups)):
        for column in range(columns[0], columns[1]):
            waiting[0], size, root = groups[group, column], 1, np.int64(-1)
            while size:
                size -= 1
                at = waiting[size]
                if at < 0:
                    continue
                if strips[old[at].key, stamp] == old[at].stamp:
                    root = put_in_heap(new, state, root, old[at].key, old[at].stamp, old[at])
                waiting[size], waiting[size + 1] = old[at].child, old[at].sibling
                size += 2
            groups[group, column] = root
