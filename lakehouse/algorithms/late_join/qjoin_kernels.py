"""Compiled loops of the symmetric join: rows probe the other side, are kept, and move time and horizons.

A side's kept rows lie in blocks of rows of one cell; the blocks of all cells with one hash are a chain, newest first.
The first entry of a block carries the block's own fields. Equal keys are few and get blocks of one row; cells of
a band or a distance are crowded and get larger ones, so that a probe reads memory in order. A row below the
horizon is dead: a probe passes over it, the next sweep drops it. Sweeps and growth change where rows lie, never
which rows are found nor in what order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.probing import compare, is_near
from lakehouse.algorithms.late_join.slack_grid import bin_of

ENTRY = np.dtype(
    [
        ("ts", np.int64),
        ("row", np.int64),
        ("number", np.int64),
        ("cell", np.int64),
        ("next", np.int32),
        ("count", np.int32),
    ],
    align=True,
)
# What is known of each row once it is processed; policies learn from it.
TRACE = np.dtype(
    [
        ("side", np.int64),
        ("ts", np.int64),
        ("time", np.int64),
        ("newest", np.int64),
        ("horizon", np.int64),
        ("matches", np.int64),
        ("logged", np.bool_),
    ],
    align=True,
)
# Columns of `sides`, one row per side.
NEWEST, LAST_ARRIVAL, HORIZON, SLACK, IDLE_TIME, RISKED, USED, UNUSABLE, LOGGED = range(9)
# Fields of `state`.
TIME, FIRST_ARRIVAL, NEXT_CHOICE, KEPT_SINCE, LIVE, REFUSED, PROCESSED = range(7)


@njit(cache=True)
def join_rows(
    rows: Any, start: int, rules: Any, plan: Any, sides: Any, state: Any, pool: Any, need: Any, out: Any
) -> Any:
    """Process rows from ``start`` until the next choice of slack is due; return where it stopped, and its output.

    The arguments are tuples of arrays, in the order in which they are taken apart below.
    """
    side, event, arrival, _, _, _, usable = rows
    pairs, trace, refused = out
    found, traced = 0, 0
    for at in range(start, len(side)):
        mine = side[at]
        if _is_ahead(event[at], arrival[at], rules, sides):
            refused[at] = True
            state[REFUSED] += 1
            continue
        note = trace[traced]
        traced += 1
        _note(note, mine, event[at], sides, state)
        if usable[at]:
            before = found
            pairs, found = _probe(rows, at, rules[3], plan, sides, state, pool, need, pairs, found)
            note.matches = found - before
            _log(note, rules[3], sides)
            _keep(rows, at, sides, state, pool)
        else:
            sides[mine, UNUSABLE] += 1
        _advance(mine, event[at], arrival[at], rules, sides, state)
        if state[TIME] >= state[NEXT_CHOICE]:
            return at + 1, pairs, found, traced
    return len(side), pairs, found, traced


@njit(cache=True, inline="always")
def _is_ahead(event: int, arrival: int, rules: Any, sides: Any) -> Any:
    newest = max(sides[0, NEWEST], sides[1, NEWEST])
    return event - arrival > rules[1] or (newest != NO_TIME and event - newest > rules[2])


@njit(cache=True, inline="always")
def _note(note: Any, mine: int, event: int, sides: Any, state: Any) -> None:
    note.side, note.ts, note.time = mine, event, state[TIME]
    note.newest = sides[mine, NEWEST]
    note.horizon = sides[1 - mine, HORIZON]
    note.matches, note.logged = 0, False


@njit(cache=True, inline="always")
def _log(note: Any, window: int, sides: Any) -> None:
    if note.ts - window <= note.horizon:
        note.logged = True
        sides[note.side, LOGGED] += 1
    if note.ts < sides[note.side, IDLE_TIME]:
        sides[note.side, RISKED] += 1


@njit(cache=True, inline="always")
def _probe(
    rows: Any,
    at: int,
    window: int,
    plan: Any,
    sides: Any,
    state: Any,
    pool: Any,
    need: Any,
    pairs: Any,
    found: int,
) -> Any:
    """Emit the row's pairs with the other side's living rows; count the slack that each needed."""
    side, event, _, row, cells, numbers, _ = rows
    shape, reach, offsets, comparisons = plan
    entries, values, heads, size = pool
    grid, needed = need
    mine, ts, kind = side[at], event[at], shape[0]
    other = 1 - mine
    low, high = max(ts - window, sides[other, HORIZON] + 1), ts + window
    edge, first_column, second_column = state[TIME] - window, shape[1], shape[2]
    x, y = 0.0, 0.0
    if kind != 0:
        x, y = numbers[at, first_column], numbers[at, second_column]
    for index in range(len(offsets)):
        cell = cells[at] + offsets[index]
        block = heads[other, _slot(cell, heads.shape[1])]
        while block >= 0:
            first = block * size
            count = entries[other, first].count if entries[other, first].cell == cell else 0
            for where in range(first + count - 1, first - 1, -1):
                then = entries[other, where].ts
                if then < low or then > high:
                    continue
                if kind != 0:
                    dx = x - values[other, where, first_column]
                    dy = y - values[other, where, second_column]
                    if not is_near(reach, dx, dy, kind == 2):
                        continue
                if len(comparisons) and not compare(comparisons, numbers, at, mine, values, where):
                    continue
                if found == len(pairs):
                    pairs = _grown(pairs)
                pairs[found, mine], pairs[found, other] = row[at], entries[other, where].row
                pairs[found, 2] = max(ts, then)
                found += 1
                needed[other, bin_of(grid, edge - then) if edge >= then else 0] += 1
            block = entries[other, first].next
    return pairs, found


@njit(cache=True)
def _grown(pairs: Any) -> Any:
    more = np.empty((2 * len(pairs), 3), np.int64)
    more[: len(pairs)] = pairs
    return more


@njit(cache=True)
def _slot(cell: int, slots: int) -> Any:
    """Return the slot of a cell's chain; the number of slots is a power of two."""
    mixed = np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((mixed >> np.uint64(32)) & np.uint64(slots - 1))


@njit(cache=True, inline="always")
def _keep(rows: Any, at: int, sides: Any, state: Any, pool: Any) -> None:
    """Keep a row unless it is below its own side's horizon."""
    side, event, _, row, cells, numbers, _ = rows
    mine = side[at]
    if event[at] > sides[mine, HORIZON]:
        where = place(sides, mine, cells[at], pool)
        state[KEPT_SINCE] += 1
        entry = pool[0][mine, where]
        entry.ts, entry.row, entry.number = event[at], row[at], state[PROCESSED]
        for column in range(pool[1].shape[2]):
            pool[1][mine, where, column] = numbers[at, column]


@njit(cache=True, inline="always")
def place(sides: Any, mine: int, cell: int, pool: Any) -> Any:
    """Return where a row of a cell goes: into the cell's newest block, or a new one at the head of the chain."""
    entries, _, heads, size = pool
    slot = _slot(cell, heads.shape[1])
    block = heads[mine, slot]
    if size > 1:
        while block >= 0 and entries[mine, block * size].cell != cell:
            block = entries[mine, block * size].next
        if block >= 0 and entries[mine, block * size].count < size:
            entries[mine, block * size].count += 1
            return block * size + entries[mine, block * size].count - 1
    block = sides[mine, USED]
    sides[mine, USED] += 1
    first = entries[mine, block * size]
    first.cell, first.next, first.count = cell, heads[mine, slot], 1
    heads[mine, slot] = block
    return block * size


@njit(cache=True, inline="always")
def _advance(mine: int, event: int, arrival: int, rules: Any, sides: Any, state: Any) -> None:
    """Move the side's newest time, T and both horizons; none of them ever falls."""
    state[PROCESSED] += 1
    if state[FIRST_ARRIVAL] == NO_TIME:
        state[FIRST_ARRIVAL] = arrival
    sides[mine, NEWEST] = max(sides[mine, NEWEST], event)
    sides[mine, LAST_ARRIVAL] = max(sides[mine, LAST_ARRIVAL], arrival)
    other = 1 - mine
    time = min(sides[mine, NEWEST], sides[other, NEWEST])
    heard = max(sides[other, LAST_ARRIVAL], state[FIRST_ARRIVAL])
    if arrival - heard > rules[0] and sides[mine, NEWEST] > time:
        time = sides[mine, NEWEST]
        sides[other, IDLE_TIME] = max(sides[other, IDLE_TIME], time)
    state[TIME] = max(state[TIME], time)
    raise_horizons(rules[3], sides, state)


@njit(cache=True)
def raise_horizons(window: int, sides: Any, state: Any) -> None:
    """Raise both horizons to what T and the slacks allow."""
    if state[TIME] != NO_TIME:
        for side in range(2):
            sides[side, HORIZON] = max(sides[side, HORIZON], state[TIME] - sides[side, SLACK] - window)


@njit(cache=True)
def sweep(sides: Any, old: Any, new: Any) -> Any:
    """Move the living rows of both sides into an empty pool, each cell's in their order; return how many live."""
    living = 0
    for side in range(2):
        blocks = sides[side, USED]
        sides[side, USED] = 0
        for block in range(blocks):
            first = block * old[3]
            for where in range(first, first + old[0][side, first].count):
                if old[0][side, where].ts > sides[side, HORIZON]:
                    _move(sides, side, old[0][side, first].cell, where, old, new)
                    living += 1
    return living


@njit(cache=True)
def _move(sides: Any, side: int, cell: int, source: int, old: Any, new: Any) -> None:
    target = place(sides, side, cell, new)
    entry, was = new[0][side, target], old[0][side, source]
    entry.ts, entry.row, entry.number = was.ts, was.row, was.number
    for column in range(old[1].shape[2]):
        new[1][side, target, column] = old[1][side, source, column]


@njit(cache=True)
def list_living(sides: Any, side: int, pool: Any, out: Any, numbers: Any) -> Any:
    """Write number, time, cell, id of each living row of a side, and its numbers; return how many there are."""
    listed = 0
    entries, values, _, size = pool
    for block in range(sides[side, USED]):
        first = block * size
        for where in range(first, first + entries[side, first].count):
            entry = entries[side, where]
            if entry.ts > sides[side, HORIZON]:
                out[listed, 0], out[listed, 1] = entry.number, entry.ts
                out[listed, 2], out[listed, 3] = entries[side, first].cell, entry.row
                for column in range(values.shape[2]):
                    numbers[listed, column] = values[side, where, column]
                listed += 1
    return listed


@njit(cache=True)
def put_back(sides: Any, side: int, pool: Any, kept: Any, numbers: Any) -> None:
    """Put listed rows of a side, in order of their number, into an empty pool."""
    for index in range(len(kept)):
        where = place(sides, side, kept[index, 2], pool)
        entry = pool[0][side, where]
        entry.number, entry.ts, entry.row = kept[index, 0], kept[index, 1], kept[index, 3]
        for column in range(numbers.shape[1]):
            pool[1][side, where, column] = numbers[index, column]
