"""Compiled loops of the symmetric join: rows probe the other side, are kept, and move time and horizons.

Each side's kept rows lie in a ring, in processing order. A row's position counts the rows that its side has kept; it
lies there modulo the ring's size, a power of two. The rows of all cells with one hash are a chain, newest first, that
ends where its next position lies before the ring's tail: nothing is ever unlinked. The tail follows the horizon. Rows
that are below the horizon and behind a newer one stay until it leaves; probes pass over them, and a ring that
is full of them is made anew. That changes where rows lie, never which rows are found nor in what order.

An entry takes half a line of the processor's cache; the two chains that a row needs begin in one line. Arrays are taken
out of their tuples before the loop, and the array of pairs is never replaced inside it: each would be counted as a new
reference for every row, which costs as much as the probe.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.probing import DISTANCE, EQUALITY, compare, is_near
from lakehouse.algorithms.late_join.slack_grid import bin_of
from lakehouse.algorithms.late_join.source_kernels import FAR_AHEAD, hear, look

ENTRY = np.dtype([("ts", np.int64), ("cell", np.int64), ("row", np.int64), ("next", np.int32)], align=True)
# What is known of each row once it is processed; policies learn from it.
TRACE = np.dtype(
    [
        ("side", np.int64),
        ("ts", np.int64),
        ("time", np.int64),
        ("newest", np.int64),
        ("horizon", np.int64),
        ("edge", np.int64),
        ("matches", np.int64),
        ("logged", np.bool_),
    ],
    align=True,
)
# Columns of `sides`, one row per side; the unused one is 0, for states of earlier versions have it.
NEWEST, LAST_ARRIVAL, HORIZON, SLACK, IDLE_TIME, RISKED, UNUSED, UNUSABLE, LOGGED, EDGE, HOLD = range(11)
# Fields of `state`.
TIME, FIRST_ARRIVAL, NEXT_CHOICE, KEPT_SINCE, LIVE, REFUSED, PROCESSED = range(7)
# Columns of a ring's `ends`, one row per side: positions of the oldest row and behind the newest one.
TAIL, HEAD = range(2)
# Rows taken in between looks at what has left.
EXPIRED_EVERY = 64


def empty_ring(room: int, columns: int) -> tuple[Any, ...]:
    """Return a ring for so many rows a side: entries, numbers in processing order, values, heads of chains, both ends.

    All but the heads and the ends are by side and position; values have a column for each number a row has.
    """
    entries, order = np.empty((2, room), ENTRY), np.empty((2, room), np.int64)
    heads = np.full((room, 2), -1, np.int32)
    return entries, order, np.empty((2, room, columns)), heads, np.zeros((2, 2), np.int64)


def empty_sides() -> Any:
    """Return the columns of both sides before the first row."""
    sides = np.zeros((2, 11), np.int64)
    sides[:, [NEWEST, LAST_ARRIVAL, HORIZON, IDLE_TIME, EDGE]] = NO_TIME
    sides[:, HOLD] = FAR_AHEAD
    return sides


def sides_of(packed: bytes, state: bytes, window_us: int) -> Any:
    """Return the columns of both sides; a state of an earlier version has neither edges nor silent sources."""
    sides = np.frombuffer(packed, np.int64).reshape(2, -1).copy()
    if sides.shape[1] > HOLD:
        return sides
    time = int(np.frombuffer(state, np.int64)[TIME])
    edge = NO_TIME if time == NO_TIME else time - window_us
    return np.column_stack([sides, np.full(2, edge), np.full(2, FAR_AHEAD)])


def slacks_of(window: int, sides: Any, state: Any) -> Any:
    """Return how much longer than the window both sides' rows are held from now on, counted from T."""
    behind = state[TIME] - window - sides[:, EDGE]
    return sides[:, SLACK] + (0 if state[TIME] == NO_TIME else behind)


@njit(cache=True)
def join_rows(
    rows: Any, start: int, rules: Any, plan: Any, sides: Any, state: Any, ring: Any, need: Any, out: Any
) -> Any:
    """Process rows from ``start``; return where it stopped, and how many pairs and traces it wrote.

    It stops where the next choice of slack is due, a ring is full, or the next row may have more pairs than fit.
    """
    side, event, arrival, row, cells, numbers, usable, source = rows
    (shape, reach, offsets, comparisons), (entries, order, values, heads, ends) = plan, ring
    (grid, needed, watch), (pairs, trace, refused) = need, out
    idle, ahead_of_arrival, ahead_of_streams, window = rules
    (kind, first, second), x, y, found, traced, slots = shape, 0.0, 0.0, 0, 0, len(heads)
    inside, is_compared, is_watched = np.uint64(entries.shape[1] - 1), comparisons.size > 0, watch[0].size > 0
    for at in range(start, len(side)):
        mine, ts, came = np.uint64(side[at]), event[at], arrival[at]
        other = np.uint64(1) - mine
        if _is_ahead(ts, came, ahead_of_arrival, ahead_of_streams, sides):
            refused[at] = True
            state[REFUSED] += 1
            continue
        if at % EXPIRED_EVERY == 0 or not _has_room(ends, mine, entries, pairs, found):
            expire(sides, entries, ends)
            if not _has_room(ends, mine, entries, pairs, found):
                return at, found, traced
        note, traced = trace[traced], traced + 1
        _note(note, mine, ts, sides, state)
        if usable[at]:
            before, tail = found, ends[other, TAIL]
            low, high, edge = max(ts - window, note.horizon + 1), ts + window, note.edge
            if kind != EQUALITY:
                x, y = numbers[at, first], numbers[at, second]
            for index in range(len(offsets)):
                cell = cells[at] + offsets[index]
                position = heads[_slot(cell, slots), other]
                while position >= tail:
                    where = np.uint64(position) & inside
                    entry = entries[other, where]
                    then, position = entry.ts, entry.next
                    if (entry.cell != cell) | (then < low) | (then > high):
                        continue
                    if kind != EQUALITY:
                        dx, dy = x - values[other, where, first], y - values[other, where, second]
                        if not is_near(reach, dx, dy, kind == DISTANCE):
                            continue
                    if is_compared and not compare(comparisons, numbers, at, mine, values, where):
                        continue
                    pairs[mine, found], pairs[other, found] = row[at], entry.row
                    pairs[2, found] = max(ts, then)
                    found += 1
                    needed[other, bin_of(grid, edge - then) if edge >= then else 0] += 1
            note.matches = found - before
            _log(note, mine, window, sides)
            if ts > sides[mine, HORIZON]:
                where = _keep(entries, order, heads, ends, mine, ts, cells[at], row[at], state[PROCESSED])
                for column in range(values.shape[2]):
                    values[mine, where, column] = numbers[at, column]
                state[KEPT_SINCE] += 1
        sides[mine, UNUSABLE] += not usable[at]
        is_later = _advance(mine, ts, came, idle, sides, state)
        if is_later | (is_watched and _watch(watch, int(mine), source[at], ts, sides, state)):
            raise_horizons(window, sides, state)
        if state[TIME] >= state[NEXT_CHOICE]:
            return at + 1, found, traced
    return len(side), found, traced


@njit(cache=True)
def _is_ahead(event: int, arrival: int, of_arrival: int, of_streams: int, sides: Any) -> Any:
    newest = max(sides[0, NEWEST], sides[1, NEWEST])
    return event - arrival > of_arrival or (newest != NO_TIME and event - newest > of_streams)


@njit(cache=True, inline="always")
def _note(note: Any, mine: Any, ts: int, sides: Any, state: Any) -> None:
    note.side, note.ts, note.time, note.newest = mine, ts, state[TIME], sides[mine, NEWEST]
    other = np.uint64(1) - mine
    note.horizon, note.edge = sides[other, HORIZON], sides[other, EDGE]
    note.matches, note.logged = 0, False


@njit(cache=True, inline="always")
def _log(note: Any, mine: Any, window: int, sides: Any) -> None:
    if note.ts - window <= note.horizon:
        note.logged = True
        sides[mine, LOGGED] += 1
    if note.ts < sides[mine, IDLE_TIME]:
        sides[mine, RISKED] += 1


@njit(cache=True)
def _has_room(ends: Any, mine: Any, entries: Any, pairs: Any, found: int) -> Any:
    """Tell if there is room for one more row, and for pairs with every row of the other side."""
    other = np.uint64(1) - mine
    is_full = ends[mine, HEAD] - ends[mine, TAIL] == entries.shape[1]
    return not is_full and pairs.shape[1] - found >= ends[other, HEAD] - ends[other, TAIL]


@njit(cache=True)
def _slot(cell: int, slots: int) -> Any:
    """Return the slot of a cell's chain; the number of slots is a power of two.

    Mixed twice: with one product keys that follow each other, or that share a bucket, crowd in few slots.
    """
    mixed = np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return (mixed >> np.uint64(32)) & np.uint64(slots - 1)


@njit(cache=True)
def _keep(
    entries: Any, order: Any, heads: Any, ends: Any, mine: Any, event: int, cell: int, row: int, number: int
) -> Any:
    position, slot = ends[mine, HEAD], _slot(cell, len(heads))
    where = np.uint64(position) & np.uint64(entries.shape[1] - 1)
    entry = entries[mine, where]
    entry.ts, entry.cell, entry.row, entry.next = event, cell, row, heads[slot, mine]
    order[mine, where] = number
    heads[slot, mine] = position
    ends[mine, HEAD] = position + 1
    return where


@njit(cache=True)
def _advance(mine: Any, event: int, arrival: int, idle: int, sides: Any, state: Any) -> Any:
    """Move the side's newest time and T, which never fall; tell if T has moved."""
    state[PROCESSED] += 1
    if state[FIRST_ARRIVAL] == NO_TIME:
        state[FIRST_ARRIVAL] = arrival
    sides[mine, NEWEST] = max(sides[mine, NEWEST], event)
    sides[mine, LAST_ARRIVAL] = max(sides[mine, LAST_ARRIVAL], arrival)
    other = np.uint64(1) - mine
    time = min(sides[mine, NEWEST], sides[other, NEWEST])
    heard = max(sides[other, LAST_ARRIVAL], state[FIRST_ARRIVAL])
    if arrival - heard > idle and sides[mine, NEWEST] > time:
        time = sides[mine, NEWEST]
        sides[other, IDLE_TIME] = max(sides[other, IDLE_TIME], time)
    is_later = time > state[TIME]
    state[TIME] = max(state[TIME], time)
    return is_later


@njit(cache=True)
def _watch(watch: Any, mine: int, source: int, event: int, sides: Any, state: Any) -> Any:
    """Note the row's source; where a look is due, hold rows for silent ones; tell if there was one.

    Called before horizons rise: a jump of T must not pass sources that are silent.
    """
    is_due = hear(watch, mine, source, event, state[TIME], sides[1 - mine, SLACK])
    if is_due:
        hold_for_silent(watch, sides, state)
    return is_due


@njit(cache=True)
def hold_for_silent(watch: Any, sides: Any, state: Any) -> None:
    """Hold each side's rows for the other side's silent sources."""
    for side in range(2):
        sides[1 - side, HOLD] = look(watch, side, state[TIME], sides[1 - side, SLACK])


@njit(cache=True)
def raise_horizons(window: int, sides: Any, state: Any) -> None:
    """Raise the edges to what T and silent sources allow, and both horizons to what the slacks allow below them."""
    if state[TIME] != NO_TIME:
        for side in range(2):
            edge = max(sides[side, EDGE], min(state[TIME], sides[side, HOLD]) - window)
            sides[side, EDGE] = edge
            sides[side, HORIZON] = max(sides[side, HORIZON], edge - sides[side, SLACK])


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
                at = _keep(
                    new[0],
                    new[1],
                    new[3],
                    new[4],
                    np.uint64(side),
                    entry.ts,
                    entry.cell,
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
        at = _keep(ring[0], ring[1], ring[3], ring[4], np.uint64(side), event, cell, row, number)
        ring[2][side, at] = numbers[index]
