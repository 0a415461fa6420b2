"""Compiled loops of the symmetric join: rows probe the other side and are kept, a block of them at a time.

    tell_time     what each row sees of the clock                         (clock.py)
    _ask          each row's chains, as they stand when it comes; then the row is kept
    _walk         one entry of every chain in each round: which rows are partners
    _write        the pairs, row by row

Whatever is not known before an entry has been read costs one wrong guess of the processor's. So a block's chains are
walked side by side, one step a round, without a branch, and the reads of one round do not wait for each other. A row
that came later in the block stands before the head that was noted, and is not met. Pairs come out as if rows had been
taken one by one: where blocks end leaves no trace.

Arrays are taken out of their tuples before a loop, and never replaced inside it: each would be counted as a new
reference for every row, which costs as much as the probe.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.kernels.clock import NEXT_CHOICE, PROCESSED, TIME, tell_time
from lakehouse.algorithms.late_join.kernels.ring import HEAD, TAIL, expire, keep, slot_of
from lakehouse.algorithms.late_join.kernels.source import count_pairs
from lakehouse.algorithms.late_join.probing import DISTANCE, EQUALITY, compare, is_near, is_near_exactly
from lakehouse.algorithms.late_join.slack_grid import bin_of

# Rows of a block: what is known of them stays in the nearest cache.
BLOCK = 256
# What one chain is asked: entries of this cell and with these times. A row has a chain for each cell.
ASK = np.dtype(
    [
        ("cell", np.int64),
        ("low", np.int64),
        ("high", np.int64),
        ("edge", np.int64),
        ("row", np.int64),
        ("at", np.int32),
        ("base", np.int32),
        ("tail", np.int32),
        ("matches", np.int32),
        ("place", np.int64),
    ],
    align=True,
)
# A place in a chain is one number: the chain's ask above, the position in the ring below.
ASK_BITS = np.uint64(32)
POSITION = np.uint64(2**32 - 1)


@njit(cache=True)
def join_rows(
    rows: Any, start: int, rules: Any, plan: Any, sides: Any, state: Any, ring: Any, need: Any, out: Any
) -> Any:
    """Process rows from ``start``; return where it stopped, how many pairs and logged rows, and the memory of pairs.

    It stops where a choice of slack is due, or a ring has no room for a block.
    """
    shape, _, offsets, comparisons = plan
    (grid, needed, watch), (pairs, places, trace, refused, log) = need, out
    is_plain = shape[0] == EQUALITY and comparisons.size == 0
    # A plain 0 is a type of its own, for which the loops below would be compiled once more.
    found: Any = np.int64(0)
    logged: Any = np.int64(0)
    at, window, ends = start, rules[3], ring[4]
    asks, chains = np.empty(BLOCK * len(offsets), ASK), np.empty(BLOCK * len(offsets), np.uint64)
    times, holds, slots = (
        np.empty(BLOCK + 1, np.int64),
        np.empty((2, BLOCK + 1), np.int64),
        np.empty(BLOCK, np.int64),
    )
    clocked = trace, refused, log, times, holds, slots
    while at < len(rows[0]):
        expire(sides, ring[0], ends)
        stop = min(at + BLOCK, len(rows[0]))
        if ring[0].shape[1] - max(ends[0, HEAD] - ends[0, TAIL], ends[1, HEAD] - ends[1, TAIL]) < stop - at:
            break
        number = state[PROCESSED]
        stop, logged = tell_time(rows, at, stop, rules, sides, state, watch, clocked, logged)
        asked = _ask(rows, at, stop, number, window, offsets, ring, trace, refused, asks, chains)
        if is_plain:
            places, count = _walk(ring[0], asks, chains, asked, places)
        else:
            places, count = _walk_and_check(ring, asks, chains, asked, places, rows[5], plan)
        if found + count > pairs.shape[1]:
            pairs = _more_pairs(pairs, found, count)
        _place(asks, asked, places, count, found, trace, needed)
        if watch[0].size > 0:
            count_pairs(watch, rows[0], at, stop, slots, trace)
        _write(ring[0], asks, places, count, window, pairs, grid, needed)
        at, found = stop, found + count
        if state[TIME] >= state[NEXT_CHOICE]:
            break
    return at, found, logged, pairs, places


@njit(cache=True)
def _ask(
    rows: Any,
    start: int,
    stop: int,
    number: int,
    window: int,
    offsets: Any,
    ring: Any,
    trace: Any,
    refused: Any,
    asks: Any,
    chains: Any,
) -> Any:
    """Note the chains that each row has to walk, keep the row, and return how many chains there are."""
    _, _, _, row, cells, numbers, usable, _ = rows
    entries, order, values, heads, ends = ring
    room, columns, slots, asked = entries.shape[1], values.shape[2], len(heads), np.uint64(0)
    for at in range(np.uint64(start), np.uint64(stop)):
        if refused[at]:
            continue
        if usable[at]:
            note = trace[at]
            mine = np.uint64(note.side)
            other = np.uint64(1) - mine
            low, high, tail = max(note.ts - window, note.horizon + 1), note.ts + window, ends[other, TAIL]
            own = cells[at]
            slot = slot_of(own, slots)
            for index in range(len(offsets)):
                ask, cell = asks[asked], own + offsets[index]
                ask.cell, ask.low, ask.high, ask.edge, ask.row = cell, low, high, note.edge, row[at]
                ask.at, ask.base, ask.tail, ask.matches = at, other * np.uint64(room), tail, 0
                head = heads[slot if cell == own else slot_of(cell, slots), other]
                chains[asked] = (asked << ASK_BITS) | (np.uint64(head) & POSITION)
                # Most chains of a sparse join are empty: the next ask takes the place of one that is.
                asked += np.uint64(head >= tail)
            if note.kept:
                where = keep(entries, order, heads, ends, mine, note.ts, own, slot, row[at], number)
                for column in range(columns):
                    values[mine, where, column] = numbers[at, column]
        number += 1
    return asked


@njit(cache=True)
def _walk(entries_of_sides: Any, asks: Any, chains: Any, walking: Any, places: Any) -> Any:
    """Return the places of all partners, by how far down their chains they are, and their number."""
    entries = entries_of_sides.reshape(-1)
    inside, count = np.uint64(entries_of_sides.shape[1] - 1), np.uint64(0)
    while walking > 0:
        if np.uint64(len(places)) < count + walking:
            places = _more_places(places, count, walking)
        going_on = np.uint64(0)
        for index in range(walking):
            place = chains[index]
            ask = asks[place >> ASK_BITS]
            entry = entries[np.uint64(ask.base) + (place & inside)]
            then, following = entry.ts, entry.next
            places[count] = place
            count += np.uint64((entry.cell == ask.cell) & (then >= ask.low) & (then <= ask.high))
            chains[going_on] = (place & ~POSITION) | (np.uint64(following) & POSITION)
            going_on += np.uint64(following >= ask.tail)
        walking = going_on
    return places, np.int64(count)


@njit(cache=True)
def _walk_and_check(
    ring: Any, asks: Any, chains: Any, asked: Any, places: Any, numbers: Any, plan: Any
) -> Any:
    """Return the same, of those partners that also satisfy what cells and times do not tell.

    Chain by chain: cells have many entries, and what is compared with all of a chain stays in registers.
    """
    entries_of_sides, _, values, _, ends = ring
    shape, reach, _, comparisons = plan
    kind, first, second, is_exact = shape
    width, bound, words, kept = reach[0].double, reach[0], numbers.view(np.int64), values.view(np.int64)
    entries, count, x, y = entries_of_sides.reshape(-1), np.uint64(0), 0.0, 0.0
    inside, is_compared = np.uint64(entries_of_sides.shape[1] - 1), comparisons.size > 0
    for index in range(asked):
        ask, place = asks[index], chains[index]
        at, base, other, tail = np.uint64(ask.at), np.uint64(ask.base), np.uint64(ask.base > 0), ask.tail
        cell, low, high, mark = ask.cell, ask.low, ask.high, place & ~POSITION
        others, more = values[other], kept[other]
        if kind != EQUALITY:
            x, y = numbers[at, first], numbers[at, second]
        if np.uint64(len(places)) < count + np.uint64(ends[other, HEAD] - tail):
            places = _more_places(places, count, np.uint64(ends[other, HEAD] - tail))
        position = np.int32(place & POSITION)
        while position >= tail:
            where = np.uint64(position) & inside
            entry = entries[base + where]
            then, position_now, position = entry.ts, position, entry.next
            if (entry.cell != cell) | (then < low) | (then > high):
                continue
            if is_exact:
                if not is_near_exactly(bound, words, at, more, where, kind, first, second):
                    continue
            elif kind != EQUALITY:
                dx, dy = x - others[where, first], y - others[where, second]
                if not is_near(width, dx, dy, kind == DISTANCE):
                    continue
            if is_compared and not compare(
                comparisons, numbers, words, at, np.uint64(1) - other, others, more, where
            ):
                continue
            places[count] = mark | np.uint64(position_now)
            count += np.uint64(1)
    return places, np.int64(count)


@njit(cache=True)
def _place(asks: Any, asked: Any, places: Any, count: int, found: int, trace: Any, needed: Any) -> None:
    """Count each chain's partners, and say where its pairs begin.

    All pairs count as such that slack 0 covers, until ``_write`` finds one that is not: few are.
    """
    for index in range(count):
        asks[places[index] >> ASK_BITS].matches += 1
    for index in range(asked):
        ask = asks[index]
        ask.place = found
        found += ask.matches
        trace[np.uint64(ask.at)].matches += ask.matches
        needed[np.uint64(ask.base > 0), 0] += ask.matches


@njit(cache=True)
def _write(
    entries_of_sides: Any, asks: Any, places: Any, count: int, window: int, pairs: Any, grid: Any, needed: Any
) -> None:
    """Write the pairs where their rows' pairs belong, and count the slack that each needed."""
    entries = entries_of_sides.reshape(-1)
    inside, per_us = np.uint64(entries_of_sides.shape[1] - 1), 1.0 / grid[1]
    for index in range(count):
        place = places[index]
        ask = asks[place >> ASK_BITS]
        base, to = np.uint64(ask.base), np.uint64(ask.place)
        entry, other = entries[base + (place & inside)], np.uint64(base > 0)
        then = entry.ts
        pairs[np.uint64(1) - other, to], pairs[other, to] = ask.row, entry.row
        pairs[2, to] = max(ask.high - window, then)
        ask.place += 1
        if ask.edge >= then:
            needed[other, bin_of(grid, ask.edge - then, per_us)] += 1
            needed[other, 0] -= 1


@njit(cache=True)
def _more_places(places: Any, count: Any, more: Any) -> Any:
    longer = np.empty(2 * (count + more), np.uint64)
    for index in range(count):
        longer[index] = places[index]
    return longer


@njit(cache=True)
def _more_pairs(pairs: Any, found: int, more: int) -> Any:
    """Copy one by one: an assignment of slices would compile for seconds, for the message of its error."""
    longer = np.empty((3, 2 * (found + more)), np.int64)
    for column in range(3):
        for index in range(found):
            longer[column, index] = pairs[column, index]
    return longer
