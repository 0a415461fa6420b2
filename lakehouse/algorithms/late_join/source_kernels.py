"""Compiled loops of the watch over sources: who has fallen silent, and how far back its rows may begin.

A source is heard at stream time T when a row of it comes. It is *silent* when it has not been heard for longer than
``GAPS`` of its usual gaps and the slack beside, until it is heard again and a share of the silence has passed, in which
what it held back comes. It is gone, and forgotten, when it has not been heard for a set time. A source of which most
of the last silences held nothing back, so that no row in that share was late, is not waited for until one does.

Slots are found by hash among ``PROBED`` neighbours; where all are taken the source that was heard longest ago makes
room. A look at all sources of a side is due after as many rows as a ``ROWS_A_LOOK``-th of them: a row costs O(1).
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
PROBED = 8
ROWS_A_LOOK = 16
FAR_AHEAD = 2**61
# A silence takes one of so many parts of a source's backlog, rows held back make it 1; below a share nobody waits.
WAITED_FOR, SILENCES = 0.3, 4


@njit(cache=True)
def hear(watch: Any, side: int, source: int, event: int, time: int, slack: int) -> Any:
    """Note a row of a source at stream time ``time``; tell if it is time to look.

    ``slack`` is that of the other side, which holds rows for this one's.
    """
    records, listed, totals, settings = watch
    if source == NO_SOURCE or time == NO_TIME:
        return False
    slot = _slot_of(records, listed, totals, side, source)
    known = records[side, slot]
    if known.seen == 0 or known.id != source:
        known.id, known.heard, known.reached, known.until = source, time, event, NO_TIME
        known.gap, known.seen, known.backlog = 0.0, 1, 1.0
    else:
        silence = time - known.heard
        limit = settings[GAPS] * known.gap + slack
        if known.seen >= settings[SEEN] and silence > limit:
            known.until = time + np.int64(settings[DRAIN] * silence)
            known.backlog -= known.backlog / SILENCES
        if time < known.until and time - event > limit:
            # Late beyond the silence's threshold: it was held back, though a fresh row may have come before it.
            known.backlog = 1.0
        if time >= known.until:
            known.reached = max(known.reached, event)
        # The mean of the first rows, then of about the last sixteen; a silence counts as a long gap.
        share = max(1.0 / known.seen, 1.0 / 16)
        gap = min(float(silence), limit) if known.seen >= settings[SEEN] else float(silence)
        known.gap += share * (gap - known.gap)
        known.heard = time
        known.seen += 1
    totals[side, SINCE] += 1
    return totals[side, SINCE] * ROWS_A_LOOK >= totals[side, KNOWN]


@njit(cache=True)
def look(watch: Any, side: int, time: int, slack: int) -> Any:
    """Return the event time that the silent source reached which reached least, ``FAR_AHEAD`` where none is silent."""
    records, listed, totals, settings = watch
    hold, at = FAR_AHEAD, 0
    totals[side, SINCE] = 0
    while at < totals[side, KNOWN]:
        known = records[side, listed[side, at]]
        silence = time - known.heard
        if silence > settings[GONE]:
            known.seen = 0
            totals[side, KNOWN] -= 1
            listed[side, at] = listed[side, totals[side, KNOWN]]
            continue
        is_silent = known.seen >= settings[SEEN] and silence > settings[GAPS] * known.gap + slack
        if known.backlog > WAITED_FOR and (is_silent or time < known.until):
            hold = min(hold, known.reached)
        at += 1
    return hold


@njit(cache=True)
def _slot_of(records: Any, listed: Any, totals: Any, side: int, source: int) -> Any:
    """Return the slot of a source, or the one that it may take."""
    slots = records.shape[1]
    home = np.int64((np.uint64(source) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)) & (slots - 1)
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
