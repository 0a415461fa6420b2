"""Compiled loops of the watch over sources: who has fallen silent, and how far back its rows may begin.

A source is heard at stream time T when a row of it comes. It is *silent* when it has not been heard for longer than
``GAPS`` of its usual gaps and the slack beside, until it is heard again and a share of the silence has passed, in which
what it held back comes. It is gone, and forgotten, when it has not been heard for a set time.

A silence *held rows back* if a row of it comes in that share behind it, older than the silence's end by more than made
it one. Whether to wait for a source is learnt from that:

- not for one of which most of the last silences held nothing back, until one does;
- of one that has never held rows back, not while few of the silences of its side's sources do. A silence that lasts
  longer than it is waited for counts as one that held nothing back, so nobody waits for sources that come and go;
- for ``LONGER`` times the longest silence of its side that held rows back, and ``FIRST`` at least.

Silent sources of one side are not waited for either while all of them together send no more than the share ``SPARED``
of the rows and find no more than that share of the pairs: what they hold back may be missed. What each source sends
and finds between two choices of slack is made known to looks at the choice, so where batches end leaves no trace.

Slots are found by hash among ``PROBED`` neighbours; a source that finds all of them taken is not watched. A look at all
sources of a side is due after as many rows as a ``ROWS_A_LOOK``-th of them: a row costs O(1). It
is left out while it cannot find what the last one did not: before any source may have fallen silent, stopped sending
what it held back, or gone, and while the slack is the same. So most rows cost a few nanoseconds.
"""

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
        ("ended", np.int64),
        ("bursts", np.int64),
        ("given_up", np.int64),
        ("rows", np.int64),
        ("pairs", np.int64),
        ("sent", np.float64),
        ("found", np.float64),
    ],
    align=True,
)
# Settings, as `settings` has them: usual gaps that make a silence, rows of a source before it is judged,
# the share of a silence in which its rows may still come, stream time after which a source is gone; the share of
# rows and pairs that silent sources may have without being waited for, which each choice of slack sets; and how long
# a silence is waited for before any has held rows back.
GAPS, SEEN, DRAIN, GONE, SPARED, FIRST = range(6)
# Columns of `silences`, one row per side: the share of the last silences that held rows back, and the longest that did.
SHARE, LONGEST = range(2)
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
# One silence is one of so many parts of what is known of all of a side; a wait lasts so many times the longest.
POOLED, LONGER = 8, 4
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
    records, listed, totals, settings, silences, looks = watch
    gaps, judged, drain, gone = settings[GAPS], settings[SEEN], settings[DRAIN], settings[GONE]
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
            if slot != NO_SLOT:
                known, slack = records[mine, slot], slacks[1 - mine]
                if known.seen == 0:
                    _begin(known, sent, event[at], time)
                elif _hear(known, event[at], time, slack, gaps, judged, drain, silences[mine]):
                    due = NO_TIME
                due = min(due, _next_change(known, slack, gaps, judged, gone))
                known.rows += 1
            slots[index - 1] = slot
            totals[mine, SINCE] += 1
            if totals[mine, SINCE] * ROWS_A_LOOK >= totals[mine, KNOWN]:
                totals[0, SINCE], totals[1, SINCE] = 0, 0
                if time >= due:
                    left, right = look(watch, time, slacks)
                    due = looks[DUE]
        holds[0, index], holds[1, index] = left, right
    looks[DUE] = due


@njit(cache=True)
def _begin(known: Any, source: int, event: int, time: int) -> None:
    """Note the first row of a source."""
    known.id, known.heard, known.reached, known.until, known.ended = source, time, event, NO_TIME, NO_TIME
    known.gap, known.seen, known.backlog, known.bursts, known.given_up = 0.0, 1, 1.0, 0, 0
    known.rows, known.pairs, known.sent, known.found = 0, 0, 0.0, 0.0


@njit(cache=True)
def _hear(
    known: Any, event: int, time: int, slack: int, gaps: float, judged: float, drain: float, silences: Any
) -> Any:
    """Note a row of a source that is known; tell if it changes whether rows are held for silent sources."""
    silence, seen, until, is_changed = time - known.heard, known.seen, known.until, False
    limit, gap = gaps * known.gap + slack, float(silence)
    if seen >= judged and silence > limit:
        # A silence counts as a long gap.
        until, gap, is_changed = time + np.int64(drain * silence), limit, True
        known.until, known.ended = until, time
        known.backlog -= known.backlog / SILENCES
        _note_silence(known, silences)
    if time >= until:
        known.reached = max(known.reached, event)
    elif known.reached < event < known.ended - limit:
        is_changed |= _note_held_back(known, event, silences)
    # The mean of the first rows, then of about the last sixteen.
    share = 1.0 / seen if seen < 16 else 1.0 / 16
    known.gap += share * (gap - known.gap)
    known.heard, known.seen, known.given_up = time, seen + 1, 0
    return is_changed


@njit(cache=True)
def _note_silence(known: Any, silences: Any) -> None:
    """Count a source's silence, once, as one that held nothing back; its first late row corrects that."""
    if not known.given_up:
        silences[SHARE] -= silences[SHARE] / POOLED
    known.given_up = 1


@njit(cache=True)
def _note_held_back(known: Any, event: int, silences: Any) -> Any:
    """Note a row of a source's last silence; tell if it is the first or the oldest one."""
    is_first, lasted = known.backlog < 1.0, float(known.ended - event)
    if is_first:
        known.backlog = 1.0
        known.bursts += 1
        silences[SHARE] += 1.0 / POOLED
    is_longest = lasted > silences[LONGEST]
    silences[LONGEST] = max(silences[LONGEST], lasted)
    return is_first or is_longest


@njit(cache=True)
def _next_change(known: Any, slack: int, gaps: float, judged: float, gone: float) -> Any:
    """Return the stream time at which a source falls silent or is gone, if it is not heard before."""
    lasts = gone
    if known.seen >= judged:
        lasts = min(lasts, gaps * known.gap + slack)
    return known.heard + np.int64(lasts)


@njit(cache=True)
def count_pairs(watch: Any, side: Any, start: int, stop: int, slots: Any, trace: Any) -> None:
    """Count the pairs that rows found for their sources; ``slots`` as ``watch_rows`` wrote them.

    A slot has one source for all of them: since the last row of one that is forgotten, a choice of slack has been due.
    """
    records = watch[0]
    for at in range(start, stop):
        slot = slots[at - start]
        if slot != NO_SLOT:
            records[np.int64(side[at]), slot].pairs += trace[at].matches


@njit(cache=True)
def make_known(watch: Any, spared: float) -> None:
    """Let looks know what sources sent and found since the last choice of slack, and the share that is spared."""
    records, listed, totals, settings, _, looks = watch
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
    _, _, totals, settings, _, looks = watch
    sent, found, due = _survey(watch, 0, time, slacks[1])
    sent_too, found_too, due_too = _survey(watch, 1, time, slacks[0])
    spared = settings[SPARED] * (sent + sent_too), settings[SPARED] * (found + found_too)
    right, left = _hold(watch, 0, time, slacks[1], spared), _hold(watch, 1, time, slacks[0], spared)
    totals[0, SINCE], totals[1, SINCE] = 0, 0
    looks[DUE], looks[LEFT_SLACK], looks[RIGHT_SLACK] = min(due, due_too), slacks[0], slacks[1]
    return left, right


@njit(cache=True)
def _survey(watch: Any, side: int, time: int, slack: int) -> Any:
    """Return what a side's sources send and find, and when other ones are waited for; forget those that are gone."""
    records, listed, totals, settings, silences, _ = watch
    gaps, judged, gone = settings[GAPS], settings[SEEN], settings[GONE]
    wait = _longest_wait(settings, silences[side])
    sent, found, due, at = 0.0, 0.0, FAR_AHEAD, 0
    while at < totals[side, KNOWN]:
        known = records[side, listed[side, at]]
        is_silent = _is_silent(known, time, slack, gaps, judged)
        if is_silent and time - known.heard > min(wait, gone):
            _note_silence(known, silences[side])
        if time - known.heard > gone:
            known.seen = 0
            totals[side, KNOWN] -= 1
            listed[side, at] = listed[side, totals[side, KNOWN]]
            continue
        sent, found = sent + known.sent, found + known.found
        if time < known.until:
            due = min(due, known.until)
        if is_silent:
            due = min(due, known.heard + np.int64(gone))
            if time - known.heard <= wait:
                due = min(due, known.heard + wait + 1)
        else:
            due = min(due, _next_change(known, slack, gaps, judged, gone))
        at += 1
    return sent, found, due


@njit(cache=True)
def _hold(watch: Any, side: int, time: int, slack: int, spared: Any) -> Any:
    """Return the least event time that a silent source of a side has reached, unless all together may be missed.

    ``spared``: rows and pairs that may. A source of which neither is known yet is waited for.
    """
    records, listed, totals, settings, silences, _ = watch
    gaps, judged, wait = settings[GAPS], settings[SEEN], _longest_wait(settings, silences[side])
    hold, sent, found, is_known = FAR_AHEAD, 0.0, 0.0, True
    for at in range(totals[side, KNOWN]):
        known = records[side, listed[side, at]]
        is_silent = time - known.heard <= wait and _is_silent(known, time, slack, gaps, judged)
        if (is_silent or time < known.until) and _holds_back(known, silences[side]):
            hold = min(hold, known.reached)
            sent, found, is_known = sent + known.sent, found + known.found, is_known and known.sent > 0.0
    return FAR_AHEAD if is_known and sent <= spared[0] and found <= spared[1] else hold


@njit(cache=True)
def _is_silent(known: Any, time: int, slack: int, gaps: float, judged: float) -> Any:
    return known.seen >= judged and time - known.heard > gaps * known.gap + slack


@njit(cache=True)
def _holds_back(known: Any, silences: Any) -> Any:
    """Tell if a source may hold rows back in a silence: it did, or nothing is known of it and many others do."""
    return known.backlog > WAITED_FOR and (known.bursts > 0 or silences[SHARE] > WAITED_FOR)


@njit(cache=True)
def _longest_wait(settings: Any, silences: Any) -> Any:
    """Return how long a silent source is waited for."""
    return np.int64(max(settings[FIRST], LONGER * silences[LONGEST]))


@njit(cache=True)
def _home_of(source: int, slots: int) -> Any:
    return np.int64((np.uint64(source) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (slots - 1)


@njit(cache=True)
def _slot_of(records: Any, listed: Any, totals: Any, side: Any, source: int) -> Any:
    """Return the slot of a source, or a free one that it takes; ``NO_SLOT`` where there is none."""
    slots = records.shape[1]
    home = _home_of(source, slots)
    free = NO_SLOT
    for step in range(PROBED):
        slot = (home + step) & (slots - 1)
        if records[side, slot].seen == 0:
            free = slot if free == NO_SLOT else free
        elif records[side, slot].id == source:
            return slot
    if free != NO_SLOT:
        listed[side, totals[side, KNOWN]] = free
        totals[side, KNOWN] += 1
    return free
