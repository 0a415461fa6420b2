from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.audit import Waiting, periods_of_steps
from tests.oracles.late_join.audit import audit

if TYPE_CHECKING:
    from lakehouse.algorithms.late_join.contract import Int64s

TIMES = st.lists(st.integers(-50, 50), max_size=60).map(lambda times: np.array(times, np.int64))


@settings(deadline=None)
@given(online=TIMES, repaired=TIMES, steps=st.integers(1, 5), step=st.integers(1, 9))
def test_each_period_counts_the_pairs_inside_it(
    online: np.ndarray, repaired: np.ndarray, steps: int, step: int
) -> None:
    periods = audit(online, repaired, steps * step, step)

    for start, pairs, found in zip(periods.start_us, periods.pairs, periods.online, strict=True):
        end = start + steps * step
        assert found == np.count_nonzero((online >= start) & (online < end))
        assert pairs - found == np.count_nonzero((repaired >= start) & (repaired < end))
    assert len(periods.start_us) > 0 or len(online) + len(repaired) == 0


def test_a_period_with_few_pairs_is_reported_and_not_scored() -> None:
    online = np.concatenate([np.zeros(99), np.full(100, 10)]).astype(np.int64)

    periods = audit(online, np.full(1, 10), 10, 10)

    assert periods.is_scored.tolist() == [False, True]
    assert periods.recall.tolist() == [1.0, 100 / 101]
    assert (periods.met(0.99), periods.met(0.995)) == ((1, 1), (0, 1))


def test_a_period_reached_exactly_is_met() -> None:
    assert audit(np.zeros(95, np.int64), np.zeros(5, np.int64), 10, 10).met(0.95) == (1, 1)


def test_a_stream_shorter_than_a_period_is_one_period() -> None:
    periods = audit(np.array([1, 2, 12]), np.array([11]), 100, 10)

    assert (periods.pairs.tolist(), periods.online.tolist()) == ([4], [3])


def test_the_span_may_be_longer_than_the_pairs() -> None:
    assert len(audit(np.array([50]), np.array([60]), 20, 10, span_us=(0, 100)).start_us) == 9


def test_a_step_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of the step"):
        audit(np.empty(0, np.int64), np.empty(0, np.int64), 10, 3)


@settings(deadline=None)
@given(online=TIMES, repaired=TIMES, steps=st.integers(1, 5), step=st.integers(1, 9))
def test_periods_of_steps_are_those_of_the_audit_that_have_any(
    online: Int64s, repaired: Int64s, steps: int, step: int
) -> None:
    ends = np.concatenate([online, repaired])
    at, place = np.unique(ends // step * step, return_inverse=True)
    found = np.bincount(place[: len(online)], minlength=len(at))
    whole = audit(online, repaired, steps * step, step)

    some = periods_of_steps(at, np.bincount(place, minlength=len(at)), found, steps * step, step)

    for name in ("start_us", "pairs", "online"):
        assert getattr(some, name).tolist() == getattr(whole, name)[whole.pairs > 0].tolist()


def test_a_gap_of_years_costs_nothing() -> None:
    year = 365 * 86_400_000_000
    at = np.array([0, 50 * year, 100 * year], np.int64)

    periods = periods_of_steps(at, np.array([1, 2, 3]), np.array([1, 0, 0]), 60_000_000, 1_000_000)

    # The first and the last period end where the pairs do; 60 hold what lies between.
    assert periods.pairs.tolist() == [1] + [2] * 60 + [3]
    assert periods.recall.tolist() == [1.0] + [0.0] * 61


# Event time, and how far the horizon reaches into the window: a row beyond the horizon is not logged.
LOGGED = st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 30)), max_size=8)


def waiting(logged: list[tuple[int, int]], window: int) -> Waiting:
    event, into = np.array(logged, np.int64).reshape(-1, 2).T
    return Waiting.of(event, event - window + into, window)


def pair_times(logged: tuple[int, int], window: int) -> set[int]:
    """Return the time of every pair that a row logged with this time and horizon can have missed."""
    event, into = logged
    partners = range(event - window, event + min(into - window, window) + 1)
    return {max(event, partner) for partner in partners}


@settings(deadline=None)
@given(
    logged=LOGGED,
    window=st.integers(0, 9),
    starts=st.lists(st.integers(-50, 50)).map(lambda starts: np.array(starts, np.int64)),
    length=st.integers(1, 9),
)
def test_a_row_is_open_in_every_period_that_a_pair_it_missed_can_lie_in_and_in_no_other(
    logged: list[tuple[int, int]], window: int, starts: Int64s, length: int
) -> None:
    counted = waiting(logged, window).inside(starts, length)

    for start, rows in zip(starts.tolist(), counted.tolist(), strict=True):
        inside = range(start, start + length)
        assert rows == sum(any(time in inside for time in pair_times(row, window)) for row in logged)


@settings(deadline=None)
@given(logged=LOGGED, window=st.integers(0, 9), step=st.integers(1, 9), since=st.integers(-40, 40))
def test_open_steps_are_those_that_hold_the_time_of_a_pair_that_may_be_missing(
    logged: list[tuple[int, int]], window: int, step: int, since: int
) -> None:
    found = waiting(logged, window)

    times = {time for row in logged for time in pair_times(row, window)}

    assert found.steps(step).tolist() == sorted({time // step * step for time in times})
    later = sorted({time // step * step for time in times if time >= since})
    assert found.since(since).steps(step).tolist() == later


def test_open_steps_of_a_row_today_and_one_of_a_hundred_years_ago_are_two() -> None:
    long_ago = -100 * 365 * 86_400_000_000

    assert waiting([(5, 1), (long_ago, 3)], 10).steps(10).tolist() == [long_ago, 0]
