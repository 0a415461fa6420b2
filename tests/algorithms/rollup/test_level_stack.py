from __future__ import annotations

import numpy as np
import pytest

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from tests.oracles.rollup.level_stack import LevelStack


@pytest.fixture
def stack() -> LevelStack:
    """One row of value t at each t of 0..9, in nodes of width 1 and 5."""
    stack = LevelStack([1, 5])
    stack.add_rows(np.arange(10), np.arange(10.0))
    return stack


def test_rows_enter_every_level(stack: LevelStack) -> None:
    assert [len(array) for array in stack.arrays] == [10, 2]
    assert [node.sum for node in stack.arrays[1].nodes()] == [10.0, 35.0]


def test_a_row_below_a_horizon_enters_the_coarser_levels_alone(stack: LevelStack) -> None:
    stack.move_horizons([5, KEPT_FOREVER_US])

    stack.add_rows([3], [100.0])
    stack.add_rows([2], [50.0])

    assert [len(array) for array in stack.arrays] == [5, 2]
    assert stack.arrays[1].nodes()[0].sum == 160.0


def test_a_new_top_is_folded_from_the_old_one(stack: LevelStack) -> None:
    stack.add_top(20)

    assert [(node.n, node.sum) for node in stack.arrays[2].nodes()] == [(10, 45.0)]
    stack.check()


def test_unpacking_gives_back_what_was_packed(stack: LevelStack) -> None:
    copy = LevelStack.unpacked([1, 5], stack.packed())

    copy.add_rows([3], [1.0])

    assert copy.arrays[1].nodes()[0].sum == 11.0
    assert stack.arrays[1].nodes()[0].sum == 10.0


def test_check_accepts_a_parent_that_lost_its_first_children(stack: LevelStack) -> None:
    stack.move_horizons([3, KEPT_FOREVER_US])

    stack.check()


def test_check_finds_a_node_below_its_horizon(stack: LevelStack) -> None:
    stack.horizons[0] = 3

    with pytest.raises(AssertionError, match="below its level's horizon"):
        stack.check()
