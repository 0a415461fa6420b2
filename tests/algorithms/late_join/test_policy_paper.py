from __future__ import annotations

import numpy as np
import pytest

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.policy_paper import PaperSlack, Reading, step_target, window_rows
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.slack_grid import slack_grid
from tests.algorithms.late_join.test_policy_needed_slack import late_stream

SECOND = 1_000_000


def joined(recall: float, reading: Reading = "history", rows: int = 4000) -> QJoin:
    join = QJoin(Equality(), SECOND, PaperSlack(recall, 8 * SECOND, reading=reading))
    join.process(late_stream(rows))
    return join


def test_the_target_makes_up_for_what_the_period_lacks() -> None:
    produced = np.array([0.0, 90.0, 90.0, 100.0])

    assert step_target(0.9, produced, 100.0) == pytest.approx(0.8)


@pytest.mark.parametrize(("produced", "target"), [(0.0, 1.0), (50.0, 0.5), (300.0, 0.0)])
def test_the_target_stays_within_0_and_1(produced: float, target: float) -> None:
    assert step_target(0.5, np.array([0.0, produced]), 100.0) == pytest.approx(target)


def test_a_window_sums_its_basic_windows_by_the_rows_in_time() -> None:
    """Section 1.4.3, (7): w = 30 ms, b = 10 ms; half in time, a quarter each up to 10 and 20 ms late."""
    grid, delays = slack_grid(10_000), np.zeros(400)
    delays[:3] = [2, 1, 1]

    rows = window_rows(delays, grid, 1000.0, 30_000, 10_000, np.array([0.0, 20_000.0]))

    assert rows.tolist() == [5 + 7.5 + 10, 5 + 7.5 + 30]


@pytest.mark.parametrize("reading", ["history", "recent"])
def test_until_the_first_period_has_passed_the_largest_delay_is_the_slack(reading: Reading) -> None:
    join = joined(0.5, reading, rows=700)

    assert min(join.slacks_us) > SECOND


def test_afterwards_a_lower_recall_needs_less() -> None:
    assert sum(joined(0.3).slacks_us) < sum(joined(0.999).slacks_us)


def test_the_recent_largest_delay_is_at_most_that_of_the_history() -> None:
    assert sum(joined(0.999, "recent").slacks_us) <= sum(joined(0.999, "history").slacks_us)


def test_the_model_promises_all_at_the_largest_delay() -> None:
    join = joined(0.9)
    policy = join.policy
    assert isinstance(policy, PaperSlack)
    policy._by_delay[:] = 1.0

    recall, pairs = policy.promised(np.array([5, 9]), 1.0)

    assert recall.shape == (6, 10)
    assert recall[-1, -1] == 1.0
    assert pairs > 0


def test_a_step_that_does_not_divide_the_period_is_refused() -> None:
    with pytest.raises(ValueError, match="divides the period"):
        PaperSlack(0.9, 10, 3)
