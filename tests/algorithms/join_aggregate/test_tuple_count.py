from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.tuple_count import TupleCount
from tests.oracles.join_aggregate.as_paper import TupleCountAsPaper
from tests.oracles.join_aggregate.contents import bytes_used
from tests.oracles.join_aggregate.materialised import Materialised

# (side, enter, leave, key); what a row is credited with lives as long as the row.
Row = tuple[int, int, int, int]
COUNT = Shape(((0,), (0,)), (False, False))
EXTREMES = Shape(((0,), (0,)), (False, False), (Aggregate("max", 1, 0), Aggregate("min", 0, 0)))


def streams(seed: int, *, in_order: bool, equal_windows: bool) -> list[Row]:
    rng = random.Random(seed)
    windows, enter, rows = (10, 10) if equal_windows else (rng.randint(2, 6), rng.randint(8, 20)), 0, []
    for _ in range(12):
        enter += rng.randint(1, 2)
        side, ts = rng.randint(0, 1), enter - (0 if in_order else rng.choice([0, 0, 3, 6]))
        rows.append((side, ts, ts + windows[side], rng.randint(0, 1)))
    return rows


def is_right(rows: list[Row], holder: Callable[[Row, Row], Row]) -> bool:
    """Tell if the credits of live rows add up to the results there are, after every row that arrives."""
    now, live, credits = -100, list[int](), [0] * len(rows)
    for new, row in enumerate(rows):
        now = max(now, row[1])
        live = [at for at in [*live, new] if rows[at][2] >= now]
        for at in live if new in live else []:
            if rows[at][0] != row[0] and rows[at][3] == row[3]:
                credits[at if holder(rows[at], row) == rows[at] else new] += 1
        left, right = ([rows[at] for at in live if rows[at][0] == side] for side in (0, 1))
        if sum(credits[at] for at in live) != sum(one[3] == other[3] for one in left for other in right):
            return False
    return True


def leaves_first(known: Row, new: Row) -> Row:
    return known if known[2] <= new[2] else new


def as_in_the_paper(known: Row, new: Row) -> Row:
    """TC-COUNT, step 7: the partner that is found in the window, whoever leaves first."""
    return known


def test_crediting_the_row_that_leaves_first_is_right_in_5000_cases_where_the_paper_s_rule_mostly_fails() -> (
    None
):
    cases = [streams(seed, in_order=False, equal_windows=False) for seed in range(5000)]

    assert all(is_right(rows, leaves_first) for rows in cases)
    assert sum(not is_right(rows, as_in_the_paper) for rows in cases) > 2500


def test_the_paper_s_rule_is_right_for_equal_windows_and_rows_in_order() -> None:
    cases = [streams(seed, in_order=True, equal_windows=True) for seed in range(500)]

    assert all(is_right(rows, as_in_the_paper) for rows in cases)


@pytest.mark.parametrize(("in_order", "equal_windows"), [(False, True), (True, False)])
def test_the_paper_s_rule_needs_both(in_order: bool, equal_windows: bool) -> None:
    cases = [streams(seed, in_order=in_order, equal_windows=equal_windows) for seed in range(500)]

    assert sum(not is_right(rows, as_in_the_paper) for rows in cases) > 50
    assert all(is_right(rows, leaves_first) for rows in cases)


@pytest.mark.parametrize("make", [TupleCount, partial(TupleCountAsPaper, buckets=2)])
def test_an_extreme_is_followed_by_the_next_when_it_leaves(make: Callable[[Shape], TupleCount]) -> None:
    side = [0, 1, 1, 1, 1]
    rows = Rows.of(side, [0] * 5, [90, 10, 20, 30, 40], [[7]] * 5, values=[[5], [8], [np.nan], [6], [3]])

    found = make(EXTREMES).advance(rows, np.array([9, 11, 21, 31, 41]))

    assert found.extreme[:, 0].tolist() == [8, 6, 6, 3]
    assert found.counted[:, 0].tolist() == [3, 2, 2, 1]


def test_a_match_without_a_value_has_no_extreme_instead_of_0() -> None:
    rows = Rows.of([0, 1], [0, 0], [9, 9], [[7], [7]], values=[[-4], [np.nan]])

    found = TupleCount(EXTREMES).advance(rows, np.array([5]))

    np.testing.assert_array_equal(found.extreme, [[np.nan, -4]])
    assert (found.results.tolist(), found.counted.tolist()) == ([1], [[0, 1]])


def test_negative_values_have_a_max() -> None:
    rows = Rows.of([0, 1], [0, 1], [9, 9], [[7], [7]], values=[[-4], [-3]])

    assert TupleCount(EXTREMES).advance(rows, np.array([5])).extreme.tolist() == [[-3, -4]]


def test_memory_grows_with_the_rows_and_not_with_their_results() -> None:
    n = 400
    rows = Rows.of([0] * n + [1] * n, np.zeros(2 * n), np.full(2 * n, 9), np.zeros((2 * n, 1)))
    counts, results = TupleCount(COUNT), Materialised(COUNT)

    for method in (counts, results):
        assert method.advance(rows, np.array([5])).results.tolist() == [n * n]

    assert bytes_used(counts) < 2 * n * 200
    assert bytes_used(results) > n * n * 16


def test_a_third_stream_is_refused() -> None:
    with pytest.raises(
        ValueError, match="tuple_count cannot run this: it joins two streams, this query has 3"
    ):
        TupleCount(Shape(((0,),) * 3, (False,) * 3))
