"""The join tree of a shape, and what late rows change: by definition, in fractions, whatever else is held."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.join_tree import join_tree
from lakehouse.algorithms.join_aggregate.kernels.view_cells import CELLS, EVENTS, STEPS
from lakehouse.algorithms.join_aggregate.multiway import Multiway
from lakehouse.algorithms.join_aggregate.online import Online
from lakehouse.algorithms.join_aggregate.revision import merged, revised
from lakehouse.algorithms.join_aggregate.view_tree import ViewTree
from tests.algorithms.join_aggregate.streams import (
    ROUGH,
    answers_by_definition,
    assert_same,
    circles,
    rows_of,
    shapes,
)

ASKED = (Aggregate("sum", 1, 0), Aggregate("count", 2, 0), Aggregate("max", 0, 0), Aggregate("min", 1, 0))
CHAIN = Shape(((0,), (0, 1), (1,)), (True, False, True), ASKED)
CIRCLE = Shape(((0, 1), (1, 2), (0, 2)), (True, False, True), ASKED)


@pytest.mark.parametrize(
    ("attributes", "parents"),
    [
        (((0,), (0, 1), (1,)), (1, -1, 1)),
        (((0,), (0, 1), (1, 2), (2, 3), (3,)), (1, 2, -1, 2, 3)),
        (((0,), (0,), (0,)), (-1, 0, 0)),
        (((0, 1), (0,), (1,), (0, 1)), (-1, 0, 0, 0)),
        (((0, 1, 2), (0, 1), (1, 2), (0, 2)), (-1, 0, 0, 0)),
        (((0, 1), (1, 2), (0, 2)), (-1, -1, -1)),
        (((0, 1), (1, 2), (2, 3), (0, 3)), (-1, -1, -1, -1)),
        (((0, 3), (3, 4), (0, 1), (1, 2), (0, 2), (4,)), (2, 0, -1, -1, -1, 1)),
    ],
)
def test_sides_that_share_attributes_form_a_tree_or_a_circle_with_trees_beside_it(
    attributes: tuple[tuple[int, ...], ...], parents: tuple[int, ...]
) -> None:
    assert join_tree(Shape(attributes, (False,) * len(attributes))) == parents


@settings(max_examples=200, deadline=None)
@given(shape=shapes())
def test_the_sides_between_two_that_carry_an_attribute_carry_it(shape: Shape) -> None:
    parents = join_tree(shape)
    if parents.count(-1) > 1:
        return
    for number in range(shape.width):
        carriers = {side for side, own in enumerate(shape.attributes) if number in own}
        tops = [side for side in carriers if parents[side] not in carriers]
        assert len(tops) == len(carriers) - sum(parents[side] in carriers for side in carriers) <= 1


def exact(shape: Shape, rows: Rows, ticks: list[int]) -> dict[tuple[int, ...], list[Any]]:
    """Return (tick, *group) -> results, then counts, sums and extremes, by definition."""
    by_group = answers_by_definition(shape, [(rows, ticks)])
    return {
        key: [
            results,
            *(number for counted, total, _, extreme in told for number in (counted, total, extreme)),
        ]
        for key, (results, *told) in by_group.items()
    }


@settings(max_examples=160, deadline=None)
@given(data=st.data())
def test_late_rows_gain_what_they_add_by_definition(data: st.DataObject) -> None:
    shape: Shape = data.draw(shapes() | circles())
    rows: Rows = data.draw(rows_of(shape, values=ROUGH))
    late: Rows = data.draw(rows_of(shape, (1, 8), values=ROUGH))
    last = data.draw(st.integers(0, 40))
    ticks = list(range(-30, last + 1))
    late = late[(late.enter_us <= last) & (late.leave_us >= late.enter_us)]
    views = ViewTree(shape, slack_us=last + 30)
    some = [*ticks[::3], last] if data.draw(st.booleans()) and last % 3 else [last]
    views.advance(rows, np.array(some))
    known = [rows]
    for part in (late[::2], late[1::2]):
        gained = views.revise(part, np.array(ticks))
        before = exact(shape, Rows.joined(known), ticks)
        known.append(part)
        assert_gained(shape, gained, before, exact(shape, Rows.joined(known), ticks))
    assert_same(views.advance(rows[:0], np.arange(last + 1, 90)), _after(shape, Rows.joined(known), last))


def assert_gained(shape: Shape, gained: Partials, before: dict[Any, Any], after: dict[Any, Any]) -> None:
    """Assert the difference of answers by definition, sums rounded once to two floats."""
    changed = [key for key in after if after[key][0] != before.get(key, [0])[0]]
    keys = [
        (tick, *group) for tick, group in zip(gained.tick_us.tolist(), gained.group.tolist(), strict=True)
    ]
    assert keys == sorted(changed)
    for at, key in enumerate(keys):
        was = before.get(key, [0, *[0, 0, math.nan] * len(shape.aggregates)])
        results, *numbers = (now - then for now, then in zip(after[key], was, strict=True))
        assert gained.results[at] == results
        for number, each in enumerate(shape.aggregates):
            counted, total, _ = numbers[3 * number : 3 * number + 3]
            best = np.fmin if each.function == "min" else np.fmax
            np.testing.assert_equal(
                best(gained.extreme[at, number], was[3 * number + 3]), after[key][3 * number + 3]
            )
            sum_of = Fraction(gained.high[at, number]) + Fraction(gained.low[at, number])
            assert gained.counted[at, number] == counted
            assert abs(sum_of - total) <= abs(total) * Fraction(2) ** -104


def _after(shape: Shape, rows: Rows, last: int) -> Partials:
    return ViewTree(shape).advance(rows, np.arange(last + 1, 90))


def three(many: int, keys: int, seed: int) -> Rows:
    """Return rows of three streams in order of time, one a microsecond, with a window of 60; keys drift with time."""
    rng = np.random.default_rng(seed)
    enter = np.arange(many)
    key = rng.integers(0, keys, (many, 3)) + enter[:, None] // 200 * 3
    values = rng.integers(-(2**53), 2**53, (many, 1)).astype(np.float64)
    return Rows.of(
        rng.integers(0, 3, many), enter, enter + 60, key, group=rng.integers(0, 3, many), values=values
    )


@pytest.mark.parametrize("shape", [CHAIN, CIRCLE], ids=["chain", "circle"])
def test_a_long_stream_with_late_rows_is_answered_as_by_joining_all_rows_and_keys_without_rows_are_dropped(
    shape: Shape,
) -> None:
    many, every, slack = 4000, 10, 80
    rows = three(many, 6, 5)
    order = np.argsort(rows.enter_us + np.random.default_rng(6).integers(0, 70, many), kind="stable")
    online, parts, used = Online(shape, "view_tree", every, slack), list[Partials](), list[list[int]]()
    for start in range(0, many, 100):
        outcome = online.process(rows[order[start : start + 100]], start + 90)
        parts += [outcome.answered, outcome.revised]
        assert not len(outcome.log)
        used.append(online._method._views.state[[CELLS, STEPS]].tolist())  # type: ignore[attr-defined]
        if start % 700 == 0:
            before, online = online, Online(shape, "view_tree", every, slack)
            online.catch_up(before.last_us, before.rows())
    ticks = np.arange(0, online.last_us + 1, every)
    assert sum(map(len, parts)) > len(merged(shape, parts)) > 1000
    assert_same(merged(shape, parts), Multiway(shape).advance(rows, ticks))
    for of_table in zip(*used, strict=True):
        assert max(of_table[20:]) < 3 * max(of_table[:20])


def test_a_batch_behind_in_memory_comes_to_what_later_ones_left() -> None:
    rows, every, slack = three(400, 2, 8), 10, 80
    ahead, behind = (Online(CHAIN, "view_tree", every, slack) for _ in range(2))
    for online in (ahead, behind):
        online.process(rows[:200], 190)
    entered = [
        ahead.process(part, until).entered for part, until in ((rows[200:300], 260), (rows[240:330], 300))
    ]
    behind.catch_up(ahead.last_us, Rows.joined(entered))
    late = three(300, 2, 9)[240:]
    one, other = (online.process(late, 320) for online in (ahead, behind))
    assert len(one.revised) > 50
    assert_same(other.revised, one.revised)
    assert_same(other.answered, one.answered)


def test_a_count_beyond_64_bits_is_refused() -> None:
    one = Rows.of([0, 1, 2], [0] * 3, [9] * 3, [[1, 1]] * 3)
    many = Rows(**{**vars(one), "weight": np.full(3, 2**21 + 1)})
    views, wide = ViewTree(Shape(((0,), (0, 1), (1,)), (False,) * 3)), Rows.joined([many, many, many])
    with pytest.raises(OverflowError, match="counts of results up to"):
        views.advance(wide, np.array([5]))


@pytest.mark.parametrize(
    "attributes", [((0,), (0, 1), (1,)), ((0, 1), (1, 2), (0, 2))], ids=["chain", "circle"]
)
def test_revisions_cost_nothing_for_rows_of_other_keys(attributes: tuple[tuple[int, ...], ...]) -> None:
    """What is looked at is counted by the changes of views that are kept."""
    shape = Shape(attributes, (False,) * 3)
    near = Rows.of([0, 1, 2], [0] * 3, [100] * 3, [[1, 1, 1]] * 3)
    others = Rows.of(
        [0, 1, 2] * 500, [0] * 1500, [100] * 1500, np.repeat(np.arange(2, 502), 3)[:, None] @ [[1, 1, 1]]
    )
    late, ticks = Rows.of([0], [50], [100], [[1, 1, 1]]), np.arange(50, 61)
    kept = []
    for rows in (near, Rows.joined([near, others])):
        views = ViewTree(shape, slack_us=10**6)
        views.advance(rows, np.array([60]))
        before = int(views._views.state[EVENTS])
        assert views.revise(late, ticks).results.tolist() == [1] * 11
        kept.append(int(views._views.state[EVENTS]) - before)
    assert kept[0] == kept[1] <= 3
    assert len(revised(shape, near, late[:0], late, ticks)) == 11
