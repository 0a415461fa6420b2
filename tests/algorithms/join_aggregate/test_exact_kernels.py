from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.kernels.exact import LIMBS, add, rounded, two_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = FINITE | st.sampled_from([5e-324, -5e-324, 2.0**1023, 1e16, -1e16, 1.0, -1.0, 2.0**-1022])
thorough = settings(max_examples=300, deadline=None)


@thorough
@given(values=st.lists(FLOATS, max_size=12))
@example(values=[2.0**32, -1.0])
@example(values=[-(2.0**-1074)])
@example(values=[1e308, 5e-324, -1e308])
def test_a_sum_is_exact_to_two_floats(values: list[float]) -> None:
    limbs = np.zeros(LIMBS, np.uint32)
    for value in values:
        add(limbs, value / 16)

    high, low = rounded(limbs)

    total = sum((Fraction(value / 16) for value in values), Fraction(0))
    assert abs(Fraction(high) + Fraction(low) - total) <= Fraction(2) ** -104 * abs(total)
    assert high + low == high


@thorough
@given(values=st.lists(FLOATS, max_size=12), data=st.data())
def test_what_is_taken_away_leaves_no_trace(values: list[float], data: st.DataObject) -> None:
    limbs = np.zeros(LIMBS, np.uint32)
    for value in values:
        add(limbs, value)

    for value in data.draw(st.permutations(values)):
        add(limbs, -value)

    assert not limbs.any()


@thorough
@given(value=FLOATS)
def test_a_single_value_comes_back_as_it_was(value: float) -> None:
    limbs = np.zeros(LIMBS, np.uint32)

    add(limbs, value)

    assert rounded(limbs) == (value, 0.0)


@thorough
@given(one=st.floats(-1e300, 1e300), other=st.floats(-1e300, 1e300))
def test_two_sum_loses_nothing(one: float, other: float) -> None:
    together, error = two_sum(one, other)

    assert Fraction(together) + Fraction(error) == Fraction(one) + Fraction(other)
