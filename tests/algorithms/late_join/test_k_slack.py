from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch
from tests.algorithms.late_join.streams import CONDITIONS, WINDOW, batches
from tests.algorithms.late_join.test_policy_needed_slack import late_stream
from tests.oracles.late_join.k_slack import KSlack, LargestDelay, RecallModel
from tests.oracles.late_join.nested_loop import NestedLoop, as_set

SECOND = 1_000_000


@pytest.mark.parametrize("condition", CONDITIONS)
@settings(max_examples=40, deadline=None)
@given(batch=batches())
def test_a_slack_that_covers_every_delay_finds_every_pair(condition: str, batch: Batch) -> None:
    join = KSlack(CONDITIONS[condition], WINDOW, LargestDelay(at_least_us=100, step_us=4))

    found = join.process(batch).pairs, join.flush().pairs

    truth = as_set(NestedLoop(CONDITIONS[condition], WINDOW).process(batch).pairs)
    assert as_set(found[0]) | as_set(found[1]) == truth
    assert len(found[0]) + len(found[1]) == len(truth)


@settings(max_examples=40, deadline=None)
@given(batch=batches(), slack=st.integers(30, 60))
def test_a_pair_waits_for_k_or_longer_unless_its_row_was_late(batch: Batch, slack: int) -> None:
    join = KSlack(Equality(), WINDOW, LargestDelay(at_least_us=slack, step_us=4))

    pairs = join.process(batch).pairs

    assert np.all((pairs.wait_us >= 0) & (pairs.wait_us <= slack + 30))


def test_a_row_leaves_when_time_is_k_ahead_and_not_before() -> None:
    join = KSlack(Equality(), 5, LargestDelay(at_least_us=10))
    join.process(Batch.of([0, 1, 0, 1], [0, 0, 10, 9], key=[1] * 4))
    before = join.held

    found = join.process(Batch.of([1], [10], row=[9], key=[1]))

    assert before == 4
    assert (len(found.pairs), found.pairs.wait_us.tolist()) == (1, [10])


def test_k_is_the_largest_delay_of_either_side_so_far() -> None:
    join = KSlack(Equality(), 5, LargestDelay())

    join.process(Batch.of([0, 0, 1, 1, 0], [10, 7, 50, 42, 11]))

    assert join.slack_us == 8


def test_the_model_holds_less_than_the_largest_delay_does() -> None:
    model, largest = (
        KSlack(Equality(), SECOND, waiting) for waiting in (RecallModel(0.7, 8 * SECOND), LargestDelay())
    )

    model.process(late_stream(8000))
    largest.process(late_stream(8000))

    assert model.held_over_time()[:, 1].mean() < 0.9 * largest.held_over_time()[:, 1].mean()


def test_modelled_recall_grows_with_k_to_one() -> None:
    model, delays = RecallModel(0.9, 8 * SECOND), np.zeros((2, 400))
    delays[:, :60] = np.arange(60, 0, -1)

    recall = model.modelled(delays, model.grid[:61], 1.0, SECOND)

    assert np.all(np.diff(recall) >= 0)
    assert recall[-1] == pytest.approx(1.0)


def test_check_finds_a_heap_out_of_order() -> None:
    join = KSlack(Equality(), 5, LargestDelay(at_least_us=100))
    join.process(Batch.of([0, 1, 0], [1, 2, 3]))
    join._heap[0, 0] = 9

    with pytest.raises(AssertionError, match="heap out of order"):
        join.check()
