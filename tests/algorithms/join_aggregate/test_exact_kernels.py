from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import LIMB_BITS
from lakehouse.algorithms.join_aggregate.kernels.digits import add_number, places, shown

FINITE = st.floats(allow_nan=False, allow_infinity=False)
FLOATS = FINITE | st.sampled_from([5e-324, -5e-324, 2.0**1023, 1e16, -1e16, 1.0, -1.0, 2.0**-1022])
EDGES = [0, 1, 2**42 - 1, 2**42, 2**63, 2**84 - 1, 2**84, 10**38 - 1]
WHOLE = st.integers(-(10**38) + 1, 10**38 - 1) | st.sampled_from([*EDGES, *(-each for each in EDGES)])
thorough = settings(max_examples=300, deadline=None)


def in_limbs(number: int) -> list[float]:
    low, rest = abs(number) % 2**LIMB_BITS, abs(number) >> LIMB_BITS
    limbs = low, rest % 2**LIMB_BITS, rest >> LIMB_BITS
    return [math.copysign(float(limb), number) for limb in limbs]


class Sum:
    """A sum of numbers in digits."""

    def __init__(self, values: list[list[float]]) -> None:
        self.values = np.array(values, np.float64).reshape(len(values), -1)
        self.limbs, reach = self.values.shape[1], np.zeros(2, np.int64)
        places(self.values, np.zeros(len(values), np.int8), np.array([[0, 0, self.limbs]]), reach)
        self.lowest, self.digits = int(reach[0]), int(reach[1] - reach[0]) + 2
        self.table = np.zeros((1, self.digits), np.int64)

    def add(self, at: int, sign: int = 1) -> None:
        add_number(self.table, 0, 0, self.digits, self.lowest, self.values, at, 0, self.limbs, sign)

    @property
    def shown(self) -> Any:
        return shown(self.table, 0, 0, self.digits, self.lowest, self.limbs)


def added(values: list[list[float]]) -> Sum:
    total = Sum(values)
    for at in range(len(values)):
        total.add(at)
    return total


@thorough
@given(values=st.lists(FLOATS, min_size=1, max_size=12))
@example(values=[2.0**32, -1.0])
@example(values=[-(2.0**-1074)])
@example(values=[1e308, 5e-324, -1e308])
@example(values=[1.7976931348623157e308] * 3)
def test_a_sum_of_doubles_is_exact_to_two_floats(values: list[float]) -> None:
    high, low, power = added([[value] for value in values]).shown

    unit = 1 if math.isnan(power) else 2 ** int(power)
    total = sum(map(Fraction, values), Fraction(0))
    assert abs((Fraction(high) + Fraction(low)) * unit - total) <= Fraction(2) ** -104 * abs(total)
    assert high + low == high


@thorough
@given(values=st.lists(WHOLE, min_size=1, max_size=12))
def test_a_sum_of_whole_numbers_is_exact(values: list[int]) -> None:
    middle, low, high = map(int, added([in_limbs(value) for value in values]).shown)

    assert low + (middle << LIMB_BITS) + (high << 2 * LIMB_BITS) == sum(values)
    assert len({math.copysign(1, limb) for limb in (middle, low, high) if limb}) <= 1


@thorough
@given(
    values=st.lists(FLOATS.map(lambda each: [each]), min_size=1, max_size=12)
    | st.lists(WHOLE.map(in_limbs), min_size=1, max_size=12),
    data=st.data(),
)
def test_what_is_taken_away_leaves_no_trace(values: list[list[float]], data: st.DataObject) -> None:
    total = added(values)

    for at in data.draw(st.permutations(range(len(values)))):
        total.add(at, -1)

    assert not total.table.any()


@thorough
@given(value=st.floats(-(2.0**960), 2.0**960, exclude_min=True, exclude_max=True))
def test_a_single_double_comes_back_as_it_was(value: float) -> None:
    high, low, power = added([[value]]).shown

    assert (high, low, math.isnan(power)) == (value, 0.0, True)
