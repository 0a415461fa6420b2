from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.algorithms.ingest.lateness import BINS, measure, measure_arrived, measure_files
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


ROWS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 4), st.none() | st.integers(0, 9)), min_size=1, max_size=50
)


def by_definition(rows: list[tuple[int, int, int | None]], newest: int | None) -> list[int]:
    """The slow way: each row against those that came before it; rows are (event, file, arrival)."""
    late = []
    for place, (event, file, arrival) in enumerate(rows):
        before = [newest] if newest is not None else []
        if arrival is None:
            before += [e for e, f, a in rows[:place] if f == file and a is None]
        else:
            before += [e for e, _, a in rows if a is not None and a < arrival]
        late += [max(before) - event] if before and max(before) > event else []
    return late


def lateness_of(rows: list[tuple[int, int, int | None]], newest: int | None) -> tuple[int, int, int | None]:
    arrived = np.array([(e, a) for e, _, a in rows if a is not None], np.int64).reshape(-1, 2)
    others = np.array([(e, f) for e, f, a in rows if a is None], np.int64).reshape(-1, 2)
    found = measure_arrived(arrived[:, 0], arrived[:, 1], newest) + measure_files(
        others[:, 0], others[:, 1], newest, {}
    )
    return found.late, found.max_us, found.newest_us


@given(rows=ROWS, newest=st.none() | st.integers(0, 50), order=st.permutations(range(5)))
def test_rows_of_one_batch_have_no_order_among_its_files(
    rows: list[tuple[int, int, int | None]], newest: int | None, order: list[int]
) -> None:
    expected = by_definition(rows, newest)
    latest = max([e for e, _, _ in rows] + ([] if newest is None else [newest]))

    found = lateness_of(rows, newest)
    other = sorted(((e, order[f], a) for e, f, a in rows), key=lambda row: row[1])

    assert found == (len(expected), max(expected, default=0), latest)
    assert lateness_of(other, newest) == found


@given(rows=ROWS, newest=st.none() | st.integers(0, 50), cut=st.integers(0, 50))
def test_rows_of_files_may_be_measured_in_pieces(
    rows: list[tuple[int, int, int | None]], newest: int | None, cut: int
) -> None:
    times, files = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    reached: dict[Hashable, int] = {}

    first = measure_files(times[:cut], files[:cut], newest, reached)
    both = first + measure_files(times[cut:], files[cut:], newest, reached)

    assert both == measure_files(times, files, newest, {})
