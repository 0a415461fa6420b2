from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.rollup.contract import Node
from tests.oracles.rollup.level_stack import LevelStack, batch_of
from tests.oracles.rollup.nodes import KeptLevel, coarser

ROWS = st.lists(st.tuples(st.integers(-40, 40), st.integers(-9, 9).map(float)), min_size=1, max_size=30)
moderate = settings(max_examples=60, deadline=None)


def added(rows: list[tuple[int, float]], width_us: int) -> KeptLevel:
    stack = LevelStack([width_us])
    for time_us, value in rows:
        stack.add_rows([time_us], [value])
    return stack.level(0)


def folded(rows: list[tuple[int, float]], width_us: int) -> KeptLevel:
    stack = LevelStack([width_us])
    stack.add_rows([time_us for time_us, _ in rows], [value for _, value in rows])
    return stack.level(0)


def test_rows_of_one_interval_share_a_node() -> None:
    array = added([(12, 3.0), (19, -1.0), (10, 5.0)], 10)

    assert array.nodes() == [Node(10, 20, 3, 7.0, -1.0, 5.0, 10, 19)]


def test_times_before_1970_belong_to_the_interval_below() -> None:
    assert [node.start for node in added([(-1, 1.0), (0, 1.0), (-10, 1.0), (-11, 1.0)], 10).nodes()] == [
        -20,
        -10,
        0,
    ]


@moderate
@given(rows=ROWS, width_us=st.integers(1, 9))
def test_folding_a_batch_equals_adding_its_rows(rows: list[tuple[int, float]], width_us: int) -> None:
    array = folded(rows, width_us)

    array.check()
    assert array.nodes() == added(rows, width_us).nodes()


@moderate
@given(rows=ROWS, more=ROWS)
def test_partial_nodes_combine_into_the_kept_ones(
    rows: list[tuple[int, float]], more: list[tuple[int, float]]
) -> None:
    stack = LevelStack([4])

    stack.add_rows(*zip(*rows, strict=True))
    stack.add_rows(*zip(*more, strict=True))

    assert stack.level(0).nodes() == added(rows + more, 4).nodes()


@moderate
@given(rows=ROWS)
def test_coarser_nodes_are_those_of_the_rows(rows: list[tuple[int, float]]) -> None:
    stack = LevelStack([4, 12])
    stack.add_rows(*zip(*rows, strict=True))

    fine, coarse = stack.arrays

    coarse.check_against(fine, -100, eps=0.0)
    assert coarse.nodes() == added(rows, 12).nodes()
    assert len(coarser(fine.live, 12)) == len(coarse)


@moderate
@given(rows=ROWS, start=st.integers(-50, 50), slots=st.integers(0, 20))
def test_a_fold_is_of_the_nodes_that_start_inside(
    rows: list[tuple[int, float]], start: int, slots: int
) -> None:
    fold = added(rows, 1).fold(start, start + slots)

    inside = [value for time_us, value in rows if start <= time_us < start + slots]
    assert (fold.n, fold.total + fold.carry) == (len(inside), sum(inside))
    assert (fold.min, fold.max) == (min(inside, default=math.inf), max(inside, default=-math.inf))


def test_what_rounding_cuts_off_is_not_lost() -> None:
    assert added([(1, 1e16), (2, 1.0), (3, -1e16)], 10).nodes()[0].sum == 1.0
    assert folded([(1, 1e16), (2, 1.0), (3, -1e16)], 10).nodes()[0].sum == 1.0


def test_dropping_makes_room_for_what_follows() -> None:
    stack = LevelStack([1])
    for time_us in range(1000):
        stack.add_rows([time_us], [1.0])
        stack.move_horizons([time_us - 4])

    assert [node.start for node in stack.level(0).nodes()] == [995, 996, 997, 998, 999]
    assert len(stack.store) <= 16


def test_a_level_without_room_grows_and_the_others_stay() -> None:
    stack = LevelStack([1, 1000])

    stack.add_rows(range(500), [1.0] * 500)
    stack.add_rows(range(0, 1000, 2), [1.0] * 500)

    assert [len(array) for array in stack.arrays] == [750, 1]
    assert stack.level(1).nodes()[0].n == 1000
    stack.check()


def test_a_node_is_found_by_its_start_alone() -> None:
    array = added([(12, 3.0)], 10)

    assert array.at(10) is not None
    assert array.at(12) is None
    assert array.at(20) is None


def test_one_look_at_a_batch_tells_its_times_and_order() -> None:
    batch = batch_of([3, 1, 2, 5], [3.0, -0.0, None, math.nan])

    assert batch is not None
    assert batch[2:] == (2, 1, 3, 5, False)


def test_a_negative_zero_leaves_no_trace() -> None:
    assert not np.signbit(folded([(1, -0.0)], 10).nodes()[0].sum)
    assert not np.signbit(folded([(3, 0.0), (1, -0.0)], 1).nodes()[0].min)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("start", 11, "aligned"),
        ("start", 40, "out of order"),
        ("n", 0, "without rows"),
        ("min", 99.0, "without rows"),
        ("first_us", 9, "outside its node"),
        ("first_us", 19, "a last row before the first"),
    ],
)
def test_check_finds_a_broken_node(field: str, value: float, reason: str) -> None:
    array = added([(12, 3.0), (35, 1.0)], 10)
    array.live[field][0] = value

    with pytest.raises(AssertionError, match=reason):
        array.check()
