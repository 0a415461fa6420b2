from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.chain import ChainScheduling, chart_slopes, envelope_slopes
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.test_network import TWO_STREAMS
from tests.algorithms.scheduling.workloads import filters, measured

OPERATORS = st.lists(
    st.tuples(st.sampled_from([0.5, 1.0, 2.0, 5.0]), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0, 1.5])),
    min_size=1,
    max_size=6,
)


def test_a_slow_shedder_before_a_fast_one_has_its_slope() -> None:
    """Costs 1 and 1, S = 0.9 and then 0: one straight line from 1 to 0 over 1.9."""
    slopes = chart_slopes(np.array([1.0, 1.0]), np.array([0.9, 0.0]))

    assert slopes.tolist() == pytest.approx([1 / 1.9, 1 / 1.9])


def test_a_fast_shedder_before_a_slow_one_is_a_piece_of_its_own() -> None:
    """Costs 1 and 1, S = 0.2: falls to 0.2 within 1, then to 0 within 0.2."""
    slopes = chart_slopes(np.array([1.0, 10.0]), np.array([0.2, 0.5]))

    assert slopes.tolist() == pytest.approx([0.8, 0.2 / 2.0])


def test_what_nothing_reaches_goes_with_the_operator_before_it() -> None:
    assert chart_slopes(np.array([1.0, 4.0]), np.array([0.0, 0.3])).tolist() == [1.0, 1.0]


def brute_envelope(seconds: Any, passed: Any) -> list[float]:
    """By position, the slope of the lower hull above it, point by point."""
    left, done = [1.0], [0.0]
    for cost, share in zip(seconds, [*passed[:-1], 0.0], strict=True):
        done.append(done[-1] + left[-1] * cost)
        left.append(left[-1] * share)
    slopes, at = [], 0
    while at < len(seconds):
        falls = [((left[at] - left[to]) / (done[to] - done[at]), to) for to in range(at + 1, len(left))]
        best, to = max(falls)
        slopes += [best] * (to - at)
        at = to
    return slopes


@given(each=OPERATORS)
def test_the_slopes_are_those_of_the_lower_hull_and_only_descend(each: list[tuple[float, float]]) -> None:
    seconds, passed = np.array(each).T

    slopes = chart_slopes(seconds, passed)

    assert slopes.tolist() == pytest.approx(brute_envelope(seconds, passed))
    assert (np.diff(slopes) <= 1e-9).all()


def test_of_two_operators_on_one_line_the_older_tuple_goes_first() -> None:
    network = filters(2)
    known = measured(network, [1], [1000, 1000], [0.9, 0.0])

    plan = ChainScheduling().plan(network, known, first_plan(network))

    assert plan.priority[0] == plan.priority[1]
    assert plan.order.tolist() == [0, 1]


def test_above_a_join_the_charts_of_both_streams_are_averaged_by_flow() -> None:
    """R: 300 a second, chart 1 -> 0.5 -> 0 over 1, 0.5 and 1 ms; S: 100 a second."""
    known = measured(
        TWO_STREAMS,
        [300, 100],
        [1000, 1000, 1000, (1000, 1000), 1000],
        [0.5, 1.0, 0.5, (1.0, 1.0), 1.0],
    )
    left = chart_slopes(np.full(3, 0.001), np.array([0.5, 1.0, 1.0]))
    right = chart_slopes(np.full(4, 0.001), np.array([1.0, 0.5, 1.0, 1.0]))

    slopes = envelope_slopes(TWO_STREAMS, known, np.arange(5))

    assert slopes[0] == pytest.approx(left[0])
    assert slopes[1:3].tolist() == pytest.approx(right[:2].tolist())
    assert slopes[3] == pytest.approx((300 * left[1] + 100 * right[2]) / 400)
