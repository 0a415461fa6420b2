from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.recompute import Recompute

SECOND = 1_000_000
LEVELS = [Level(1, 6), Level(3, 24), Level(12, None)]


def tree_of(rows: dict[int, float], levels: list[Level] = LEVELS) -> DsmgaTree:
    tree = DsmgaTree(levels)
    tree.insert_batch(list(rows), list(rows.values()))
    return tree


def starts(tree: DsmgaTree, level_index: int) -> list[int]:
    return [node.start for node in tree.nodes(level_index)]


@pytest.fixture
def full() -> DsmgaTree:
    """One row of value 1 in each of the slots 0..40."""
    #          0    3    6    9    12   ...   24   ...   33 34 35 36 37 38 39 40
    # level 3  [0------------)[12------)[24------)[36-------
    # level 2                 [12)[15) ...             [36)[39)
    # level 1                                  [33][34] ... [40]
    return tree_of(dict.fromkeys(range(41), 1.0))


def test_each_level_keeps_what_its_horizon_says(full: DsmgaTree) -> None:
    assert full.horizons[:2] == (33, 12)
    assert starts(full, 0) == list(range(33, 41))
    assert starts(full, 1) == list(range(12, 41, 3))
    assert starts(full, 2) == [0, 12, 24, 36]


def test_a_range_on_kept_edges_is_exact(full: DsmgaTree) -> None:
    answers = [full.query(start, end, "count") for start, end in ((34, 40), (15, 39), (0, 36), (12, 38))]

    assert [answer.value for answer in answers] == [6.0, 24.0, 36.0, 26.0]
    assert all(answer.exact for answer in answers)


def test_a_cut_node_is_spread_and_bounded(full: DsmgaTree) -> None:
    answer = full.query(0, 6, "sum")

    assert answer.value == 6.0
    assert (answer.rows_low, answer.rows_high, answer.exact) == (1, 11, False)


def test_whole_nodes_are_taken_coarsest_first(full: DsmgaTree) -> None:
    answer = full.query(11, 35, "count")

    # [0, 12) cut, [12, 24) and [24, 33) as three level-2 nodes, then slots 33 and 34
    assert (answer.nodes_read, answer.finest_granularity_us) == (1 + 1 + 3 + 2, 1)


def test_a_late_row_reaches_only_the_levels_that_still_keep_its_time(full: DsmgaTree) -> None:
    full.insert(13, 100.0)

    assert full.query(12, 15, "sum").value == 103.0
    assert full.query(0, 48, "count").value == 42.0
    assert starts(full, 0) == list(range(33, 41))


def test_a_late_row_makes_the_node_that_was_missing() -> None:
    tree = tree_of({0: 1.0, 40: 1.0})

    tree.insert(37, 5.0)

    assert starts(tree, 0) == [37, 40]
    tree.check()


def test_a_missing_node_where_a_level_keeps_the_time_means_no_rows() -> None:
    tree = tree_of({20: 1.0, 40: 1.0})

    answer = tree.query(30, 38, "count")

    assert (answer.value, answer.exact) == (0.0, True)


def test_a_row_without_a_value_moves_the_horizons_like_any_other() -> None:
    tree = tree_of({0: 1.0})

    tree.insert(40, None)

    assert tree.horizons[:2] == (33, 12)
    assert tree.missing == 1


def test_another_series_of_the_stream_moves_the_horizons(full: DsmgaTree) -> None:
    full.advance(46)
    full.advance(10)

    assert full.horizons[:2] == (39, 12)
    assert starts(full, 0) == [39, 40]


@pytest.fixture
def forgetful() -> DsmgaTree:
    """One row of value 2 in each of the slots 0..59; nothing before slot 10 is kept at any level."""
    return tree_of(dict.fromkeys(range(60), 2.0), [Level(1, 5), Level(5, 20), Level(10, 40)])


def test_a_top_level_with_a_limit_forgets(forgetful: DsmgaTree) -> None:
    answer = forgetful.query(0, 60, "count")

    assert forgetful.horizons[-1] == 10
    assert (answer.value, answer.low, answer.high, answer.exact) == (50.0, 50.0, None, False)


def test_nothing_is_forgotten_before_the_first_row_ever_seen(forgetful: DsmgaTree) -> None:
    answer = forgetful.query(-100, 0, "count")

    assert (answer.value, answer.exact) == (0.0, True)


def test_a_row_older_than_every_level_still_opens_the_sides(forgetful: DsmgaTree) -> None:
    forgetful.insert(-500, 1.0)

    assert forgetful.query(-600, -400, "count").high is None


def test_a_long_sum_is_rounded_once_where_plain_addition_drifts() -> None:
    tree = DsmgaTree([Level(1 << 20, None)])
    values = np.full(1 << 17, 0.1)

    tree.insert_batch(np.arange(1 << 17), values)

    yardstick = Recompute()
    yardstick.insert_batch(np.arange(1 << 17), values)
    answer, truth = tree.query(0, 1 << 20, "sum"), yardstick.query(0, 1 << 20, "sum")
    assert answer.value == truth.value
    assert float(np.cumsum(values)[-1]) != truth.value


@settings(max_examples=60, deadline=None)
@given(
    times=st.lists(st.integers(0, 20_000), min_size=200, max_size=200),
    asked=st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)),
)
def test_a_query_reads_no_more_nodes_than_promised(times: list[int], asked: tuple[int, int]) -> None:
    levels = [Level(1, 600), Level(10, 3000), Level(60, 9000), Level(600, None)]
    tree = DsmgaTree(levels)
    tree.insert_batch(times, [1.0] * len(times))
    start, end = sorted(asked)

    answer = tree.query(start, end, "count")

    whole_at_the_top = max(0, end // 600 - -(-start // 600))
    assert answer.nodes_read <= whole_at_the_top + 2 * (9 + 5 + 9) + 2


def test_declared_levels_bound_the_nodes_kept() -> None:
    day = 86_400 * SECOND
    minute, hour = 60 * SECOND, 3600 * SECOND
    tree = DsmgaTree([Level(SECOND, hour), Level(minute, 2 * day), Level(hour, 365 * day)])
    seconds = np.arange(0, 3 * day, 7 * SECOND)

    tree.insert_batch(seconds, np.ones(len(seconds)))

    kept = [len(tree.nodes(index)) for index in range(3)]
    assert kept[0] <= 3660 / 7 + 1
    assert kept[1] <= 2880 + 60
    assert kept[2] == 72


def test_levels_that_do_not_nest_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="level 2: found width 5 us; expected a multiple of level 1, 2 us"):
        DsmgaTree([Level(2, 10), Level(5, None)])


@pytest.mark.parametrize(
    ("field", "level_index", "reason"),
    [
        ("n", 1, "n of a parent differs"),
        ("total", 2, "sum of a parent differs"),
        ("max", 0, "max of a parent differs"),
    ],
)
def test_check_finds_a_parent_that_is_not_its_children(
    full: DsmgaTree, field: str, level_index: int, reason: str
) -> None:
    full._stack.arrays[level_index].live[field][-1] += 1

    with pytest.raises(AssertionError, match=reason):
        full.check()


def test_check_finds_a_horizon_that_passes_through_a_parent(full: DsmgaTree) -> None:
    full._stack.horizons[0] = 32

    with pytest.raises(AssertionError, match="horizon 32 passes through a parent 3 us wide"):
        full.check()
