from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.audit import audit, periods_with_pairs

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
@given(
    online=TIMES,
    repaired=TIMES,
    gap=st.integers(0, 200),
    steps=st.integers(1, 5),
    step=st.integers(1, 9),
)
def test_counts_by_slot_give_the_periods_that_have_pairs(
    online: np.ndarray, repaired: np.ndarray, gap: int, steps: int, step: int
) -> None:
    online, repaired = (np.concatenate([times, times[::2] + gap]) for times in (online, repaired))
    slots, place = np.unique(np.concatenate([online, repaired]) // step, return_inverse=True)
    pairs = np.bincount(place, minlength=len(slots))
    found = np.bincount(place[: len(online)], minlength=len(slots))

    periods = periods_with_pairs(slots, pairs, found, steps * step, step)

    whole = audit(online, repaired, steps * step, step)
    kept = whole.pairs > 0
    assert periods.start_us.tolist() == whole.start_us[kept].tolist()
    assert periods.pairs.tolist() == whole.pairs[kept].tolist()
    assert periods.online.tolist() == whole.online[kept].tolist()


def test_a_silence_of_ages_costs_nothing() -> None:
    slots = np.array([0, 10**15])

    periods = periods_with_pairs(slots, np.array([3, 4]), np.array([3, 1]), 20, 10)

    assert periods.start_us.tolist() == [0, 10**16 - 10]
    assert periods.online.tolist() == [3, 1]
