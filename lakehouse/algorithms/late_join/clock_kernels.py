"""Compiled loops of a join's clock: the stream time, the edges and the horizons, as rows move them.

What a row sees of the clock does not depend on what it joins with. So a block of rows is told the time first, and
probes afterwards; each loop has few enough values for the processor's registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.source_kernels import FAR_AHEAD, hear, look

# What is known of each row once it is processed; policies learn from it. The horizon and the edge are the other side's.
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
        ("kept", np.bool_),
    ],
    align=True,
)
# Columns of `sides`, one row per side; the unused one is 0, for states of earlier versions have it.
NEWEST, LAST_ARRIVAL, HORIZON, SLACK, IDLE_TIME, RISKED, UNUSED, UNUSABLE, LOGGED, EDGE, HOLD = range(11)
# Fields of `state`.
TIME, FIRST_ARRIVAL, NEXT_CHOICE, KEPT_SINCE, LIVE, REFUSED, PROCESSED = range(7)


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


def clock_after(sides: Any, states: Any, rows: int) -> tuple[Any, Any]:
    """Return the clock of a join that goes on from several, with so many rows that these hold and are numbered anew.

    ``sides``: joins x sides x columns; ``states``: joins x fields. Of each side the horizon is the highest, so every
    newer row is held, whichever join has held it; the slack is the longest, until the next choice.
    """
    own, state = sides.max(axis=0), states.max(axis=0)
    own[:, HOLD] = sides[:, :, HOLD].min(axis=0)
    state[PROCESSED] = max(state[PROCESSED], rows)
    return own, state


def slacks_of(window: int, sides: Any, state: Any) -> Any:
    """Return how much longer than the window both sides' rows are held from now on, counted from T."""
    behind = state[TIME] - window - sides[:, EDGE]
    return sides[:, SLACK] + (0 if state[TIME] == NO_TIME else behind)


@njit(cache=True)
def tell_time(
    rows: Any, start: int, stop: int, rules: Any, sides: Any, state: Any, watch: Any, out: Any, logged: int
) -> Any:
    """Trace rows and move time and horizons past them; return where it stopped, and how many rows are logged.

    It stops behind the row at which the next choice of slack is due.
    """
    side, event, arrival, row, _, _, usable, source = rows
    trace, refused, log = out
    idle, ahead_of_arrival, ahead_of_streams, window = rules
    is_watched = watch[0].size > 0
    for at in range(np.uint64(start), np.uint64(stop)):
        mine, ts, came = np.uint64(side[at]), event[at], arrival[at]
        if _is_ahead(ts, came, ahead_of_arrival, ahead_of_streams, sides):
            refused[at] = True
            state[REFUSED] += 1
            continue
        note = trace[at]
        _note(note, mine, ts, usable[at], window, sides, state)
        if note.logged:
            log[0, logged], log[1, logged], log[2, logged] = row[at], mine, ts
            log[3, logged], log[4, logged], log[5, logged] = note.horizon, note.time, note.edge
            logged += 1
        _count(note, mine, usable[at], sides, state)
        _advance(mine, ts, came, idle, sides, state)
        if is_watched:
            _watch(watch, np.int64(mine), source[at], ts, sides, state)
        raise_horizons(window, sides, state)
        if state[TIME] >= state[NEXT_CHOICE]:
            return np.int64(at) + 1, logged
    return stop, logged


@njit(cache=True)
def _is_ahead(event: int, arrival: int, of_arrival: int, of_streams: int, sides: Any) -> Any:
    newest = max(sides[0, NEWEST], sides[1, NEWEST])
    return (event - arrival > of_arrival) | ((newest != NO_TIME) & (event - newest > of_streams))


@njit(cache=True)
def _note(note: Any, mine: Any, ts: int, can_join: bool, window: int, sides: Any, state: Any) -> None:
    note.side, note.ts, note.time, note.newest = mine, ts, state[TIME], sides[mine, NEWEST]
    other = np.uint64(1) - mine
    note.horizon, note.edge, note.matches = sides[other, HORIZON], sides[other, EDGE], 0
    note.logged = can_join & (ts - window <= note.horizon)
    note.kept = can_join & (ts > sides[mine, HORIZON])


@njit(cache=True)
def _count(note: Any, mine: Any, can_join: bool, sides: Any, state: Any) -> None:
    """Count without a branch: which rows are late is hard to foresee."""
    sides[mine, LOGGED] += note.logged
    sides[mine, RISKED] += can_join & (note.ts < sides[mine, IDLE_TIME])
    sides[mine, UNUSABLE] += not can_join
    state[KEPT_SINCE] += note.kept
    state[PROCESSED] += 1


@njit(cache=True)
def _advance(mine: Any, event: int, arrival: int, idle: int, sides: Any, state: Any) -> None:
    """Move the side's newest time and T, which never fall."""
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
    state[TIME] = max(state[TIME], time)


@njit(cache=True)
def _watch(watch: Any, mine: Any, source: int, event: int, sides: Any, state: Any) -> None:
    """Note the row's source, and where a look is due, hold rows for silent ones.

    Called before horizons rise: a jump of T must not pass sources that are silent.
    """
    if hear(watch, mine, source, event, state[TIME], sides[1 - mine, SLACK]):
        hold_for_silent(watch, sides, state)


@njit(cache=True)
def hold_for_silent(watch: Any, sides: Any, state: Any) -> None:
    """Hold each side's rows for the other side's silent sources."""
    for side in range(2):
        sides[1 - side, HOLD] = look(watch, side, state[TIME], sides[1 - side, SLACK])


@njit(cache=True)
def raise_horizons(window: int, sides: Any, state: Any) -> None:
    """Raise the edges to what T and silent sources allow, and both horizons to what the slacks allow below them.

    Where nothing has moved, nothing changes: without a look at that it has no branch to foresee. Before T is known all
    stay as low as it is.
    """
    for side in range(2):
        edge = max(sides[side, EDGE], min(state[TIME], sides[side, HOLD]) - window)
        sides[side, EDGE] = edge
        sides[side, HORIZON] = max(sides[side, HORIZON], edge - sides[side, SLACK])
