from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.incremental import Incremental
from lakehouse.algorithms.join_aggregate.multiway import Multiway
from lakehouse.algorithms.join_aggregate.windows import Plan
from tests.algorithms.join_aggregate.streams import ROUGH, Case, cases
from tests.oracles.join_aggregate.as_paper import MultiwayAsPaper
from tests.oracles.join_aggregate.contents import check
from tests.oracles.join_aggregate.materialised import Materialised

CHAIN = Shape(((0,), (0, 1), (1,)), (False,) * 3)
AS_PAPER = partial(MultiwayAsPaper, buckets=3)
Make = Callable[[Shape], Multiway]


@settings(max_examples=60, deadline=None)
@given(
    case=cases(values=ROUGH), make=st.sampled_from([Multiway, AS_PAPER, partial(MultiwayAsPaper, buckets=1)])
)
def test_totals_are_what_live_rows_carry_at_every_step(case: Case, make: Make) -> None:
    join = make(case.shape)

    for rows, ticks in case.calls:
        join.advance(rows, np.array(ticks, np.int64))
        check(join)


@pytest.mark.parametrize("make", [Multiway, Materialised])
def test_eight_streams_are_joined(make: Any) -> None:
    shape = Shape(((0,),) * 8, (False,) * 7 + (True,), (Aggregate("sum", 7, 0),))
    side = list(range(8)) * 2
    rows = Rows.of(
        side, side, np.add(side, 20), np.zeros((16, 1)), group=side, values=np.ones((16, 1)), row=range(16)
    )

    found = make(shape).advance(rows, np.array([6, 7]))

    assert (found.tick_us.tolist(), found.results.tolist(), found.high.tolist()) == ([7], [256], [[256.0]])
    assert found.group.tolist() == [[0] * 7 + [7]]


def test_rows_meet_only_in_attributes_that_both_carry() -> None:
    keys = [[1, 999], [1, 2], [888, 2], [5, 2]]

    found = Multiway(CHAIN).advance(Rows.of([0, 1, 2, 1], [0] * 4, [9] * 4, keys), np.array([5]))

    assert found.results.tolist() == [1]


def test_the_window_with_the_fewest_rows_to_expect_is_probed_first() -> None:
    star = Shape(((0,),) * 4, (False,) * 4)
    side = [1] * 300 + [2] * 30 + [3] * 3 + [0]
    join = Multiway(star)

    join.advance(Rows.of(side, np.arange(334), np.full(334, 999), np.zeros((334, 1))), np.array([334]))

    _, met, _ = join._windows.work
    assert met[:3, 0].tolist() == [3, 2, 1]


def test_a_window_without_a_match_is_probed_first_and_ends_the_search() -> None:
    star = Shape(((0,),) * 4, (False,) * 4)
    side, n = [1] * 500 + [2] * 500 + [3] * 500 + [0] * 20, 1520
    key = [0] * 1000 + [1] * 500 + [0] * 20
    join = Multiway(star)

    found = join.advance(Rows.of(side, np.arange(n), np.full(n, 9999), np.c_[key]), np.array([n]))

    assert len(found) == 0
    assert join._windows.work[1][0, 0] == 3


def test_a_side_has_an_index_for_each_set_of_attributes_that_it_can_be_asked_by() -> None:
    plan = Plan.of(CHAIN)

    assert plan.attributes.tolist() == [
        [True, False],
        [True, False],
        [True, True],
        [False, True],
        [False, True],
    ]
    assert plan.own.tolist() == [[0, -1, -1], [1, 2, 3], [4, -1, -1]]
    assert plan.index_of[0, 0b100, 0] == -1
    assert plan.index_of[1, 0b101].tolist() == [2, 1]


def test_a_trend_towards_the_worse_finds_every_extreme() -> None:
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("max", 0, 0),))
    n = 500
    rows = Rows.of(
        [0] * n, range(n), np.arange(n) + 50, np.zeros((n, 1)), values=-np.arange(float(n))[:, None]
    )
    partner = Rows.of([1], [0], [10**6], [[0]], values=[[0.0]])

    found = Multiway(shape).advance(Rows.joined([partner, rows]), np.arange(n))

    assert found.extreme.ravel().tolist() == [-max(0, tick - 50) for tick in range(n)]


@pytest.mark.parametrize(("make", "n"), [(Multiway, 110_000), (AS_PAPER, 10_000)])
def test_sums_do_not_drift_in_ten_million_changes(make: Make, n: int) -> None:
    rng = np.random.default_rng(3)
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 0, 0), Aggregate("sum", 1, 0)))
    sums, values = make(shape), rng.normal(size=(n, 1)) * 10.0 ** rng.integers(-20, 20, (n, 1))
    enter = np.arange(n)
    rows = Rows.of(rng.integers(0, 2, n), enter, enter + 100, np.zeros((n, 1)), values=values)
    lasting = Rows.of([0, 1], [0, 0], [n + 200, n + 200], [[0], [0]], values=[[0.1], [0.3]])
    sums.advance(lasting, np.array([0]))
    sums.advance(rows, np.arange(100, n, 100))

    found = sums.advance(rows[:0], np.array([n + 150]))

    assert (found.high.tolist(), found.low.tolist()) == ([[0.1, 0.3]], [[0.0, 0.0]])


def test_a_value_that_swallows_all_others_gives_them_back_when_it_leaves() -> None:
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 1, 0),))
    values = [[0.0], [2.0**900], [1.0], [1e-300], [0.1]]
    rows = Rows.of([0, 1, 1, 1, 1], [0] * 5, [99, 10, 99, 20, 99], np.zeros((5, 1)), values=values)

    found = Multiway(shape).advance(rows, np.array([5, 15, 25]))
    exact = Incremental(shape).advance(rows, np.array([5, 15, 25]))

    assert found.high.ravel().tolist() == exact.high.ravel().tolist() == [2.0**900, 1.1, 1.1]


def test_check_finds_a_credit_that_the_totals_do_not_have() -> None:
    join = Multiway(CHAIN)
    join.advance(Rows.of([0, 1, 2], [0] * 3, [9] * 3, np.zeros((3, 2))), np.array([5]))
    join._credits.arrays[0]["results"][0] += 1

    with pytest.raises(AssertionError, match="credits do not add up"):
        check(join)


def test_check_finds_a_row_that_its_index_has_lost() -> None:
    join = Multiway(CHAIN)
    join.advance(Rows.of([0, 1, 2], [0] * 3, [9] * 3, np.zeros((3, 2))), np.array([5]))
    join._windows.arrays[4].fill(-1)

    with pytest.raises(AssertionError):
        check(join)


@pytest.mark.parametrize("make", [Multiway, AS_PAPER])
def test_a_row_keeps_its_credits_where_room_runs_out_amid_them(make: Make) -> None:
    """A row that was written once more after growth lost the credits that it had already."""
    shape = Shape(((0,), (0,)), (False, True), (Aggregate("sum", 1, 0),))
    n = 1000
    partners = Rows.of([1] * n, [0] * n, [99] * n, np.zeros((n, 1)), group=range(n), values=np.ones((n, 1)))
    brief = Rows.of([0] * 3, [5] * 3, [10, 11, 12], np.zeros((3, 1)), values=np.zeros((3, 1)))
    join = make(shape)

    found = join.advance(Rows.joined([partners, brief]), np.array([10, 11, 12, 13]))

    assert found.tick_us.tolist() == [10] * n + [11] * n + [12] * n
    assert found.high.ravel().tolist() == [3.0] * n + [2.0] * n + [1.0] * n
    check(join)
