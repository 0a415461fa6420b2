"""Aggregates whose ticks wait, batch by batch, with all rows known beforehand: which answers are complete at once.

A yardstick of slacks: an answer is of a tick and a group with a row of each side in its window. It is complete if no
row of a later batch than the one that answers its tick is among these: that follows from times alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack

_NEVER = 2**61


@dataclass(frozen=True)
class Ticked:
    """Rows with their answers: event time, batch from 0 and side of each row; ``answer``, ``by``: of which batches.

    ``tick_us``: of each answer; ``since``: the first batch by which each side has a row. ``answer`` ascends, and in it
    ``by``.
    """

    event_us: Int64s
    batch: Int64s
    side: Int64s
    every_us: int
    tick_us: Int64s
    since: Int64s
    answer: Int64s
    by: Int64s

    @classmethod
    def of(
        cls, event_us: Int64s, batch: Int64s, side: Int64s, group: Int64s, window_us: int, every_us: int
    ) -> Ticked:
        """Return the rows with all answers that they come to."""
        first, last = -(-event_us // every_us), (event_us + window_us) // every_us
        counts = np.maximum(last - first + 1, 0)
        row = np.repeat(np.arange(len(event_us)), counts)
        tick = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        _, answer = np.unique(np.column_stack([tick, group[row]]), axis=0, return_inverse=True)
        answer = answer.ravel()
        began = np.full((answer.max() + 1, int(side.max()) + 1), _NEVER)
        np.minimum.at(began, (answer, side[row]), batch[row])
        is_whole: Bools = np.all(began < _NEVER, axis=1)
        kept = is_whole[answer]
        number = np.cumsum(is_whole) - 1
        answer, by, tick = number[answer[kept]], batch[row][kept], tick[kept]
        tick_us = np.zeros(int(is_whole.sum()), np.int64)
        tick_us[answer] = tick * every_us
        order = np.lexsort((by, answer))
        return cls(
            event_us, batch, side, every_us, tick_us, began[is_whole].max(axis=1), answer[order], by[order]
        )

    @property
    def ends(self) -> Int64s:
        """Where each answer ends in ``answer``."""
        return np.searchsorted(self.answer, np.arange(len(self.tick_us)), "right")

    def last_by(self, answers: Int64s, batch: int) -> Int64s:
        """Return the last batch up to one that has a row of each of some answers; all of them have one."""
        key = self.answer * (int(self.by.max()) + 2) + self.by
        at = np.searchsorted(key, answers * (int(self.by.max()) + 2) + batch, "right") - 1
        return self.by[at]


@dataclass(frozen=True)
class Complete:
    """Answers by tick: which are answered, and complete at once; by batch, the time before it and its slack."""

    is_answered: Bools
    online: Bools
    time_us: Int64s
    slack_us: Int64s


def answered(rows: Ticked, slack: int | StreamSlack, repair_every: int = 10**9) -> Complete:
    """Answer batch by batch under a slack that never changes, or that of a policy, told by repairs what was missed."""
    return _Run(rows, slack, repair_every).complete()


class _Run:
    def __init__(self, rows: Ticked, slack: int | StreamSlack, repair_every: int) -> None:
        self.rows, self.slack, self.repair_every = rows, slack, repair_every
        self.policy = slack if isinstance(slack, StreamSlack) else None
        self.passed_us = _passed(rows)
        self.by = np.full(len(rows.tick_us), -1)
        self.needed = np.full(len(rows.tick_us), -2)
        self.missed: list[Int64s] = [np.zeros((0, 4), np.int64)]
        self.last = rows.by[rows.ends - 1]
        self.order = np.argsort(rows.tick_us, kind="stable")

    def complete(self) -> Complete:
        rows, until_us, done, slacks = self.rows, -_NEVER, 0, []
        ticks = rows.tick_us[self.order]
        for batch in range(len(self.passed_us) - 1):
            before_us, after_us = (int(time) for time in self.passed_us[batch : batch + 2])
            slack_us = self.chosen(before_us)
            slacks.append(slack_us)
            if after_us > -_NEVER:
                until_us = max(until_us, after_us - slack_us)
            end = int(np.searchsorted(ticks, until_us, "right"))
            new, done = self.order[done:end], max(done, end)
            self.by[new] = batch
            if self.policy is not None and before_us > -_NEVER:
                self.learn(batch, before_us, slack_us, new)
                if (batch + 1) % self.repair_every == 0:
                    self.repair(batch)
        is_answered = self.by >= 0
        return Complete(
            is_answered, is_answered & (self.last <= self.by), self.passed_us[:-1], np.array(slacks)
        )

    def chosen(self, before_us: int) -> int:
        if self.policy is None:
            return int(self.slack) if not isinstance(self.slack, StreamSlack) else 0
        return 0 if before_us <= -_NEVER else self.policy.latest_us(before_us)[0]

    def learn(self, batch: int, before_us: int, slack_us: int, new: Int64s) -> None:
        assert self.policy is not None
        rows, grid = self.rows, self.policy.grid
        results, lags = np.zeros((2, 1, len(grid) + 1), np.int64)
        known = new[rows.since[new] <= batch]
        self.needed[known] = self.needs(known, batch)
        np.add.at(results[0], np.searchsorted(grid, self.needed[known], "right"), 1)
        own = -(-rows.event_us[rows.batch == batch] // rows.every_us) * rows.every_us
        np.add.at(lags[0], np.searchsorted(grid, before_us - own, "right"), 1)
        self.policy.learn(before_us, (slack_us,), results, lags)

    def needs(self, answers: Int64s, batch: int) -> Int64s:
        came_us = self.passed_us[self.rows.last_by(answers, batch)]
        needed: Int64s = np.maximum(came_us - self.rows.tick_us[answers], -1)
        return needed

    def repair(self, batch: int) -> None:
        assert self.policy is not None
        open_ = np.flatnonzero((self.by >= 0) & (self.last > self.by) & (self.rows.since <= batch))
        now = self.needs(open_, batch)
        moved = now != self.needed[open_]
        open_, now, was = open_[moved], now[moved], self.needed[open_][moved]
        at = now + self.rows.tick_us[open_]
        nothing = np.zeros(len(now), np.int64)
        self.missed.append(self.policy.count_missed(nothing, nothing, at, now))
        known = was >= -1
        less = self.policy.count_missed(nothing[known], nothing[known], at[known], was[known])
        self.missed.append(less * np.array([1, 1, 1, -1], np.int64))
        self.needed[open_] = now
        self.policy.replace(int(self.passed_us[batch + 1]), np.concatenate(self.missed))


def _passed(rows: Ticked) -> Int64s:
    """Return what all sides had passed before each batch, and after the last."""
    sides, last = int(rows.side.max()) + 1, int(rows.batch.max())
    newest = np.full((last + 2, sides), -_NEVER)
    np.maximum.at(newest, (rows.batch + 1, rows.side), rows.event_us)
    passed: Int64s = np.maximum.accumulate(newest).min(axis=1)
    return passed
