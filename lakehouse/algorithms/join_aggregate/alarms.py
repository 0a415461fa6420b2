"""Alarms: for how long a group of a HAVING query has been alarming, kept under one name while late rows move its times.

An alarm is a longest run of consecutive ticks at which HAVING holds for a group: raised at the first, cleared at the
first tick after the last. Revised answers lengthen, shorten, split, join or undo runs; ``followed`` tells which alarm
each run continues. Pure arrays; cost O((alarms + ticks) log (alarms + ticks)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s

# What clears an alarm that still holds.
OPEN_US = 2**62


@dataclass(frozen=True)
class Runs:
    """Runs of alarming ticks, sorted by group and time: ``group``, ``raised_us``, ``cleared_us`` or OPEN_US, int64."""

    group: Int64s
    raised_us: Int64s
    cleared_us: Int64s

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True)
class Followed:
    """Today's runs, and what became of the alarms known before.

    ``alarm``: per run the position of the alarm that it continues, -1 for a new one. ``run``: per alarm the position of
    the run that has its time now; -1 where nothing is left of it. An alarm whose run continues another was merged.
    """

    runs: Runs
    alarm: Int64s
    run: Int64s


def followed(
    alarms: Runs, group: Int64s, tick_us: Int64s, from_us: int, last_us: int, every_us: int
) -> Followed:
    """Return today's runs of every group that has an alarm or an alarming tick, and whom they continue.

    ``alarms`` are those known before that are not cleared before ``from_us``, sorted by group and time. ``group`` and
    ``tick_us`` say where HAVING holds now, at ticks from ``from_us`` to ``last_us``, the last tick answered, each once;
    before that time nothing has changed. A run continues the earliest of the alarms whose first time of what is left is
    in it. Times are whole multiples of ``every_us``.
    """
    scale = _Scale.over(alarms, group, from_us, last_us, every_us)
    starts, ends = scale.place(alarms.group, alarms.raised_us), scale.place(alarms.group, alarms.cleared_us)
    since = scale.place(alarms.group, np.full(len(alarms), from_us))
    is_before = starts < since
    kept = starts[is_before], np.minimum(ends, since)[is_before]
    first, last = _united(*kept, np.sort(scale.place(group, tick_us)))
    runs = scale.runs(first, last)
    run = np.searchsorted(last, starts, side="right")
    is_left = run < len(first)
    is_left[is_left] = first[run[is_left]] < ends[is_left]
    run[~is_left] = -1
    alarm = np.full(len(first), -1, np.int64)
    claimed, earliest = np.unique(run, return_index=True)
    alarm[claimed[claimed >= 0]] = earliest[claimed >= 0]
    return Followed(runs, alarm, run.astype(np.int64))


def _united(starts: Int64s, ends: Int64s, ticks: Int64s) -> tuple[Int64s, Int64s]:
    """Return first and end of each longest run in some intervals and ticks, the end not counted in."""
    low = np.concatenate([starts, ticks])
    high = np.concatenate([ends, ticks + 1])
    order = np.argsort(low, kind="stable")
    low, reached = low[order], np.maximum.accumulate(high[order])
    is_first = np.ones(len(low), np.bool_)
    is_first[1:] = low[1:] > reached[:-1]
    at = np.flatnonzero(is_first)
    return low[at], reached[np.append(at[1:], len(low))[: len(at)] - 1]


@dataclass(frozen=True)
class _Scale:
    """Groups and ticks as one line of whole numbers: the ticks of a group side by side, groups never touching."""

    groups: Int64s
    origin_us: int
    last_us: int
    every_us: int

    @classmethod
    def over(cls, alarms: Runs, group: Int64s, from_us: int, last_us: int, every_us: int) -> _Scale:
        groups = np.unique(np.concatenate([alarms.group, group]))
        return cls(groups, min([from_us, *alarms.raised_us.tolist()]), last_us, every_us)

    @property
    def _width(self) -> int:
        return (self.last_us - self.origin_us) // self.every_us + 3

    def place(self, group: Int64s, time_us: Int64s) -> Int64s:
        """Return the places of some times; those after the last tick have the place behind it."""
        tick = (np.minimum(time_us, self.last_us + self.every_us) - self.origin_us) // self.every_us
        places: Int64s = np.searchsorted(self.groups, group).astype(np.int64) * self._width + tick
        return places

    def runs(self, first: Int64s, end: Int64s) -> Runs:
        """Return the runs between some places."""
        raised = first % self._width * self.every_us + self.origin_us
        cleared = end % self._width * self.every_us + self.origin_us
        return Runs(
            self.groups[first // self._width], raised, np.where(cleared > self.last_us, OPEN_US, cleared)
        )
