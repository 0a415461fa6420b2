"""The rings that hold the kept rows of both sides, and the chains in them.

Each side's kept rows lie in a ring, in processing order. A row's position counts the rows that its side has kept; it
lies there modulo the ring's size, a power of two. The rows of all cells with one hash are a chain, newest first, that
ends where its next position lies before the ring's tail: nothing is ever unlinked. The tail follows the horizon. Rows
that are below the horizon and behind a newer one stay until it leaves; probes pass over them, and a ring that
is full of them is made anew. That changes where rows lie, never which rows are found nor in what order.

An entry takes half a line of the processor's cache; the two chains that a row needs begin in one line.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.kernels.clock import HORIZON

ENTRY = np.dtype([("ts", np.int64), ("cell", np.int64), ("row", np.int64), ("next", np.int32)], align=True)
# Columns of a ring's `ends`, one row per side: positions of the oldest row and behind the newest one.
TAIL, HEAD = range(2)


def empty_ring(room: int, columns: int) -> tuple[Any, ...]:
    """Return a ring for so many rows a side: entries, numbers in processing order, values, heads of chains, both ends.

    All but the heads and the ends are by side and position; values have a column for each number a row has.
    """
    entries, order = np.empty((2, room), ENTRY), np.empty((2, room), np.int64)
    heads = np.full((room, 2), -1, np.int32)
    return entries, order, np.empty((2, room, columns)), heads, np.zeros((2, 2), np.int64)


@njit(cache=True)
def slot_of(cell: int, slots: int) -> Any:
    """Return the slot of a cell's chain; the number of slots is a power of two.

    Mixed twice: with one product keys that follow each other, or that share a bucket, crowd in few slots.
    """
    mixed = np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (mixed >> np.uint64(32)) & np.uint64(slots - 1)


@njit(cache=True)
def keep(
    entries: Any,
    order: Any,
    heads: Any,
    ends: Any,
    mine: Any,
    event: int,
    cell: int,
    slot: Any,
    row: int,
    number: int,
) -> Any:
    """Put a row in front of its chain, which is in ``slot``, and return where it lies; there is room for it."""
    position = ends[mine, HEAD]
    where = np.uint64(position) & np.uint64(entries.shape[1] - 1)
    entry = entries[mine, where]
    entry.ts, entry.cell, entry.row, entry.next = event, cell, row, heads[slot, mine]
    order[mine, where] = number
    heads[slot, mine] = position
    ends[mine, HEAD] = position + 1
    return where


@njit(cache=True)
def expire(sides: Any, entries: Any, ends: Any) -> None:
    """Move the tails of both rings past rows at or below their horizons."""
    inside = entries.shape[1] - 1
    for side in range(2):
        tail, head, horizon = ends[side, TAIL], ends[side, HEAD], sides[side, HORIZON]
        while tail < head and entries[side, tail & inside].ts <= horizon:
            tail += 1
        ends[side, TAIL] = tail


@njit(cache=True)
def count_living(sides: Any, ring: Any) -> Any:
    """Return how many rows of both sides are above their horizons; the tails are moved first."""
    entries, ends = ring[0], ring[4]
    expire(sides, entries, ends)
    inside, living = entries.shape[1] - 1, 0
    for side in range(2):
        for position in range(ends[side, TAIL], ends[side, HEAD]):
            living += entries[side, position & inside].ts > sides[side, HORIZON]
    return living


@njit(cache=True)
def move_living(sides: Any, old: Any, new: Any) -> None:
    """Put the living rows of both sides into an empty ring, in their order."""
    entries, order, values, _, ends = old
    inside = entries.shape[1] - 1
    for side in range(2):
        for position in range(ends[side, TAIL], ends[side, HEAD]):
            where = position & inside
            entry = entries[side, where]
            if entry.ts > sides[side, HORIZON]:
                at = keep(
                    new[0],
                    new[1],
                    new[3],
                    new[4],
                    np.uint64(side),
                    entry.ts,
                    entry.cell,
                    slot_of(entry.cell, len(new[3])),
                    entry.row,
                    order[side, where],
                )
                new[2][side, at] = values[side, where]


@njit(cache=True)
def list_living(sides: Any, side: int, ring: Any, out: Any, numbers: Any) -> Any:
    """Write number, time, cell, id of each living row of a side, and its numbers; return how many there are."""
    listed = 0
    entries, order, values, _, ends = ring
    inside = entries.shape[1] - 1
    for position in range(ends[side, TAIL], ends[side, HEAD]):
        where = position & inside
        entry = entries[side, where]
        if entry.ts > sides[side, HORIZON]:
            out[listed, 0], out[listed, 1] = order[side, where], entry.ts
            out[listed, 2], out[listed, 3] = entry.cell, entry.row
            numbers[listed] = values[side, where]
            listed += 1
    return listed


@njit(cache=True)
def put_back(side: int, ring: Any, kept: Any, numbers: Any) -> None:
    """Put listed rows of a side, in order of their number, into a ring that has room."""
    for index in range(len(kept)):
        number, event, cell, row = kept[index]
        slot = slot_of(cell, len(ring[3]))
        at = keep(ring[0], ring[1], ring[3], ring[4], np.uint64(side), event, cell, slot, row, number)
        ring[2][side, at] = numbers[index]
