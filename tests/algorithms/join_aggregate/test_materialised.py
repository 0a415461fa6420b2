from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from tests.algorithms.join_aggregate.streams import (
    ROUGH,
    Case,
    answers,
    answers_by_definition,
    assert_right,
    cases,
)
from tests.oracles.join_aggregate.contents import bytes_used
from tests.oracles.join_aggregate.materialised import Materialised


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(case=cases())
def test_the_yardstick_answers_by_definition(case: Case) -> None:
    found = answers(Materialised(case.shape), case.calls)

    assert_right(case.shape, found, answers_by_definition(case.shape, case.calls), bound=0.0)


@settings(max_examples=50, deadline=None)
@given(case=cases(values=ROUGH))
def test_sums_that_float64_would_lose_are_kept(case: Case) -> None:
    found = answers(Materialised(case.shape), case.calls)

    assert_right(case.shape, found, answers_by_definition(case.shape, case.calls), bound=2.0**-104)


def test_a_rest_that_rounds_to_a_tie_is_below_the_digits_of_high() -> None:
    """The rest was rounded to half of high's last digit, and high + low was then another number than high."""
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 0, 0),))
    values = np.array([[1 + 2.0**-52, -(2.0**-53), 2.0**-200, 0.0]]).T
    rows = Rows.of([0, 0, 0, 1], np.zeros(4), np.full(4, 9), np.zeros(4), values=values)

    found = Materialised(shape).advance(rows, np.array([5]))

    assert (found.high + found.low).tolist() == found.high.tolist()
    assert abs(Fraction(found.high.item()) + Fraction(found.low.item()) - 1 - Fraction(2) ** -53) < 2.0**-105


@pytest.mark.slow
def test_most_random_streams_have_results() -> None:
    found = []

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(case=cases())
    def note(case: Case) -> None:
        found.append(len(answers(Materialised(case.shape), case.calls)))

    note()

    assert sum(each > 0 for each in found) > 0.4 * len(found)


def test_memory_grows_with_the_results() -> None:
    few, many = (Materialised(Shape(((0,), (0,)), (False, False))) for _ in range(2))
    side, zero = [0] * 50 + [1] * 50, np.zeros(100)

    few.advance(Rows.of(side, zero, zero + 9, np.arange(100)), np.array([5]))
    many.advance(Rows.of(side, zero, zero + 9, np.zeros(100)), np.array([5]))

    # The places of a result's rows and when it leaves; room that waits for growth is not counted.
    assert bytes_used(many) - bytes_used(few) == 2500 * 3 * 8
