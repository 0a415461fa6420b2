"""Compiled windows: the rows that are in them now, found by what they must agree in, and let go of as they leave.

A row lies in a slot. For every set of attributes that a side can be asked by (an index) the rows of that side with one
hash are a chain, newest first. A chain holds live rows only: all rows that are met are in their windows now. How many
rows to expect is told by counts per cell, of which there is a fixed number: the order in which results are found then
depends on the rows alone, not on how much room there is for them.

Arguments named ``windows`` and ``plan`` are the tuples of ``Windows.arrays`` and ``Plan.arrays``, in that order.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.time_heap import pop, push

ENTRY = np.dtype(
    [
        ("enter", np.int64),
        ("leave", np.int64),
        ("number", np.int64),
        ("row", np.int64),
        ("group", np.int64),
        ("side", np.int32),
        # The first of what the row carries, for methods whose rows carry something.
        ("carried", np.int32),
    ],
    align=True,
)
# Fields of a window's `state`: rows in it, rows that ever were.
LIVE, NUMBER = range(2)
# Cells of live counts per index, a power of two; where there is but one other side to meet, one is enough.
CELLS = 4096
NEXT, PREVIOUS = range(2)


@njit(cache=True, inline="always")
def free_slot(windows: Any) -> Any:
    """Return the slot that is written next."""
    return windows[7][windows[8][LIVE]]


@njit(cache=True, inline="always")
def write(windows: Any, rows: Any, at: int) -> Any:
    """Write a row into the next free slot, where no probe finds it yet, and return the slot."""
    entries, keys, values, _, _, _, _, _, state = windows
    side, enter, leave, key, group, value, row = rows
    slot = free_slot(windows)
    entry = entries[slot]
    entry.enter, entry.leave, entry.number = enter[at], leave[at], state[NUMBER]
    entry.row, entry.group, entry.side, entry.carried = row[at], group[at], side[at], -1
    for column in range(keys.shape[1]):
        keys[slot, column] = key[at, column]
    for column in range(values.shape[1]):
        values[slot, column] = value[at, column]
    return slot


@njit(cache=True, inline="always")
def put_in(windows: Any, plan: Any, slot: int) -> None:
    """Let probes find the row that was written last."""
    entries, _, _, _, _, _, heap, _, state = windows
    chain(windows, plan, slot)
    push(heap, state[LIVE], entries[slot].leave, slot)
    state[LIVE] += 1
    state[NUMBER] += 1


@njit(cache=True)
def chain_all(windows: Any, plan: Any, slots: Any) -> None:
    """Put the rows of slots into empty chains, oldest first."""
    for slot in slots:
        chain(windows, plan, slot)


@njit(cache=True, inline="always")
def chain(windows: Any, plan: Any, slot: int) -> None:
    """Put a row at the head of its chain in every index of its side."""
    entries, keys, _, links, heads, counts, _, _, _ = windows
    _, _, own, attributes = plan
    for place in range(own.shape[1]):
        index = own[entries[slot].side, place]
        if index < 0:
            break
        bucket, cell = _places(keys, slot, attributes, index, heads.shape[1], counts.shape[1])
        head = heads[index, bucket]
        links[slot, place, NEXT], links[slot, place, PREVIOUS] = head, -1
        if head >= 0:
            links[head, place, PREVIOUS] = slot
        heads[index, bucket] = slot
        counts[index, cell] += 1


@njit(cache=True, inline="always")
def take_out(windows: Any, plan: Any, now: int) -> Any:
    """Take the row that leaves first out of its window, if it leaves before ``now``; return its slot, -1 for none.

    What is in the slot stays until the next row is written.
    """
    entries, keys, _, links, heads, counts, heap, free, state = windows
    _, _, own, attributes = plan
    if state[LIVE] == 0 or heap[0, 0] >= now:
        return -1
    slot = pop(heap, state[LIVE])
    state[LIVE] -= 1
    free[state[LIVE]] = slot
    for place in range(own.shape[1]):
        index = own[entries[slot].side, place]
        if index < 0:
            break
        bucket, cell = _places(keys, slot, attributes, index, heads.shape[1], counts.shape[1])
        after, before = links[slot, place, NEXT], links[slot, place, PREVIOUS]
        if after >= 0:
            links[after, place, PREVIOUS] = before
        if before >= 0:
            links[before, place, NEXT] = after
        else:
            heads[index, bucket] = after
        counts[index, cell] -= 1
    return slot


@njit(cache=True, inline="always")
def _places(keys: Any, row: int, attributes: Any, index: int, buckets: int, cells: int) -> Any:
    """Return the bucket and the cell of a row's attributes."""
    mixed = np.uint64(0)
    for column in range(attributes.shape[1]):
        if attributes[index, column]:
            mixed = (mixed ^ np.uint64(keys[row, column])) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    # The upper half times the number of buckets: any number of them, without a division.
    bucket = ((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32)
    return np.int64(bucket), np.int64(mixed & np.uint64(cells - 1))


@njit(cache=True)
def probe(windows: Any, plan: Any, slot: int, work: Any, results: Any) -> Any:
    """Return how many results a row has with the live rows of all other sides; the slots of each are in ``results``.

    Where there are more than ``results`` has room for, only those that fit are written. The other sides are met one
    after the other, for each partial result the one first that has the fewest rows to expect.
    """
    entries, keys, _, links, heads, counts, _, _, _ = windows
    carries, index_of, _, attributes = plan
    bound, met, picked = work
    sides = len(carries)
    own = entries[slot].side
    _bind(bound, keys, slot, carries, own)
    picked[own] = slot
    joined, found, depth = 1 << own, 0, 0
    met[0, 0], met[0, 1] = _choose(joined, bound, index_of, attributes, heads, counts)
    while depth >= 0:
        side, row = met[depth, 0], met[depth, 1]
        index = index_of[side, joined, 0]
        while row >= 0 and not _agrees(keys, row, bound, attributes, index):
            row = links[row, index_of[side, joined, 1], NEXT]
        if row < 0:
            depth -= 1
            if depth >= 0:
                joined ^= 1 << met[depth, 0]
            continue
        met[depth, 1] = links[row, index_of[side, joined, 1], NEXT]
        picked[side] = row
        if depth == sides - 2:
            if found < len(results):
                for other in range(sides):
                    results[found, other] = picked[other]
            found += 1
            continue
        _bind(bound, keys, row, carries, side)
        joined |= 1 << side
        depth += 1
        met[depth, 0], met[depth, 1] = _choose(joined, bound, index_of, attributes, heads, counts)
    return found


@njit(cache=True, inline="always")
def _choose(joined: int, bound: Any, index_of: Any, attributes: Any, heads: Any, counts: Any) -> Any:
    """Return the side with the fewest rows to expect, of those that attributes tie to the joined, and its chain."""
    best, head, least = -1, -1, np.int64(0)
    for side in range(len(index_of)):
        index = index_of[side, joined, 0]
        if (joined >> side) & 1 or index < 0:
            continue
        bucket, cell = _places(bound, 0, attributes, index, heads.shape[1], counts.shape[1])
        if best < 0 or counts[index, cell] < least:
            best, head, least = side, heads[index, bucket], counts[index, cell]
    return best, head


@njit(cache=True, inline="always")
def _bind(bound: Any, keys: Any, row: int, carries: Any, side: int) -> None:
    for column in range(keys.shape[1]):
        if carries[side, column]:
            bound[0, column] = keys[row, column]


@njit(cache=True, inline="always")
def _agrees(keys: Any, row: int, bound: Any, attributes: Any, index: int) -> Any:
    column, width = 0, keys.shape[1]
    while column < width and not (attributes[index, column] and keys[row, column] != bound[0, column]):
        column += 1
    return column == width
