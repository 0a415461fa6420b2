"""One body for every join-aggregate: against the yardstick, cut; and the shapes that go in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import Aggregate, JoinAggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.factorised import Factorised
from lakehouse.algorithms.join_aggregate.incremental import Incremental
from lakehouse.algorithms.join_aggregate.multiway import Multiway
from lakehouse.algorithms.join_aggregate.tuple_count import TupleCount
from lakehouse.algorithms.join_aggregate.view_tree import ViewTree
from tests.algorithms.join_aggregate.streams import (
    ROUGH,
    WHOLE,
    Case,
    answers,
    answers_by_definition,
    assert_right,
    assert_same,
    cases,
    circles,
    cut_otherwise,
    in_limbs,
    rows_of,
    shapes,
    tick_after_every_row,
    whole_numbers,
    without_extremes,
)
from tests.oracles.join_aggregate.as_paper import IncrementalAsPaper, MaterialisedAsPaper, MultiwayAsPaper
from tests.oracles.join_aggregate.contents import rows_held
from tests.oracles.join_aggregate.materialised import Materialised


class Method(NamedTuple):
    make: Callable[[Shape], JoinAggregate]
    shapes: Any


ANY, TWO = shapes(), shapes(sides=(2, 2))
METHODS = {
    "materialised": Method(Materialised, ANY),
    "factorised": Method(Factorised, shapes(one_key=True)),
    "view_tree": Method(ViewTree, ANY),
    "view_tree_of_circles": Method(ViewTree, circles()),
    "multiway": Method(Multiway, ANY),
    "tuple_count": Method(TupleCount, TWO),
    "incremental": Method(Incremental, TWO.map(without_extremes)),
    "materialised_as_paper": Method(partial(MaterialisedAsPaper, buckets=2), ANY),
    "multiway_as_paper": Method(partial(MultiwayAsPaper, buckets=2), ANY),
    "incremental_as_paper": Method(partial(IncrementalAsPaper, buckets=2), TWO.map(without_extremes)),
}
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
moderate = settings(max_examples=25, deadline=None)
CUTS = st.lists(st.integers(0, 24), max_size=3)
ONE_KEY = Shape(attributes=((0,), (0,)), grouped=(False, True), aggregates=(Aggregate("sum", 0, 1),))


def held_by(join: JoinAggregate) -> list[bytes]:
    """Return all that is known of the rows that a method holds."""
    rows = rows_held(join)
    return [getattr(rows, field.name).tobytes() for field in fields(rows)]


def identities(rows: Rows) -> list[tuple[int, ...]]:
    columns = rows.enter_us, rows.leave_us, rows.side, rows.row
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def ends(rows: Rows) -> list[tuple[int, ...]]:
    return sorted(zip(rows.side.tolist(), rows.leave_us.tolist(), rows.weight.tolist(), strict=True))


@every_method
@moderate
@given(data=st.data())
def test_every_answer_is_the_yardstick_s(method: Method, data: st.DataObject) -> None:
    case: Case = data.draw(cases(method.shapes))

    found = answers(method.make(case.shape), case.calls)

    assert_same(found, answers(Materialised(case.shape), case.calls))


@every_method
@moderate
@given(data=st.data())
def test_the_answer_is_the_yardstick_s_after_every_row(method: Method, data: st.DataObject) -> None:
    shape: Shape = data.draw(method.shapes)
    calls = tick_after_every_row(data.draw(rows_of(shape)))

    found = answers(method.make(shape), calls)

    assert_same(found, answers(Materialised(shape), calls))


@every_method
@moderate
@given(data=st.data())
def test_numbers_in_limbs_are_added_and_compared_exactly(method: Method, data: st.DataObject) -> None:
    """Small numbers times so much differ in all their limbs."""
    case: Case = data.draw(cases(method.shapes, values=WHOLE))
    by = data.draw(st.sampled_from([1, 2**42 + 1, (2**42 - 1) * (2**42 + 3)]))
    shape, calls = in_limbs(case.shape, case.calls, by)

    found, small = answers(method.make(shape), calls), answers(Materialised(case.shape), case.calls)

    assert_same(found, answers(Materialised(shape), calls))
    assert found.counted.tolist() == small.counted.tolist()
    for column, each in enumerate(shape.aggregates):
        # A count has no number: its partials have none, and 0.
        expected = small.high if each.function == "sum" else small.extreme
        assert whole_numbers(found, column) == [
            None if math.isnan(number) else round(number) * by for number in expected[:, column].tolist()
        ]


@every_method
@moderate
@given(data=st.data())
def test_sums_keep_within_their_bound_where_float64_loses_them(method: Method, data: st.DataObject) -> None:
    case: Case = data.draw(cases(method.shapes, values=ROUGH))

    found = answers(method.make(case.shape), case.calls)

    assert_right(case.shape, found, answers_by_definition(case.shape, case.calls))


@pytest.mark.slow
@every_method
@moderate
@given(data=st.data(), cuts=CUTS)
def test_any_cut_of_rows_and_ticks_gives_the_same(
    method: Method, data: st.DataObject, cuts: list[int]
) -> None:
    case: Case = data.draw(cases(method.shapes, values=ROUGH))
    whole, pieces = method.make(case.shape), method.make(case.shape)

    found = answers(pieces, cut_otherwise(case.calls, cuts))

    assert_same(found, answers(whole, case.calls))
    assert held_by(pieces) == held_by(whole)


@pytest.mark.slow
@every_method
@moderate
@given(data=st.data())
def test_rows_at_once_do_what_they_do_one_by_one(method: Method, data: st.DataObject) -> None:
    case: Case = data.draw(cases(method.shapes, values=ROUGH))
    whole, single = method.make(case.shape), method.make(case.shape)

    found = answers(single, cut_otherwise(case.calls, range(24)))

    assert_same(found, answers(whole, case.calls))
    assert held_by(single) == held_by(whole)


@every_method
@moderate
@given(data=st.data())
def test_rows_held_are_those_in_their_windows_and_those_that_wait(
    method: Method, data: st.DataObject
) -> None:
    case: Case = data.draw(cases(method.shapes))
    join, yardstick = method.make(case.shape), Materialised(case.shape)
    answers(join, case.calls)
    answers(yardstick, case.calls)

    held, expected = rows_held(join), rows_held(yardstick)

    tick = max([tick for _, ticks in case.calls for tick in ticks], default=-(10**9))
    every = Rows.joined([rows for rows, _ in case.calls])
    may_come = (every.leave_us >= every.enter_us) & (every.leave_us >= tick)
    assert set(expected.row.tolist()) == set(every.row[may_come].tolist())
    if isinstance(join, Factorised):
        # Of rows that a tick has found in their windows it keeps neither the time of entry nor the number.
        assert ends(held) == ends(expected)
        assert set(identities(held[held.row >= 0])) <= set(identities(expected))
        return
    assert sorted(held.enter_us.tolist()) == sorted(expected.enter_us.tolist())
    assert identities(held) == identities(expected)


@every_method
@moderate
@given(data=st.data())
def test_rows_that_have_left_leave_no_trace(method: Method, data: st.DataObject) -> None:
    case: Case = data.draw(cases(method.shapes, values=ROUGH))
    used, fresh = method.make(case.shape), method.make(case.shape)
    answers(used, case.calls)

    for join in (used, fresh):
        join.advance(Rows.none(case.shape), np.array([10**6]))

    assert len(rows_held(used)) == 0
    again = [(_later(rows, 2 * 10**6), [tick + 2 * 10**6 for tick in ticks]) for rows, ticks in case.calls]
    assert_same(answers(used, again), answers(fresh, again))


def _later(rows: Rows, by: int) -> Rows:
    return replace(rows, enter_us=rows.enter_us + by, leave_us=rows.leave_us + by)


@pytest.mark.slow
@every_method
def test_many_rows_are_answered_as_a_few_are(method: Method) -> None:
    rng, n = np.random.default_rng(7), 3000
    enter = np.arange(n) - rng.integers(0, 40, n) ** 2
    stays = np.where(rng.random(n) < 0.1, 900, 60)
    columns = rng.integers(0, 2, n), enter, enter + stays, rng.integers(0, 40, (n, 1))
    rows = Rows.of(*columns, group=rng.integers(0, 30, n), values=rng.normal(size=(n, 2)))
    calls = [(rows[start : start + 700], [start + 300, start + 700]) for start in range(0, n, 700)]

    found = answers(method.make(ONE_KEY), calls)

    expected = answers(Materialised(ONE_KEY), calls)
    assert len(found) > 50
    np.testing.assert_array_equal(found.results, expected.results)
    assert np.all(np.abs((found.high - expected.high) + (found.low - expected.low)) < 1e-25)


@every_method
def test_the_ends_of_a_window_count(method: Method) -> None:
    rows = Rows.of([0, 1], enter_us=[10, 15], leave_us=[20, 30], keys=[[7], [7]], values=[[0, 2.5], [0, 0]])

    found = method.make(ONE_KEY).advance(rows, np.array([14, 15, 20, 21]))

    assert (found.tick_us.tolist(), found.high.tolist()) == ([15, 20], [[2.5], [2.5]])


@every_method
def test_nothing_comes_of_nothing(method: Method) -> None:
    join = method.make(ONE_KEY)

    found = join.advance(Rows.none(ONE_KEY), np.array([1, 2]))

    assert (len(found), len(rows_held(join))) == (0, 0)
    assert found.high.shape == (0, 1)


@every_method
@pytest.mark.parametrize("ticks", [[5, 5], [6, 5], [4]])
def test_ticks_that_do_not_ascend_are_refused(method: Method, ticks: list[int]) -> None:
    join = method.make(ONE_KEY)
    join.advance(Rows.none(ONE_KEY), np.array([4]))

    with pytest.raises(ValueError, match="ticks that ascend"):
        join.advance(Rows.none(ONE_KEY), np.array(ticks))


@every_method
def test_rows_without_the_columns_that_are_read_are_refused(method: Method) -> None:
    with pytest.raises(ValueError, match=r"at least 1 columns of keys and 2 of values, found \(1, 1\)"):
        method.make(ONE_KEY).advance(Rows.of([0], [1], [2], [[7]], values=[[1.0]]), np.array([3]))


@every_method
def test_rows_of_a_side_that_is_not_there_are_refused(method: Method) -> None:
    with pytest.raises(ValueError, match="rows of sides 0 to 1, found side 2"):
        method.make(ONE_KEY).advance(Rows.of([2], [1], [2], [[7]], values=[[1.0, 2.0]]), np.array([3]))


@pytest.mark.parametrize(
    ("attributes", "grouped", "reason"),
    [
        (((0,),), (False,), "2 to 8 sides"),
        (((0,),) * 9, (False,) * 9, "2 to 8 sides"),
        (((0,), (0,)), (False,), "all with attributes and grouped"),
        (((0,), (1,)), (False, False), "connect all sides"),
        (((0,), (0, 1), (2,), (2,)), (False,) * 4, "connect all sides"),
    ],
)
def test_shapes_that_are_no_join_are_refused(
    attributes: tuple[tuple[int, ...], ...], grouped: tuple[bool, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Shape(attributes, grouped)


@pytest.mark.parametrize(
    "aggregate", [Aggregate("sum", 2, 0), Aggregate("sum", -1, 0), Aggregate("sum", 0, -1)]
)
def test_aggregates_of_what_is_not_there_are_refused(aggregate: Aggregate) -> None:
    with pytest.raises(ValueError, match="columns of sides 0 to 1"):
        Shape(((0,), (0,)), (False, False), (aggregate,))


@pytest.mark.parametrize("time", [2**61, -(2**61)])
def test_times_beyond_the_ends_are_refused(time: int) -> None:
    with pytest.raises(ValueError, match=r"within \+-2\^60"):
        Rows.of([0], [time], [2], [[7]])


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="columns of one length"):
        Rows.of([0, 1], [1], [2, 3], [[7], [7]])


def test_sides_tied_over_a_third_are_a_join_of_more_than_one_key() -> None:
    chain = Shape(((0,), (0, 1), (1,)), (False,) * 3)

    assert (chain.width, chain.has_one_key) == (2, False)
    assert Shape(((0, 1), (1, 0)), (False, False)).has_one_key
