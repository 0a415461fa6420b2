"""Compiled loops of the watch over sources: who has fallen silent, and how far back its rows may begin.

A source is heard at stream time T when a row of it comes. It is *silent* when it has not been heard for longer than
``GAPS`` of its usual gaps and the slack beside, until it is heard again and a share of the silence has passed, in which
what it held back comes. It is gone, and forgotten, when it has not been heard for a set time. A source of which most
of the last silences held nothing back, so that no row in that share was late, is not waited for until one does.

Slots are found by hash among ``PROBED`` neighbours; where all are taken the source that was heard longest ago makes
room. A look at all sources of a side is due after as many rows as a ``ROWS_A_LOOK``-th of them: a row costs O(1). It
is left out while it cannot find what the last one did not: before any source may have fallen silent, stopped sending
what it held back, or gone, and while the slack is the same. So most rows cost a few nanoseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import NO_SOURCE, NO_TIME

SOURCE = np.dtype(
    [
        ("id", np.int64),
        ("heard", np.int64),
        ("reached", np.int64),
        ("until", np.int64),
        ("gap", np.float64),
        ("seen", np.int64),
        ("backlog", np.float64),
    ],
    align=True,
)
# Settings, as `settings` has them: usual gaps that make a silence, rows of a source before it is judged,
# the share of a silence in which its rows may still come, stream time after which a source is gone.
GAPS, SEEN, DRAIN, GONE = range(4)
# Columns of `totals`, one row per side: sources known, rows since the last look.
KNOWN, SINCE = range(2)
# Fields of `looks`: from which stream time on a look may find something new, and with which slacks the last one was
# made. They only save looks, so snapshots lack them.
DUE, LEFT_SLACK, RIGHT_SLACK = range(3)
PROBED = 8
ROWS_A_LOOK = 16
FAR_AHEAD = 2**61
# A silence takes one of so many parts of a source's backlog, rows held back make it 1; below a share nobody waits.
WAITED_FOR, SILENCES = 0.3, 4


@njit(cache=True)
def watch_rows(
    rows: Any, start: int, stop: int, watch: Any, slacks: Any, refused: Any, times: Any, holds: Any
) -> None:
    """Note the sources of rows, and write into ``holds`` what each side holds for silent ones behind each row.

    Args:
        rows: side, event time and source of each.
        start: the first one to note.
        stop: the one behind the last.
        watch: as ``watch_of`` makes it.
        slacks: of both sides.
        refused: rows that are passed over.
        times: the stream time behind each row, from place 1.
        holds: by side, as ``look`` returns it, from place 0, which tells what is held before the first row.
    """
    side, event, source = rows
    records, listed, totals, settings, looks = watch
    gaps, judged, drain, gone = settings
    left, right, due = holds[0, 0], holds[1, 0], looks[DUE]
    if slacks[0] != looks[LEFT_SLACK] or slacks[1] != looks[RIGHT_SLACK]:
        due = NO_TIME
    for at in range(start, stop):
        index = at - start + 1
        sent, time, mine = source[at], times[index], np.int64(side[at])
        if not (refused[at] or sent == NO_SOURCE or time == NO_TIME):
            slot = _home_of(sent, records.shape[1])
            if records[mine, slot].id != sent or records[mine, slot].seen == 0:
                slot = _slot_of(records, listed, totals, mine, sent)
            known, slack = records[mine, slot], slacks[1 - mine]
            if known.seen == 0 or known.id != sent:
                due = min(due, _begin(known, sent, event[at], time))
            elif _hear(known, event[at], time, slack, gaps, judged, drain):
                due = NO_TIME
            due = min(due, _next_change(known, slack, gaps, judged, gone))
            totals[mine, SINCE] += 1
            if totals[mine, SINCE] * ROWS_A_LOOK >= totals[mine, KNOWN]:
                totals[0, SINCE], totals[1, SINCE] = 0, 0
                if time >= due:
                    left, right = look(watch, time, slacks)
                    due = looks[DUE]
        holds[0, index], holds[1, index] = left, right
    looks[DUE] = due


@njit(cache=True)
def _begin(known: Any, source: int, event: int, time: int) -> Any:
    """Note the first row of a source; return when a look is due because another one has made room."""
    due = NO_TIME if known.seen > 0 else FAR_AHEAD
    known.id, known.heard, known.reached, known.until = source, time, event, NO_TIME
    known.gap, known.seen, known.backlog = 0.0, 1, 1.0
    return due


@njit(cache=True)
def _hear(known: Any, event: int, time: int, slack: int, gaps: float, judged: float, drain: float) -> Any:
    """Note a row of a source that is known; tell if it changes whether rows are held for that source."""
    silence, seen, until, is_changed = time - known.heard, known.seen, known.until, False
    limit, gap = gaps * known.gap + slack, float(silence)
    if seen >= judged and silence > limit:
        # A silence counts as a long gap.
        until, gap, is_changed = time + np.int64(drain * silence), limit, True
        known.until = until
        known.backlog -= known.backlog / SILENCES
    if time >= until:
        known.reached = max(known.reached, event)
    elif time - event > limit:
        # Late beyond the silence's threshold: it was held back, though a fresh row may have come before it.
        is_changed |= known.backlog <= WAITED_FOR
        known.backlog = 1.0
    # The mean of the first rows, then of about the last sixteen.
    share = 1.0 / seen if seen < 16 else 1.0 / 16
    known.gap += share * (gap - known.gap)
    known.heard, known.seen = time, seen + 1
    return is_changed


@njit(cache=True)
def _next_change(known: Any, slack: int, gaps: float, judged: float, gone: float) -> Any:
    """Return the stream time at which a source falls silent or is gone, if it is not heard before."""
    lasts = gone
    if known.seen >= judged:
        lasts = min(lasts, gaps * known.gap + slack)
    return known.heard + np.int64(lasts)


@njit(cache=True)
def look(watch: Any, time: int, slacks: Any) -> Any:
    """Return, for each side, the event time that the silent source of the other side reached which reached least.

    ``FAR_AHEAD`` where none is silent. Forgets sources that are gone, and notes when the next look is due.
    """
    _, _, totals, _, looks = watch
    right, due = _look(watch, 0, time, slacks[1])
    left, due_too = _look(watch, 1, time, slacks[0])
    totals[0, SINCE], totals[1, SINCE] = 0, 0
    looks[DUE], looks[LEFT_SLACK], looks[RIGHT_SLACK] = min(due, due_too), slacks[0], slacks[1]
    return left, right


@njit(cache=True)
def _look(watch: Any, side: int, time: int, slack: int) -> Any:
    """Return the least event time that a silent source of a side reached, and from when on that may change."""
    records, listed, totals, settings, _ = watch
    gaps, judged, _, gone = settings
    hold, due, at = FAR_AHEAD, FAR_AHEAD, 0
    while at < totals[side, KNOWN]:
        known = records[side, listed[side, at]]
        silence = time - known.heard
        if silence > gone:
            known.seen = 0
            totals[side, KNOWN] -= 1
            listed[side, at] = listed[side, totals[side, KNOWN]]
            continue
        is_silent = known.seen >= judged and silence > gaps * known.gap + slack
        if known.backlog > WAITED_FOR and (is_silent or time < known.until):
            hold = min(hold, known.reached)
        if time < known.until:
            due = min(due, known.until)
        due = min(
            due, known.heard + np.int64(gone) if is_silent else _next_change(known, slack, gaps, judged, gone)
        )
        at += 1
    return hold, due


@njit(cache=True)
def _home_of(source: int, slots: int) -> Any:
    return np.int64((np.uint64(source) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (slots - 1)


@njit(cache=True)
def _slot_of(records: Any, listed: Any, totals: Any, side: Any, source: int) -> Any:
    """Return the slot of a source, or the one that it may take."""
    slots = records.shape[1]
    home = _home_of(source, slots)
    free, oldest = -1, home
    for step in range(PROBED):
        slot = (home + step) & (slots - 1)
        if records[side, slot].seen == 0:
            if free < 0:
                free = slot
        elif records[side, slot].id == source:
            return slot
        elif records[side, slot].heard < records[side, oldest].heard:
            oldest = slot
    if free < 0:
        return oldest
    listed[side, totals[side, KNOWN]] = free
    totals[side, KNOWN] += 1
    return free
