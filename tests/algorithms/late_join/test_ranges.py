from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.ranges import covering_ranges

spans = st.lists(st.tuples(st.integers(-40, 40), st.integers(0, 6)), min_size=1, max_size=9)


def _covered(ranges: list[tuple[int, int]]) -> set[int]:
    return {time for low, high in ranges for time in range(low, high + 1)}


@given(spans, st.integers(1, 5))
def test_few_ranges_hold_every_span_and_as_little_else_as_so_few_can(
    spans: list[tuple[int, int]], most: int
) -> None:
    wanted = [(first, first + length) for first, length in spans]

    found = covering_ranges(np.array([a for a, _ in wanted]), np.array([b for _, b in wanted]), most)

    assert 1 <= len(found) <= most
    assert all(before[1] < after[0] for before, after in pairwise(found))
    assert _covered(found) >= _covered(wanted)
    assert len(_covered(found)) <= _least(_covered(wanted), most)


def _least(times: set[int], most: int) -> int:
    """Return how many times the best choice of ranges covers, by trying all: it begins and ends at wanted times."""
    ordered = sorted(times)
    cuts = range(1, len(ordered))
    tried = [
        sum(
            ordered[b - 1] - ordered[a] + 1
            for a, b in zip((0, *chosen), (*chosen, len(ordered)), strict=True)
        )
        for count in range(min(most - 1, 2) + 1)
        for chosen in combinations(cuts, count)
    ]
    return min(tried)


def test_what_is_no_range_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it begins"):
        covering_ranges(np.array([1]), np.array([0]), 1)
    assert covering_ranges(np.array([], np.int64), np.array([], np.int64), 3) == []
