"""Results that have a new row, beside every combination of rows looked at one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.multiway_join.joining import Joined, results_of
from tests.oracles.late_join.batched_join import results_with_new

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 12), st.booleans()), max_size=7)
SIDES = st.lists(st.tuples(ROWS, st.integers(0, 8)), min_size=2, max_size=4)


def side(rows: list[tuple[int, int, bool]], window_us: int) -> Joined:
    key, event_us, is_new = zip(*rows, strict=True) if rows else ((), (), ())
    return Joined(
        np.array(key, np.int64), np.array(event_us, np.int64), np.array(is_new, np.bool_), window_us
    )


@settings(max_examples=200, deadline=None)
@given(drawn=SIDES)
def test_each_result_with_a_new_row_is_found_once_and_no_other(
    drawn: list[tuple[list[tuple[int, int, bool]], int]],
) -> None:
    expected = []
    for places in product(*(range(len(rows)) for rows, _ in drawn)):
        found = [rows[place] for (rows, _), place in zip(drawn, places, strict=True)]
        keys, times, new = zip(*found, strict=True)
        windows = zip(times, (window_us for _, window_us in drawn), strict=True)
        if any(new) and len(set(keys)) == 1 and all(max(times) - time <= width for time, width in windows):
            expected.append(places)

    sides = [side(*each) for each in drawn]
    results = results_with_new(sides, 10**6)

    assert sorted(map(tuple, results.tolist())) == expected
    # Those of the new rows of one side, whichever.
    for number, own in enumerate(sides):
        of_side = results_of(sides, number, np.flatnonzero(own.is_new), 10**6)
        assert sorted(map(tuple, of_side.tolist())) == [e for e in expected if own.is_new[e[number]]]


def test_rows_that_meet_more_combinations_than_are_held_at_a_time_are_joined_in_pieces() -> None:
    many = side([(1, 0, True)] * 30, 0)
    whole, in_pieces = (results_with_new([many, many], most) for most in (30 * 30, 7))

    assert len(whole) == 30 * 30
    assert sorted(map(tuple, in_pieces.tolist())) == sorted(map(tuple, whole.tolist()))
