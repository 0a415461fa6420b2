"""The closed forms against brute force: every way to choose k rows of small multisets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.rollup.bounds import (
    CutNode,
    CutNodes,
    Inside,
    answer,
    greatest_sum,
    mean_range,
    row_range,
    sum_range,
    with_forgotten_rows,
)
from tests.oracles.rollup.contract import AGGREGATES, Aggregate

VALUES = st.lists(st.integers(-6, 6), min_size=2, max_size=6)
Rows = list[tuple[int, float]]
ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(-6, 6).map(float)), min_size=1, max_size=6)
moderate = settings(max_examples=80, deadline=None)


def node(
    n: int, total: float, low: float, high: float, first: int, last: int, part: tuple[int, int]
) -> CutNode:
    return CutNode(n, total, low, high, first, last, *part, 10, n * max(abs(low), abs(high)))


def node_of(rows: Rows, part: tuple[int, int]) -> CutNode:
    times, values = [time_us for time_us, _ in rows], [value for _, value in rows]
    return node(len(rows), sum(values), min(values), max(values), min(times), max(times), part)


def cut(values: list[int]) -> CutNodes:
    """A node whose first and last row lie on both sides of the range: any number of the others may be inside."""
    one = node_of([(0, float(value)) for value in values], (3, 5))
    return CutNodes.of([one._replace(first_us=0, last_us=9)])


def real_sums(n: int, total: int, low: int, high: int, k: int) -> set[int]:
    """The sums of k out of n whole numbers in [low, high] that add up to total."""
    return {
        inside for inside in range(k * low, k * high + 1) if (n - k) * low <= total - inside <= (n - k) * high
    }


def means(inside: Inside, cuts: CutNodes) -> Iterator[float]:
    """Every mean over all numbers of rows and both extreme sums."""
    ranges = [range(low, high + 1) for low, high in zip(*row_range(cuts), strict=True)]
    for k in product(*ranges):
        rows = inside.n + sum(k)
        counts = np.array(k, dtype=np.int64)
        if rows:
            yield (inside.sum + float(greatest_sum(cuts, counts).sum())) / rows
            yield (inside.sum - float(greatest_sum(cuts.mirrored(), counts).sum())) / rows


@moderate
@given(values=VALUES)
def test_the_greatest_sum_of_k_rows_is_reached_by_some_rows(values: list[int]) -> None:
    n, total, low, high = len(values), sum(values), min(values), max(values)

    found = [float(greatest_sum(cut(values), np.array([k]))[0]) for k in range(n + 1)]

    assert found == [max(real_sums(n, total, low, high, k)) for k in range(n + 1)]


@moderate
@given(values=VALUES)
def test_the_interval_over_all_k_is_sound_and_tight(values: list[int]) -> None:
    nodes = cut(values)
    lows, highs = sum_range(nodes, row_range(nodes))

    shape = len(values), sum(values), min(values), max(values)
    possible = set().union(*(real_sums(*shape, k) for k in range(len(values) - 1)))
    assert (lows[0], highs[0]) == (min(possible), max(possible))


@moderate
@given(values=VALUES)
def test_no_subset_of_the_rows_leaves_the_interval(values: list[int]) -> None:
    nodes = cut(values)
    lows, highs = sum_range(nodes, row_range(nodes))

    sums = [sum(chosen) for k in range(len(values) - 1) for chosen in combinations(values, k)]

    assert lows[0] <= min(sums)
    assert max(sums) <= highs[0]


@moderate
@given(
    several=st.lists(
        st.tuples(ROWS, st.tuples(st.integers(0, 5), st.integers(1, 5))), min_size=1, max_size=3
    ),
    sure=st.lists(st.integers(-6, 6), max_size=3),
)
def test_the_mean_range_is_sound_and_tight(
    several: list[tuple[Rows, tuple[int, int]]], sure: list[int]
) -> None:
    nodes = CutNodes.of([node_of(rows, (start, start + length)) for rows, (start, length) in several])
    nodes = nodes.where(row_range(nodes)[1] > 0)
    inside = Inside(n=len(sure), sum=float(sum(sure)))
    possible = list(means(inside, nodes)) or [0.0]

    found = mean_range(inside, nodes, row_range(nodes)) if inside.n + nodes.n.size else (0.0, 0.0)

    assert found == pytest.approx((min(possible), max(possible)))


@moderate
@given(rows=ROWS, start=st.integers(0, 9), length=st.integers(1, 9))
def test_the_row_range_holds_the_number_of_rows_inside(rows: Rows, start: int, length: int) -> None:
    low, high = row_range(CutNodes.of([node_of(rows, (start, start + length))]))

    inside = sum(start <= time_us < start + length for time_us, _ in rows)

    assert low[0] <= inside <= high[0]


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (3, 6, (5, 5)),  # both ends inside [3, 7)
        (1, 2, (0, 0)),  # all before
        (7, 9, (0, 0)),  # all after
        (1, 5, (1, 4)),  # only the last is inside
        (4, 8, (1, 4)),  # only the first is inside
        (1, 8, (0, 3)),  # around the range
    ],
)
def test_first_and_last_times_narrow_the_row_range(first: int, last: int, expected: tuple[int, int]) -> None:
    low, high = row_range(CutNodes.of([node(5, 10.0, 0.0, 4.0, first, last, (3, 7))]))

    assert (low[0], high[0]) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (1, 5, (0, 4)),  # the end of the time left over is inside, which is not to say a row is
        (4, 8, (1, 5)),  # the first row is inside, all others may be
        (3, 6, (5, 5)),
    ],
)
def test_the_clipped_end_of_a_remainder_is_no_row(first: int, last: int, expected: tuple[int, int]) -> None:
    left_over = node(5, 10.0, 0.0, 4.0, first, last, (3, 7))._replace(remainder=True)

    low, high = row_range(CutNodes.of([left_over]))

    assert (low[0], high[0]) == expected


def test_the_extremes_of_a_remainder_only_bound_its_rows() -> None:
    left_over = node(2, 5.0, 0.0, 4.0, 3, 6, (3, 7))._replace(remainder=True)

    found = answer("min", Inside(), CutNodes.of([left_over]))

    assert (found.low, found.high, found.exact) == (0.0, 4.0, False)


def test_a_minimum_has_no_upper_side_while_the_range_may_be_empty() -> None:
    around = node(5, 10.0, 0.0, 4.0, 1, 8, (3, 7))

    found = answer("min", Inside(), CutNodes.of([around]))

    assert (found.low, found.high, found.rows_low) == (0.0, None, 0)


def test_one_row_surely_inside_bounds_the_minimum_by_the_largest_value() -> None:
    entering = node(5, 10.0, 0.0, 4.0, 4, 8, (3, 7))

    found = answer("min", Inside(), CutNodes.of([entering]))

    assert (found.low, found.high) == (0.0, 4.0)


def test_a_maximum_known_from_a_whole_node_is_exact_where_cut_nodes_stay_below() -> None:
    around = node(5, 10.0, 0.0, 4.0, 1, 8, (3, 7))

    found = answer("max", Inside(n=1, sum=9.0, min=9.0, max=9.0, magnitude=9.0), CutNodes.of([around]))

    assert (found.low, found.value, found.high, found.exact) == (9.0, 9.0, 9.0, True)


def test_equal_values_have_an_exact_mean_however_many_rows_are_inside() -> None:
    entering = node(5, 20.0, 4.0, 4.0, 4, 8, (3, 7))

    found = answer("avg", Inside(), CutNodes.of([entering]))

    assert (found.low, found.value, found.high, found.exact) == (4.0, 4.0, 4.0, True)


def test_sides_are_moved_out_by_the_rounding_of_the_nodes_touched() -> None:
    inside = Inside(n=1000, sum=500.0, min=-3.0, max=2.0, magnitude=3000.0)

    found = answer("sum", inside, CutNodes.of([]))

    widening = 1000 * 3.0 * np.finfo(float).eps
    assert found.exact and found.low is not None and found.high is not None
    assert widening <= found.high - 500.0 <= 1.2 * widening
    assert widening <= 500.0 - found.low <= 1.2 * widening


@moderate
@given(rows=ROWS, start=st.integers(0, 9), length=st.integers(1, 9))
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_exact_answer_is_a_point_but_for_rounding(
    aggregate: Aggregate, rows: Rows, start: int, length: int
) -> None:
    found = answer(aggregate, Inside(), CutNodes.of([node_of(rows, (start, start + length))]))

    low, high = (math.nan if side is None else side for side in (found.low, found.high))
    assert not found.exact or found.value is None or math.isclose(low, high, rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("aggregate", "sides"),
    [
        ("sum", (None, None)),
        ("avg", (None, None)),
        ("count", (2.0, None)),
        ("min", (None, 1.0)),
        ("max", (3.0, None)),
    ],
)
def test_forgotten_rows_leave_only_the_sides_they_cannot_move(
    aggregate: Aggregate, sides: tuple[float | None, float | None]
) -> None:
    known = answer(aggregate, Inside(n=2, sum=4.0, min=1.0, max=3.0, magnitude=6.0), CutNodes.of([]))

    found = with_forgotten_rows(known, aggregate)

    assert (found.low, found.high) == sides
    assert (found.exact, found.rows_high) == (False, None)
