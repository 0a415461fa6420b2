from __future__ import annotations

import pytest

from tests.oracles.rollup.contract import AGGREGATES
from tests.oracles.rollup.recompute import Recompute


@pytest.fixture
def history() -> Recompute:
    rollup = Recompute()
    rollup.insert_batch([30, 10, 20, 20], [3.0, 1.0, -2.0, 8.0])
    return rollup


def test_each_aggregate_over_all_rows(history: Recompute) -> None:
    answers = [history.query(0, 100, aggregate).value for aggregate in AGGREGATES]

    assert answers == [10.0, 4.0, 2.5, -2.0, 8.0]


def test_a_range_holds_its_start_and_not_its_end(history: Recompute) -> None:
    assert history.query(10, 30, "count").value == 3.0
    assert history.query(11, 31, "count").value == 3.0


def test_an_answer_is_a_point_and_exact(history: Recompute) -> None:
    answer = history.query(10, 21, "sum")

    assert (answer.low, answer.value, answer.high, answer.exact) == (7.0, 7.0, 7.0, True)
    assert (answer.rows_low, answer.rows, answer.rows_high) == (3, 3.0, 3)


def test_a_sum_is_rounded_once() -> None:
    rollup = Recompute()
    rollup.insert_batch([1, 2, 3], [1e16, 1.0, -1e16])

    assert rollup.query(0, 4, "sum").value == 1.0


def test_the_mean_of_equal_values_is_that_value() -> None:
    """The rounded sum of three 0.1 divided by three is above each of them."""
    rollup = Recompute()
    rollup.insert_batch([1, 2, 3], [0.1, 0.1, 0.1])

    assert rollup.query(0, 4, "avg").value == 0.1


def test_check_finds_a_row_newer_than_the_newest(history: Recompute) -> None:
    history._newest_us = 15

    with pytest.raises(AssertionError, match="newer than the newest"):
        history.check()
