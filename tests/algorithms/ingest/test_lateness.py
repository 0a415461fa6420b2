from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.lateness import BINS, measure
from tests.oracles.ingest.lateness_quantile import quantile_us

TIMES = st.lists(st.integers(-(10**12), 10**12), max_size=60)


def one_by_one(times: list[int], newest: int | None) -> list[int]:
    late = []
    for time in times:
        newest = time if newest is None else max(newest, time)
        if time < newest:
            late.append(newest - time)
    return late


@given(times=TIMES, newest=st.none() | st.integers(-(10**12), 10**12))
def test_lateness_equals_a_walk_over_the_rows(times: list[int], newest: int | None) -> None:
    expected = one_by_one(times, newest)

    found = measure(np.array(times, np.int64), newest)

    assert (found.late, found.max_us, sum(found.bins)) == (
        len(expected),
        max(expected, default=0),
        len(expected),
    )


@given(times=TIMES, cut=st.integers(0, 60))
def test_any_split_into_batches_gives_the_same_lateness(times: list[int], cut: int) -> None:
    whole = measure(np.array(times, np.int64), None)

    first = measure(np.array(times[:cut], np.int64), None)
    both = first + measure(np.array(times[cut:], np.int64), first.newest_us)

    assert both == whole


def test_bins_are_powers_of_two_of_milliseconds() -> None:
    found = measure(np.array([10_000_000, 9_999_500, 9_997_000, 9_000_000], np.int64), None)
    assert (found.bins[0], found.bins[1], found.bins[9], len(found.bins)) == (1, 1, 1, BINS)


def test_quantile_is_an_upper_bound_within_a_factor_of_two() -> None:
    found = measure(np.array([10_000_000, 9_000_000], np.int64), None)
    assert 1_000_000 <= quantile_us(np.array(found.bins), 0.95) <= 2_000_000
