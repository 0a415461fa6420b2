"""Joins of many streams batch by batch, with all results known beforehand: which of them each batch would find.

A yardstick of slacks: rows, their batches and all results are given; what a batch finds follows from times alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakehouse.algorithms.late_join.contract import Bools, Int64s
from lakehouse.algorithms.late_join.policy_by_stream import StreamSlack, held_us
from lakehouse.algorithms.multiway_join.joining import Joined, results_on_route


@dataclass(frozen=True)
class Batched:
    """Rows by stream: event times and batches, numbered from 0; ``results``: places of their rows, one a line."""

    event_us: Sequence[Int64s]
    batch: Sequence[Int64s]
    windows_us: tuple[int, ...]
    results: Int64s

    @classmethod
    def of(
        cls,
        event_us: Sequence[Int64s],
        batch: Sequence[Int64s],
        keys: Sequence[Int64s],
        windows_us: tuple[int, ...],
    ) -> Batched:
        """Return the join of all rows whose keys are equal, as a join without any time finds it."""
        sides = [
            Joined(key, event, np.ones(len(key), np.bool_), window)
            for key, event, window in zip(keys, event_us, windows_us, strict=True)
        ]
        return cls(event_us, batch, windows_us, results_with_new(sides, 10**7))

    @property
    def times_us(self) -> Int64s:
        """The event time of each row of each result."""
        return np.column_stack([each[self.results[:, side]] for side, each in enumerate(self.event_us)])

    @property
    def batches(self) -> Int64s:
        """The batch of each row of each result."""
        return np.column_stack([each[self.results[:, side]] for side, each in enumerate(self.batch)])


@dataclass(frozen=True)
class Found:
    """Results that were found at once; by batch the time before it, the slack of each stream, and the rows held."""

    online: Bools
    time_us: Int64s
    slack_us: Int64s
    held: Int64s


def join(rows: Batched, slacks: tuple[int, ...] | StreamSlack, repair_every: int = 10**9) -> Found:
    """Join batch by batch under slacks that never change, or those of a policy, which repairs tell what was missed."""
    policy = slacks if isinstance(slacks, StreamSlack) else None
    times, batches = rows.times_us, rows.batches
    newest, windows = batches.max(axis=1), np.array(rows.windows_us)
    last = max(int(each.max()) for each in rows.batch)
    online, figures, missed = np.ones(len(times), np.bool_), [], []
    newest_us = np.full(len(windows), -(2**61))
    for batch in range(last + 1):
        time_us = int(newest_us.min())
        is_timed = time_us > -(2**61)
        held_for: tuple[int, ...] = (0,) * len(windows) if isinstance(slacks, StreamSlack) else slacks
        if policy is not None and is_timed:
            held_for = held_us(policy.latest_us(time_us))
        horizons = time_us - np.array(held_for) - windows
        held = sum(
            int(np.count_nonzero((own < batch) & (event >= horizon)))
            for own, event, horizon in zip(rows.batch, rows.event_us, horizons, strict=True)
        )
        figures.append((time_us, held, *held_for))
        if is_timed:
            own = np.flatnonzero(newest == batch)
            is_new = batches[own] == batch
            needs = np.where(is_new, -1, time_us - windows - times[own])
            online[own] = (needs <= np.array(held_for)).all(axis=1)
            if policy is not None:
                stream = is_new.shape[1] - 1 - np.argmax(is_new[:, ::-1], axis=1)
                needed, is_found = needs.max(axis=1, initial=-1), online[own]
                missed.append(_learn(policy, rows, batch, time_us, held_for, stream, needed, is_found))
                if (batch + 1) % repair_every == 0:
                    policy.replace(time_us, np.concatenate(missed))
        for side, (own, event) in enumerate(zip(rows.batch, rows.event_us, strict=True)):
            newest_us[side] = max(newest_us[side], event[own == batch].max(initial=-(2**61)))
    time, held_rows, *slack = np.array(figures, np.int64).T
    return Found(online, time, np.array(slack).T, held_rows)


def _learn(
    policy: StreamSlack,
    rows: Batched,
    batch: int,
    time_us: int,
    held_for: tuple[int, ...],
    stream: Int64s,
    needed: Int64s,
    is_found: Bools,
) -> Int64s:
    """Let a policy learn from a batch; return what a repair would tell of it."""
    results, lags = (np.zeros((len(rows.batch), len(policy.grid) + 1), np.int64) for _ in range(2))
    np.add.at(results, (stream[is_found], np.searchsorted(policy.grid, needed[is_found], "right")), 1)
    for side, (own, event) in enumerate(zip(rows.batch, rows.event_us, strict=True)):
        np.add.at(lags[side], np.searchsorted(policy.grid, time_us - event[own == batch], "right"), 1)
    policy.learn(time_us, held_for, results, lags)
    missed = np.flatnonzero(~is_found)
    nothing, at = np.zeros(len(missed), np.int64), np.full(len(missed), time_us)
    return policy.count_missed(stream[missed], nothing, at, needed[missed])


def results_with_new(sides: Sequence[Joined], most: int) -> Int64s:
    """Return the results that have a new row, one a line: the place of its row in each side."""
    found = []
    for last, side in enumerate(sides):
        order = [stop for stop in range(len(sides)) if stop != last]
        found.append(results_on_route(sides, last, np.flatnonzero(side.is_new), order, most)[0])
    return np.concatenate(found)
