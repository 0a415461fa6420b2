from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.repair import LEAST_ROOM, missing_pairs
from tests.algorithms.late_join.streams import CONDITIONS, WINDOW, batches
from tests.oracles.late_join.nested_loop import NestedLoop, as_set

ROWS = Batch.of([0, 1, 0, 1], [10, 12, 30, 11], row=[5, 6, 7, 8], key=[1, 1, 1, 1])


@settings(max_examples=60, deadline=None)
@given(
    batch=batches(),
    condition=st.sampled_from(sorted(CONDITIONS)),
    horizon=st.integers(-30, 50),
    every=st.sampled_from([1, 2, 7, 20]),
)
def test_repair_finds_what_its_definition_says(
    batch: Batch, condition: str, horizon: int, every: int
) -> None:
    logged = np.arange(0, len(batch), every)

    found = missing_pairs(CONDITIONS[condition], WINDOW, batch, logged, np.full(len(logged), horizon))

    yardstick = NestedLoop(CONDITIONS[condition], WINDOW)
    yardstick.process(batch)
    rows = yardstick._rows
    assert sorted(zip(found.left.tolist(), found.right.tolist(), strict=True)) == sorted(
        (rows[at][2], other[2]) if rows[at][0] == 0 else (other[2], rows[at][2])
        for at in logged.tolist()
        for other in rows[:at]
        if yardstick.joins(rows[at], other) and other[1] <= horizon
    )


def test_a_partner_at_the_logged_horizon_is_missing_and_one_above_it_is_not() -> None:
    found = [missing_pairs(Equality(), 5, ROWS, np.array([3]), np.array([horizon])) for horizon in (10, 9)]

    assert [as_set(each) for each in found] == [{(5, 8)}, set()]


def test_a_partner_processed_later_is_left_to_its_own_log() -> None:
    assert len(missing_pairs(Equality(), 5, ROWS, np.array([0]), np.array([100]))) == 0


@pytest.mark.slow
def test_more_pairs_than_room_are_found_in_several_calls() -> None:
    rng = np.random.default_rng(4)
    batch = Batch.of(rng.integers(0, 2, 4000), rng.permutation(4000), key=rng.integers(0, 5, 4000))

    found = missing_pairs(Equality(), 100, batch, np.arange(4000), np.full(4000, 4000))

    yardstick = NestedLoop(Equality(), 100)
    assert len(found) > 2 * LEAST_ROOM
    assert as_set(found) == as_set(yardstick.process(batch).pairs)


def test_repaired_pairs_say_so_and_tell_their_wait() -> None:
    pairs = missing_pairs(Equality(), 5, ROWS, np.array([3]), np.array([10]), np.array([77]))

    assert (pairs.wait_us.tolist(), pairs.event_us.tolist()) == ([77], [11])


def test_an_empty_log_misses_nothing() -> None:
    none = np.empty(0, np.int64)

    assert len(missing_pairs(Equality(), 5, ROWS, none, none)) == 0


def test_a_horizon_short_is_refused() -> None:
    with pytest.raises(ValueError, match="one horizon per logged row"):
        missing_pairs(Equality(), 5, ROWS, np.array([1, 2]), np.array([1]))
