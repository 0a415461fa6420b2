"""Alarms follow their runs of alarming ticks however answers are revised."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.alarms import OPEN_US, Followed, Runs, followed

EVERY = 10
ALARMING = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 11)), max_size=24)
STEPS = st.lists(st.tuples(st.integers(0, 11), ALARMING), min_size=1, max_size=5)


def runs_of(held: set[tuple[int, int]], last: int) -> list[tuple[int, int, int]]:
    """Return (group, raised, cleared) of each longest run of ticks, the obvious way."""
    found = []
    for group, tick in sorted(held):
        if (group, tick - 1) in held:
            continue
        end = tick
        while (group, end) in held:
            end += 1
        found.append((group, tick * EVERY, OPEN_US if end > last else end * EVERY))
    return found


def as_runs(runs: list[tuple[int, int, int]]) -> Runs:
    """Return runs as columns."""
    columns = np.array(runs, np.int64).reshape(-1, 3).T
    return Runs(*columns)


def follow(alarms: Runs, held: set[tuple[int, int]], since: int, last: int) -> Followed:
    """Follow alarms through ticks that hold now."""
    now = sorted((group, tick) for group, tick in held if tick >= since)
    group, tick = np.array(now, np.int64).reshape(-1, 2).T
    return followed(alarms, group, tick * EVERY, since * EVERY, last * EVERY, EVERY)


def listed(runs: Runs) -> list[tuple[Any, ...]]:
    """Return runs as tuples."""
    return list(zip(runs.group.tolist(), runs.raised_us.tolist(), runs.cleared_us.tolist(), strict=True))


@settings(deadline=None)
@given(STEPS)
def test_runs_are_those_of_the_ticks_that_hold_after_any_revisions(steps: list[Any]) -> None:
    held: set[tuple[int, int]] = set()
    alarms, last = as_runs([]), -1
    for since, now in steps:
        since = min(since, last + 1)
        last = max(last, since, *(tick for _, tick in now), 0)
        held = {each for each in held if each[1] < since} | {each for each in now if each[1] >= since}
        kept = [run for run in listed(alarms) if run[2] >= since * EVERY]
        gone = [run for run in listed(alarms) if run[2] < since * EVERY]
        told = follow(as_runs(kept), held, since, last)
        alarms = as_runs(sorted(gone + listed(told.runs)))
        assert listed(alarms) == runs_of(held, last)


@settings(deadline=None)
@given(STEPS)
def test_every_alarm_is_continued_merged_or_gone(steps: list[Any]) -> None:
    held: set[tuple[int, int]] = set()
    for (_, before), (since, now) in pairwise([(0, set()), *steps]):
        held, last = before, 11
        alarms = as_runs([run for run in runs_of(held, last) if run[2] >= since * EVERY])
        after = {each for each in held if each[1] < since} | {each for each in now if each[1] >= since}
        told = follow(alarms, after, since, last)
        taken = told.alarm[told.alarm >= 0]
        assert len(set(taken.tolist())) == len(taken)
        for place, run in enumerate(told.run.tolist()):
            group, raised, cleared = listed(alarms)[place]
            left = [
                tick
                for tick in range(raised // EVERY, last + 1)
                if (group, tick) in after and tick * EVERY < cleared
            ]
            assert (run >= 0) == bool(left)
            if left:
                own = listed(told.runs)[run]
                assert own[0] == group and own[1] <= left[0] * EVERY < own[2]
                assert told.alarm[run] <= place


def test_an_alarm_keeps_its_place_while_late_rows_raise_it_earlier() -> None:
    told = follow(as_runs([(7, 50, OPEN_US)]), {(7, tick) for tick in (3, 4, 5, 6)}, 3, 6)
    assert listed(told.runs) == [(7, 30, OPEN_US)]
    assert told.alarm.tolist() == [0]


def test_two_alarms_whose_gap_late_rows_close_become_the_earlier_one() -> None:
    told = follow(as_runs([(1, 0, 20), (1, 40, 60)]), {(1, tick) for tick in range(2, 6)}, 2, 9)
    assert listed(told.runs) == [(1, 0, 60)]
    assert (told.alarm.tolist(), told.run.tolist()) == ([0], [0, 0])


def test_an_alarm_that_revised_answers_undo_is_gone() -> None:
    told = follow(as_runs([(1, 40, 60)]), set(), 3, 9)
    assert (len(told.runs), told.run.tolist()) == (0, [-1])


def test_an_open_alarm_is_cleared_when_a_tick_passes_without_an_answer() -> None:
    told = follow(as_runs([(1, 40, OPEN_US)]), set(), 6, 8)
    assert listed(told.runs) == [(1, 40, 60)]
