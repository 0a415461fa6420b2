from __future__ import annotations

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from tests.oracles.rollup.bounds import CutNode
from tests.oracles.rollup.descent import Descent, Spread
from tests.oracles.rollup.level_stack import LevelStack


def descent(horizon: int, times: range, spread: Spread = "remainder") -> Descent:
    """Nodes of width 1 from the horizon on below nodes of width 4; the row at t has value t."""
    stack = LevelStack([1, 4])
    stack.add_rows(times, [float(time_us) for time_us in times])
    stack.move_horizons([horizon, KEPT_FOREVER_US])
    return Descent(stack.arrays, stack.horizons.tolist(), spread)


def test_whole_nodes_come_from_the_coarsest_level() -> None:
    found = descent(0, range(12)).read(0, 12)

    assert [fold.nodes for fold in found.folds] == [3]
    assert (found.nodes_read, found.finest_us) == (3, 4)


def test_both_edges_go_down_where_children_are_kept() -> None:
    found = descent(0, range(12)).read(3, 10)

    assert sorted(fold.n for fold in found.folds) == [1, 2, 4]
    assert found.cuts == []


def test_an_edge_without_children_cuts_its_node() -> None:
    found = descent(8, range(12)).read(1, 4)

    assert found.cuts == [CutNode(4, 6.0, 0.0, 3.0, 0, 3, 1, 4, 4, 12.0)]


def test_a_range_inside_one_node_cuts_it_once() -> None:
    found = descent(8, range(12)).read(1, 3)

    assert [(cut.from_us, cut.to_us) for cut in found.cuts] == [(1, 3)]


def test_lost_first_children_leave_a_remainder_over_their_own_time() -> None:
    # [4 . . .)[6)[7)   children 6 and 7 are kept, 4 and 5 are the parent's 22 minus 13
    found = descent(6, range(12)).read(5, 7)

    assert found.cuts == [CutNode(2, 9.0, 4.0, 7.0, 4, 5, 5, 6, 2, 28.0, remainder=True)]
    assert [fold.total for fold in found.folds] == [6.0]


def test_the_last_time_of_a_lone_remaining_row_is_its_first() -> None:
    found = descent(7, range(6, 12)).read(5, 7)

    assert [(cut.n, cut.first_us, cut.last_us) for cut in found.cuts] == [(1, 6, 6)]


def test_nothing_is_left_over_where_all_rows_are_in_kept_children() -> None:
    assert descent(6, range(6, 12)).read(5, 7).cuts == []


def test_the_whole_node_is_spread_where_asked() -> None:
    found = descent(6, range(12), spread="whole").read(5, 7)

    assert found.cuts == [CutNode(4, 22.0, 4.0, 7.0, 4, 7, 5, 6, 4, 28.0)]


def test_nodes_below_a_horizon_are_ignored_even_before_they_are_deleted() -> None:
    kept = descent(0, range(12))
    kept.horizons = [6, KEPT_FOREVER_US]

    found = kept.read(5, 7)

    assert [cut.n for cut in found.cuts] == [2]
    assert [fold.total for fold in found.folds] == [6.0]


def test_an_empty_range_reads_nothing() -> None:
    found = descent(0, range(12)).read(7, 3)

    assert (found.nodes_read, found.finest_us) == (0, None)
