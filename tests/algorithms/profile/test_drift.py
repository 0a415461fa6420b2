"""Drift of a column beside the index of its values themselves."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.profile.drift import LEAST, shares_of_numbers, shares_of_values
from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import Summary

VALUES = st.lists(st.integers(-50, 50), min_size=1, max_size=300)


def _summary(values: list[int]) -> Summary:
    numbers = np.array(values, np.float64)
    return Summary.of(0, numbers.view(np.int64), numbers)


def _index(before: list[int], new: list[int], bounds: list[float]) -> float:
    ends = [-np.inf, *bounds, np.inf]
    total = 0.0
    for low, high in pairwise(ends):
        p, q = (max(sum(low < v <= high for v in each) / len(each), LEAST) for each in (before, new))
        total += (q - p) * log(q / p)
    return total


@given(VALUES, VALUES)
def test_tenths_of_summaries_give_the_index_of_the_values(before: list[int], new: list[int]) -> None:
    ordered = sorted(before)
    bounds = sorted({float(ordered[int(np.rint(k / 10 * (len(ordered) - 1)))]) for k in range(1, 10)})

    shares = shares_of_numbers(_summary(before), _summary(new))

    assert np.isclose(shares.index, _index(before, new, bounds))
    assert shares.index >= 0
    assert len(shares.names) == len(bounds) + 1


def test_equal_days_are_not_apart_and_others_are_named_by_their_worst_bin() -> None:
    same = _summary(list(range(1000)))
    assert shares_of_numbers(same, same).index == 0
    far = shares_of_numbers(same, _summary([5000] * 900 + list(range(100))))
    assert far.names[far.worst] == "above 899"


def test_values_of_keys_are_compared_by_their_counts() -> None:
    before, new = Frequent({"a": 90, "b": 10}), Frequent({"a": 45, "c": 55})
    shares = shares_of_values((before, 100), (new, 100))
    assert list(shares.names) == ["a", "b", "others"]
    assert shares.new.tolist() == [0.45, 0, 0.55]
    assert shares.names[shares.worst] == "others"
