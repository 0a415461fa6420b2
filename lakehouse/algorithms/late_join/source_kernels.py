"""Compiled loops of the watch over sources: who has fallen silent, and how far back its rows may begin.

A source is heard at stream time T when a row of it comes. It is *silent* when it has not been heard for longer than
``GAPS`` of its usual gaps and the slack beside, until it is heard again and a share of the silence has passed, in which
what it held back comes. It is gone, and forgotten, when it has not been heard for a set time. A source of which most
of the last silences held nothing back, so that no row in that share was late, is not waited for until one does.

Silent sources of one side are not waited for either while all of them together send no more than the share ``SPARED``
of the rows and find no more than that share of the pairs: what they hold back may be missed. What each source sends
and finds between two choices of slack is made known to looks at the choice, so where batches end leaves no trace.

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
        ("rows", np.int64),
        ("pairs", np.int64),
        ("sent", np.float64),
        ("found", np.float64),
    ],
    align=True,
)
# Settings, as `settings` has them: usual gaps that make a silence, rows of a source before it is judged,
# the share of a silence in which its rows may still come, stream time after which a source is gone; and the share of
# rows and pairs that silent sources may have without being waited for, which each choice of slack sets.
GAPS, SEEN, DRAIN, GONE, SPARED = range(5)
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
# Rows and pairs of a source between two choices are the most of such times, which loses this share from each to the
# next in which the source is heard: a silence that begins early in one leaves few rows in it.
KEPT = 0.9
NO_SLOT = -1


@njit(cache=True)
def watch_rows(
    rows: Any, start: int, stop: int, watch: Any, slacks: Any, refused: Any, times: Any, out: Any
) -> None:
    """Note the sources of rows, and write into ``out`` what each side holds for silent ones behind each row.

    Args:
        rows: side, event time and source of each.
        start: the first one to note.
        stop: the one behind the last.
        watch: as ``watch_of`` makes it.
        slacks: of both sides.
        refused: rows that are passed over.
        times: the stream time behind each row, from place 1.
        out: by side, what ``look`` returns, from place 0, which tells what is held before the first row; and the slot
            of each row's source, as ``count_pairs`` takes it.
    """
    side, event, source = rows
    records, listed, totals, settings, looks = watch
    gaps, judged, drain, gone, _ = settings
    holds, slots = out
    left, right, due = holds[0, 0], holds[1, 0], looks[DUE]
    if slacks[0] != looks[LEFT_SLACK] or slacks[1] != looks[RIGHT_SLACK]:
        due = NO_TIME
    for at in range(start, stop):
        index = at - start + 1
        slots[index - 1] = NO_SLOT
        sent, time, mine = source[at], times[index], np.int64(side[at])
        if not (refused[at] or sent == NO_SOURCE or time == NO_TIME):
            slot = _home_of(sent, records.shape[1])
            if records[mine, slot].id != sent or records[mine, slot].seen == 0:
                slot = _slot_of(records, listed, totals, mine, sent)
            known, slack = records[mine, slot], slacks[1 - mine]
            if known.seen == 0 or known.id != sent:
                due = min(due, _begin(known, sent, event[at], time))
                _forget_pairs(slots, side, start, at, mine, slot)
            elif _hear(known, event[at], time, slack, gaps, judged, drain):
                due = NO_TIME
            due = min(due, _next_change(known, slack, gaps, judged, gone))
            slots[index - 1] = slot
            known.rows += 1
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
    known.rows, known.pairs, known.sent, known.found = 0, 0, 0.0, 0.0
    return due


@njit(cache=True)
def _forget_pairs(slots: Any, side: Any, start: int, at: int, mine: Any, slot: int) -> None:
    """Leave out the pairs, not counted yet, of rows whose source another one follows in its slot."""
    for earlier in range(start, at):
        if slots[earlier - start] == slot and side[earlier] == mine:
            slots[earlier - start] = NO_SLOT


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
def count_pairs(watch: Any, side: Any, start: int, stop: int, slots: Any, trace: Any) -> None:
    """Count the pairs that rows found for their sources; ``slots`` as ``watch_rows`` wrote them."""
    records = watch[0]
    for at in range(start, stop):
        slot = slots[at - start]
        if slot != NO_SLOT:
            records[np.int64(side[at]), slot].pairs += trace[at].matches


@njit(cache=True)
def make_known(watch: Any, spared: float) -> None:
    """Let looks know what sources sent and found since the last choice of slack, and the share that is spared."""
    records, listed, totals, settings, looks = watch
    settings[SPARED], looks[DUE] = spared, NO_TIME
    for side in range(2):
        for at in range(totals[side, KNOWN]):
            known = records[side, listed[side, at]]
            if known.rows > 0:
                known.sent = max(float(known.rows), KEPT * known.sent)
                known.found = max(float(known.pairs), KEPT * known.found)
                known.rows, known.pairs = 0, 0


@njit(cache=True)
def look(watch: Any, time: int, slacks: Any) -> Any:
    """Return, for each side, the least event time that a silent source of the other side has reached.

    ``FAR_AHEAD`` where none is silent, or those that are may be missed. Forgets sources that are gone, and notes when
    the next look is due.
    """
    _, _, totals, settings, looks = watch
    sent, found, due = _survey(watch, 0, time, slacks[1])
    sent_too, found_too, due_too = _survey(watch, 1, time, slacks[0])
    spared = settings[SPARED] * (sent + sent_too), settings[SPARED] * (found + found_too)
    right, left = _hold(watch, 0, time, slacks[1], spared), _hold(watch, 1, time, slacks[0], spared)
    totals[0, SINCE], totals[1, SINCE] = 0, 0
    looks[DUE], looks[LEFT_SLACK], looks[RIGHT_SLACK] = min(due, due_too), slacks[0], slacks[1]
    return left, right


@njit(cache=True)
def _survey(watch: Any, side: int, time: int, slack: int) -> Any:
    """Return what a side's sources send and find, and when other ones are silent; forget those that are gone."""
    records, listed, totals, settings, _ = watch
    gaps, judged, _, gone, _ = settings
    sent, found, due, at = 0.0, 0.0, FAR_AHEAD, 0
    while at < totals[side, KNOWN]:
        known = records[side, listed[side, at]]
        if time - known.heard > gone:
            known.seen = 0
            totals[side, KNOWN] -= 1
            listed[side, at] = listed[side, totals[side, KNOWN]]
            continue
        sent, found = sent + known.sent, found + known.found
        if time < known.until:
            due = min(due, known.until)
        is_silent = _is_silent(known, time, slack, gaps, judged)
        due = min(
            due, known.heard + np.int64(gone) if is_silent else _next_change(known, slack, gaps, judged, gone)
        )
        at += 1
    return sent, found, due


@njit(cache=True)
def _hold(watch: Any, side: int, time: int, slack: int, spared: Any) -> Any:
    """Return the least event time that a silent source of a side has reached, unless all together may be missed.

    ``spared``: rows and pairs that may. A source of which neither is known yet is waited for.
    """
    records, listed, totals, settings, _ = watch
    gaps, judged = settings[GAPS], settings[SEEN]
    hold, sent, found, is_known = FAR_AHEAD, 0.0, 0.0, True
    for at in range(totals[side, KNOWN]):
        known = records[side, listed[side, at]]
        if known.backlog > WAITED_FOR and (
            _is_silent(known, time, slack, gaps, judged) or time < known.until
        ):
            hold = min(hold, known.reached)
            sent, found, is_known = sent + known.sent, found + known.found, is_known and known.sent > 0.0
    return FAR_AHEAD if is_known and sent <= spared[0] and found <= spared[1] else hold


@njit(cache=True)
def _is_silent(known: Any, time: int, slack: int, gaps: float, judged: float) -> Any:
    return known.seen >= judged and time - known.heard > gaps * known.gap + slack


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
