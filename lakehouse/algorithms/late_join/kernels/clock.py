"""Compiled loops of a join's clock: the stream time, the edges and the horizons, as rows move them.

What a row sees of the clock does not depend on what it joins with. So a block of rows is told the time first, and
probes afterwards. The clock itself is three loops: T, what is held for silent sources, horizons. Each has few enough
values for the processor's registers, where those of both sides stay: in memory, of a side that cannot be foreseen, a
row's would wait for those of the row before.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_TIME
from lakehouse.algorithms.late_join.kernels.source import FAR_AHEAD, look, watch_rows

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
# Columns of `sides`, one row per side.
NEWEST, LAST_ARRIVAL, HORIZON, SLACK, IDLE_TIME, RISKED, UNUSED, UNUSABLE, LOGGED, EDGE, HOLD = range(11)
# Fields of `state`.
TIME, FIRST_ARRIVAL, NEXT_CHOICE, KEPT_SINCE, LIVE, REFUSED, PROCESSED = range(7)


def empty_sides() -> Any:
    """Return the columns of both sides before the first row."""
    sides = np.zeros((2, 11), np.int64)
    sides[:, [NEWEST, LAST_ARRIVAL, HORIZON, IDLE_TIME, EDGE]] = NO_TIME
    sides[:, HOLD] = FAR_AHEAD
    return sides


def sides_of(packed: bytes) -> Any:
    """Return the columns of both sides as they were packed."""
    return np.frombuffer(packed, np.int64).reshape(2, -1).copy()


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

    It stops behind the row at which the next choice of slack is due. ``out``: trace, refused, log, and arrays with
    room for one more than the rows: T, by side the event time that is held for silent sources, and slots of sources.
    """
    trace, refused, _, times, holds, slots = out
    stop = _advance(rows, start, stop, rules, sides, state, (trace, refused, times))
    holds[0, 0], holds[1, 0] = sides[0, HOLD], sides[1, HOLD]
    if watch[0].size > 0:
        # Before horizons rise: a jump of T must not pass sources that are silent.
        heard, slacks = (rows[0], rows[1], rows[7]), sides[:, SLACK].copy()
        watch_rows(heard, start, stop, watch, slacks, refused, times, (holds, slots))
        sides[0, HOLD], sides[1, HOLD] = holds[0, stop - start], holds[1, stop - start]
    else:
        for index in range(1, stop - start + 1):
            holds[0, index], holds[1, index] = sides[0, HOLD], sides[1, HOLD]
    logged = _note(rows, start, stop, rules[3], sides, state, out, logged)
    return stop, logged


@njit(cache=True)
def _of(side: Any, left: Any, right: Any) -> Any:
    """Return a side's value, without a branch: whose turn it is cannot be foreseen."""
    return left ^ ((left ^ right) & -side)


@njit(cache=True)
def _advance(rows: Any, start: int, stop: int, rules: Any, sides: Any, state: Any, out: Any) -> Any:
    """Move the newest times and T, which never fall; note T before the first row and after each one."""
    side, event, arrival, usable = rows[0], rows[1], rows[2], rows[6]
    idle, ahead_of_arrival, ahead_of_streams, _ = rules
    trace, refused, times = out
    left, right, time, first = sides[0, NEWEST], sides[1, NEWEST], state[TIME], state[FIRST_ARRIVAL]
    left_came, right_came = sides[0, LAST_ARRIVAL], sides[1, LAST_ARRIVAL]
    choice, index = state[NEXT_CHOICE], np.uint64(0)
    for at in range(np.uint64(start), np.uint64(stop)):
        mine, ts, came, newest = np.int64(side[at]), event[at], arrival[at], max(left, right)
        times[index] = time
        index += np.uint64(1)
        if (ts - came > ahead_of_arrival) | ((newest != NO_TIME) & (ts - newest > ahead_of_streams)):
            refused[at] = True
            continue
        note = trace[at]
        note.side, note.ts, note.time, note.newest = mine, ts, time, _of(mine, left, right)
        if usable[at] & (ts < sides[mine, IDLE_TIME]):
            sides[mine, RISKED] += 1
        if first == NO_TIME:
            first = came
        left, right = max(left, _of(mine, ts, NO_TIME)), max(right, _of(mine, NO_TIME, ts))
        left_came = max(left_came, _of(mine, came, NO_TIME))
        right_came = max(right_came, _of(mine, NO_TIME, came))
        now, own = min(left, right), _of(mine, left, right)
        if came - max(_of(mine, right_came, left_came), first) > idle and own > now:
            now = own
            sides[1 - mine, IDLE_TIME] = max(sides[1 - mine, IDLE_TIME], now)
        time = max(time, now)
        if time >= choice:
            break
    times[index] = time
    sides[0, NEWEST], sides[1, NEWEST], state[TIME], state[FIRST_ARRIVAL] = left, right, time, first
    sides[0, LAST_ARRIVAL], sides[1, LAST_ARRIVAL] = left_came, right_came
    return start + np.int64(index)


@njit(cache=True)
def _note(
    rows: Any, start: int, stop: int, window: int, sides: Any, state: Any, out: Any, logged: int
) -> Any:
    """Note each row's horizons, log those that may have missed partners, and raise edges and horizons behind it.

    As ``raise_horizons`` does, with both sides' values in registers.
    """
    side, event, row, usable = rows[0], rows[1], rows[3], rows[6]
    trace, refused, log, times, holds, _ = out
    left, left_edge, left_slack = sides[0, HORIZON], sides[0, EDGE], sides[0, SLACK]
    right, right_edge, right_slack = sides[1, HORIZON], sides[1, EDGE], sides[1, SLACK]
    processed, kept, index = 0, 0, np.uint64(0)
    for at in range(np.uint64(start), np.uint64(stop)):
        index += np.uint64(1)
        if refused[at]:
            state[REFUSED] += 1
            continue
        note, mine, ts, can_join, time = trace[at], np.int64(side[at]), event[at], usable[at], times[index]
        note.horizon, note.edge, note.matches = _of(mine, right, left), _of(mine, right_edge, left_edge), 0
        note.logged = can_join & (ts - window <= note.horizon)
        note.kept = can_join & (ts > _of(mine, left, right))
        kept += note.kept
        processed += 1
        if note.logged:
            sides[mine, LOGGED] += 1
            log[0, logged], log[1, logged], log[2, logged] = row[at], mine, ts
            log[3, logged], log[4, logged], log[5, logged] = note.horizon, note.time, note.edge
            logged += 1
        if not can_join:
            sides[mine, UNUSABLE] += 1
        left_edge = max(left_edge, min(time, holds[0, index]) - window)
        right_edge = max(right_edge, min(time, holds[1, index]) - window)
        left, right = max(left, left_edge - left_slack), max(right, right_edge - right_slack)
    sides[0, HORIZON], sides[1, HORIZON], sides[0, EDGE], sides[1, EDGE] = left, right, left_edge, right_edge
    state[KEPT_SINCE] += kept
    state[PROCESSED] += processed
    return logged


@njit(cache=True)
def hold_for_silent(watch: Any, sides: Any, state: Any) -> None:
    """Hold each side's rows for the other side's silent sources."""
    sides[0, HOLD], sides[1, HOLD] = look(watch, state[TIME], sides[:, SLACK].copy())


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
