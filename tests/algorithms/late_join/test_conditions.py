from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Band, Comparison, Condition, Distance, Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.probing import Plan
from lakehouse.algorithms.late_join.qjoin import QJoin
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.nested_loop import NestedLoop

ANY = st.floats(allow_nan=True, allow_infinity=True)
REACH = st.sampled_from([0.0, 1e-100, 1e-3, 0.1, 1.0, 7.3, 1e9, 1e100])


def agree(condition: Condition, left: list[float], right: list[float]) -> bool:
    batch = Batch.of([0, 1], [0, 0], numbers=[left, right])
    found = len(QJoin(condition, 1, ConstantSlack(0, 0)).process(batch).pairs)

    assert found == len(NestedLoop(condition, 1).process(batch).pairs)
    return found == 1


@settings(max_examples=120, deadline=None)
@given(x=ANY, y=ANY, width=REACH)
@example(x=0.9999999999999999, y=1.9999999999999998, width=1.0)
@example(x=2.0**40 * 7.3, y=2.0**40 * 7.3 + 7.3, width=7.3)
def test_a_band_is_what_the_difference_says_wherever_its_cells_end(x: float, y: float, width: float) -> None:
    assert agree(Band(width), [x], [y]) == (np.isfinite([x, y]).all() and abs(x - y) <= width)


@settings(max_examples=120, deadline=None)
@given(x=ANY, share=st.floats(-1, 1), width=REACH)
def test_numbers_at_the_very_edge_of_a_band_are_met(x: float, share: float, width: float) -> None:
    agree(Band(width), [x], [x + share * width])
    agree(Distance(width), [x, x], [x + share * width, x])


@pytest.mark.parametrize("operator", ["<", "<=", "==", "!=", ">=", ">"])
@given(
    x=st.integers(-2, 2) | st.just(np.nan), y=st.integers(-2, 2) | st.just(np.nan), plus=st.integers(-1, 1)
)
@settings(max_examples=40, deadline=None)
def test_a_comparison_is_left_against_right_and_false_of_nan(
    operator: str, x: float, y: float, plus: int
) -> None:
    agree(Equality((Comparison(0, operator, 1, float(plus)),)), [x, 9.0], [7.0, y])


def test_cells_of_a_plan_are_one_three_or_nine() -> None:
    plans = [Plan.of(Equality()), Plan.of(Band(1.0)), Plan.of(Distance(1.0))]

    assert [len(plan.offsets) for plan in plans] == [1, 3, 9]
    assert [plan.columns for plan in plans] == [0, 1, 2]


@pytest.mark.parametrize("wrong", [Band(-1.0), Band(np.nan), Distance(1e200), Distance(1e-200)])
def test_a_reach_that_cannot_be_kept_exact_is_refused(wrong: Condition) -> None:
    with pytest.raises(ValueError, match="width or radius"):
        Plan.of(wrong)


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(ValueError, match="operators out of"):
        Plan.of(Equality((Comparison(0, "~", 0),)))
