from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.rollup.descent import Spread
from tests.oracles.rollup.paper_tree import PaperTree

SPREADS: tuple[Spread, Spread] = ("remainder", "whole")
SECONDS_OF_A_CENTURY = 100 * 365 * 24 * 60 * 60


def worked_example(spread: Spread = "remainder") -> PaperTree:
    #  value  1  2  3  4  5  6  7  8
    #  slot   0  1  2  3  4  5  6  7        alpha = 2, l = 1: three slots a level
    tree = PaperTree(base_us=1, alpha=2, exponent=1, spread=spread)
    for slot in range(8):
        tree.insert(slot, slot + 1.0)
    return tree


def sums(tree: PaperTree, level_index: int) -> dict[tuple[int, int], float]:
    return {(node.start, node.end): node.sum for node in tree.nodes(level_index)}


def mean_error(spread: Spread, values: npt.NDArray[np.float64], ranges: list[list[int]]) -> float:
    tree = PaperTree(base_us=1, alpha=2, exponent=2, spread=spread)
    tree.insert_batch(np.arange(len(values)), values)
    answers = [tree.query(start, end, "sum").value or 0.0 for start, end in ranges]
    truths = [values[start:end].sum() for start, end in ranges]
    return float(np.abs(np.subtract(answers, truths)).mean())


def level_count(tree: PaperTree) -> int:
    return len(tree.horizons)


def last_slots_of_every_level(first: int, last: int, alpha: int, exponent: int) -> PaperTree:
    """The tree of a row in each slot of [first, last]: only those in the slots that it keeps are inserted."""
    levels = math.ceil(math.log(last - first + 1, alpha)) + 1
    back = np.arange(alpha**exponent + 1)[:, None] * alpha ** np.arange(levels)
    times = np.unique(np.clip(last - back, first, last))
    tree = PaperTree(base_us=1, alpha=alpha, exponent=exponent)
    tree.insert_batch(times, np.ones(len(times)))
    return tree


def test_the_worked_example_keeps_three_slots_a_level() -> None:
    tree = worked_example()

    assert level_count(tree) == 3
    assert sums(tree, 0) == {(5, 6): 6.0, (6, 7): 7.0, (7, 8): 8.0}
    assert sums(tree, 1) == {(2, 4): 7.0, (4, 6): 11.0, (6, 8): 15.0}
    assert sums(tree, 2) == {(0, 4): 10.0, (4, 8): 26.0}


@pytest.mark.parametrize(
    ("start", "end", "value", "exact"),
    [(6, 8, 15.0, True), (5, 8, 21.0, True), (4, 5, 5.0, True), (1, 3, 5.0, False), (0, 8, 36.0, True)],
)
def test_the_worked_example_answers(start: int, end: int, value: float, exact: bool) -> None:
    answer = worked_example().query(start, end, "sum")

    assert (answer.value, answer.exact) == (value, exact)


def test_the_papers_own_spreading_ignores_the_kept_child() -> None:
    answer = worked_example("whole").query(4, 5, "sum")

    assert (answer.value, answer.exact) == (5.5, False)
    assert answer.low == pytest.approx(5.0)
    assert answer.high == pytest.approx(6.0)


def test_subtracting_kept_children_is_closer_than_spreading_the_whole() -> None:
    rng = np.random.default_rng(20)
    values = rng.gamma(2.0, 10.0, 5000)
    ranges = np.sort(rng.integers(0, 5000, (300, 2)), axis=1).tolist()

    subtracted, whole = (mean_error(spread, values, ranges) for spread in SPREADS)

    assert subtracted < whole


@pytest.mark.parametrize(("alpha", "exponent"), [(2, 1), (2, 2), (3, 1), (3, 2)])
@settings(max_examples=40, deadline=None)
@given(rows=st.integers(40, 400), begin=st.integers(-200, 200), data=st.data())
def test_theorem_1_a_kept_node_starts_shortly_before_the_window(
    alpha: int, exponent: int, rows: int, begin: int, data: st.DataObject
) -> None:
    tree = PaperTree(base_us=1, alpha=alpha, exponent=exponent)
    tree.insert_batch(range(begin, begin + rows), [1.0] * rows)
    now = begin + rows
    h = data.draw(st.integers(alpha ** (exponent - 1), rows))

    kept = [node.start for index in range(level_count(tree)) for node in tree.nodes(index)]

    nearest = max(start for start in kept if start <= now - h)
    assert now - nearest <= (1 + 1 / alpha ** (exponent - 1)) * h


@pytest.mark.parametrize("first", [0, -SECONDS_OF_A_CENTURY, -SECONDS_OF_A_CENTURY // 2, -1, 12_345])
def test_a_century_of_seconds_needs_at_most_160_nodes(first: int) -> None:
    tree = last_slots_of_every_level(first, first + SECONDS_OF_A_CENTURY - 1, alpha=2, exponent=2)

    tree.check()
    assert level_count(tree) == 31
    assert sum(len(tree.nodes(index)) for index in range(31)) <= 31 * 5 <= 160


@settings(max_examples=60, deadline=None)
@given(
    alpha=st.integers(2, 4),
    exponent=st.integers(1, 3),
    first=st.integers(-(10**9), 10**9),
    n=st.integers(2, 10**10),
)
def test_levels_and_nodes_stay_below_the_bound_wherever_the_range_lies(
    alpha: int, exponent: int, first: int, n: int
) -> None:
    tree = last_slots_of_every_level(first, first + n - 1, alpha, exponent)

    # The smallest power of alpha that is at least N - 1, without a logarithm's rounding.
    power = next(power for power in range(40) if alpha**power >= n - 1)
    assert level_count(tree) <= max(1, power - exponent + 1)
    assert all(len(tree.nodes(index)) <= alpha**exponent + 1 for index in range(level_count(tree)))


def test_the_top_level_grows_only_when_it_needs_one_slot_more() -> None:
    tree = PaperTree(base_us=1, alpha=2, exponent=1)

    counts = []
    for slot in range(8):
        tree.insert(slot, 1.0)
        counts.append(level_count(tree))

    assert counts == [1, 1, 1, 2, 2, 2, 3, 3]


def test_a_row_before_all_others_makes_the_top_grow_downwards() -> None:
    tree = worked_example()

    tree.insert(-20, 4.0)

    assert tree.query(-100, 100, "sum").value == 40.0
    assert tree.query(-32, 0, "count").value == 1.0
    tree.check()


def test_slots_without_rows_are_not_stored_and_hold_their_place() -> None:
    tree = PaperTree(base_us=1, alpha=2, exponent=1)

    tree.insert_batch([0, 7], [1.0, 1.0])

    assert level_count(tree) == 3
    assert [len(tree.nodes(index)) for index in range(3)] == [1, 1, 2]


@pytest.mark.parametrize("wrong", [(0, 2, 1), (1, 1, 1), (1, 2, 0)])
def test_parameters_out_of_range_are_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="alpha >= 2"):
        PaperTree(*wrong)


def test_check_finds_more_nodes_than_slots() -> None:
    tree = worked_example()
    tree.slots_before = 1

    with pytest.raises(AssertionError, match="more nodes than slots"):
        tree.check()
