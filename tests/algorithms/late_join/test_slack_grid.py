from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.slack_grid import bin_of, quotient, slack_grid


@settings(deadline=None)
@given(granularity=st.integers(1, 10**6), needed=st.integers(-(10**9), 10**14))
def test_the_slack_of_a_bin_is_the_least_that_covers_its_need(granularity: int, needed: int) -> None:
    grid = slack_grid(granularity)

    found = bin_of(grid, needed, 1 / granularity)

    assert found == int(np.argmax(grid > needed) if needed >= 0 else 0) or needed >= grid[-1]
    assert found == len(grid) or (grid[found] > needed and (found == 0 or grid[found - 1] <= needed))


@settings(deadline=None)
@given(dividend=st.integers(-(2**61), 2**61) | st.integers(-(10**7), 10**7), divisor=st.integers(1, 2**45))
def test_a_quotient_by_a_product_is_the_quotient(dividend: int, divisor: int) -> None:
    for near in (dividend, dividend - dividend % divisor, dividend - dividend % divisor - 1):
        assert quotient(near, divisor, 1 / divisor) == near // divisor


def test_slacks_are_multiples_and_grow_by_about_a_twelfth() -> None:
    grid = slack_grid(10_000)

    assert np.all(grid % 10_000 == 0)
    assert grid[:3].tolist() == [0, 10_000, 20_000]
    assert np.all(np.diff(grid)[70:] / grid[70:-1] < 0.1)
    assert len(grid) < 350


def test_no_granularity_is_refused() -> None:
    with pytest.raises(ValueError, match="granularity"):
        slack_grid(0)
