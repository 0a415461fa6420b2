"""Answers now, revised within the slack, with what the log leaves to the repair: together the answers of all rows."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.choice import methods_for
from lakehouse.algorithms.join_aggregate.contract import Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online
from lakehouse.algorithms.join_aggregate.revision import connected, merged, missing, revised, ticks_in
from tests.algorithms.join_aggregate.streams import rows_of, shapes
from tests.oracles.join_aggregate.materialised import Materialised

EVERY = st.integers(1, 4)
SLACK = st.integers(0, 8)
COUNTS = Shape(attributes=((0,), (0,)), grouped=(False, False))


def told(partials: Partials) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """Return (tick, *group) -> results, counts, sums and extremes; values here are halves, whose sums are exact."""
    found = {}
    for at in range(len(partials)):
        sums = (partials.high[at] + partials.low[at]).tolist()
        extremes = [None if math.isnan(each) else each for each in partials.extreme[at].tolist()]
        counts = int(partials.results[at]), tuple(partials.counted[at].tolist())
        found[int(partials.tick_us[at]), *partials.group[at].tolist()] = (
            *counts,
            tuple(sums),
            tuple(extremes),
        )
    return found


def whole(shape: Shape, rows: Rows, every: int, last: int) -> dict[tuple[int, ...], tuple[Any, ...]]:
    """Return the answers of all rows at every tick up to the last, by the yardstick."""
    ticks = ticks_in(rows.enter_us, np.minimum(rows.leave_us, last), every)
    return told(Materialised(shape).advance(rows, ticks)) if len(ticks) else {}


@st.composite
def runs(draw: Any) -> tuple[Shape, Rows, list[tuple[int, int, int]], int, int]:
    """A shape, rows in order of arrival, calls as (from, to, until), every and slack."""
    shape = draw(shapes(sides=(2, 3)))
    rows = draw(rows_of(shape))
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    until, calls = -16, []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        until += draw(st.integers(0, 20))
        calls.append((start, end, until))
    return shape, rows, calls, draw(EVERY), draw(SLACK)


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_answers_and_repairs_are_the_answers_of_all_rows(run: Any, data: st.DataObject) -> None:
    shape, rows, calls, every, slack = run
    method = data.draw(st.sampled_from([name for name, why_not in methods_for(shape) if why_not is None]))
    online, parts = Online(shape, method, every, slack), []
    counted_from, repaired_to = rows.enter_us.copy(), 0
    for start, end, until in calls:
        outcome = online.process(rows[start:end], until)
        parts += [outcome.answered, outcome.revised]
        counted_from[outcome.log.row] = outcome.log.horizon_us
        assert outcome.log.event_us.tolist() == rows.enter_us[outcome.log.row].tolist()
        if data.draw(st.booleans()):
            before, online = online, Online(shape, method, every, slack)
            online.catch_up(before.last_us, before.rows())
            assert (online.last_us, _held_by(online)) == (before.last_us, _held_by(before))
        if data.draw(st.booleans()):
            parts.append(missing(shape, rows[:end], counted_from[:end], every))
            counted_from[:end], repaired_to = rows.enter_us[:end], end
    parts.append(missing(shape, rows, counted_from, every))
    last = calls[-1][2] // every * every
    assert told(merged(shape, parts)) == whole(shape, rows, every, last)
    assert repaired_to <= len(rows)


def _held_by(online: Online) -> list[str]:
    """Return the rows that a query holds, in an order of their own."""
    rows = online.rows()
    columns = [getattr(rows, field.name).tolist() for field in fields(rows)]
    return sorted(map(repr, zip(*columns, strict=True)))


@settings(max_examples=80, deadline=None)
@given(run=runs())
def test_without_rows_later_than_the_slack_there_is_no_log(run: Any) -> None:
    shape, rows, calls, every, _ = run
    online, parts = Online(shape, "multiway", every, 1000), []
    for start, end, until in calls:
        outcome = online.process(rows[start:end], until)
        parts += [outcome.answered, outcome.revised]
        assert len(outcome.log) == 0
    assert told(merged(shape, parts)) == whole(shape, rows, every, calls[-1][2] // every * every)


@settings(max_examples=80, deadline=None)
@given(run=runs(), data=st.data())
def test_revisions_are_what_all_rows_add_to_some(run: Any, data: st.DataObject) -> None:
    shape, rows, _, every, _ = run
    is_new = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), bool)
    ticks = ticks_in(rows.enter_us, rows.leave_us, every)
    if not len(ticks):
        return
    before = Materialised(shape).advance(rows[~is_new], ticks)
    gained = revised(shape, rows[~is_new], rows[:0], rows[is_new], ticks)
    assert told(merged(shape, [before, gained])) == told(Materialised(shape).advance(rows, ticks))


@pytest.mark.parametrize(
    ("attributes", "near"),
    [
        (((0,), (0, 1), (1,)), [False, True, False, False, True, False]),
        (((0, 1), (1, 2), (0, 2)), [False, False, True, True, False, False]),
    ],
)
def test_a_revision_looks_at_rows_that_may_share_a_result_with_a_late_one(
    attributes: tuple[tuple[int, ...], ...], near: list[bool]
) -> None:
    keys = [[1, 1, 0], [1, 2, 3], [2, 1, 7], [1, 0, 4], [3, 2, 4], [2, 4, 1]]
    rows = Rows.of([0, 1, 1, 2, 2, 2], [0] * 6, [9] * 6, keys)
    late = Rows.of([0], [1], [9], [[1, 1, 0]])
    shape = Shape(attributes, (False,) * 3)

    assert connected(shape, rows, late).tolist() == near


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), max_size=6),
    EVERY,
)
def test_ticks_are_those_in_any_interval(intervals: list[tuple[int, int]], every: int) -> None:
    first, last = np.array(intervals, np.int64).reshape(-1, 2).T
    expected = {
        tick
        for tick in range(-20, 21)
        if tick % every == 0 and any(low <= tick <= high for low, high in intervals)
    }
    assert ticks_in(first, last, every).tolist() == sorted(expected)


def test_a_year_without_rows_costs_no_tick() -> None:
    online = Online(COUNTS, "factorised", 1, 0)
    year = 31_536_000_000_000
    rows = Rows.of([0, 1, 0, 1], [0, 5, year, year], [9, 14, year + 9, year + 9], [[1]] * 4)
    outcome = online.process(rows, 2 * year)
    assert len(outcome.answered) == 5 + 10


def test_a_bucket_that_had_no_rows_while_ticks_passed_takes_them_as_late() -> None:
    online = Online(COUNTS, "factorised", 10, 20)
    online.process(Rows.none(COUNTS), 100)
    outcome = online.process(Rows.of([0, 1], [75, 85], [200, 200], [[1], [1]]), 100)
    assert outcome.log.horizon_us.tolist() == [] and outcome.late == 2
    assert outcome.revised.tick_us.tolist() == [90, 100]
    older = online.process(Rows.of([0], [65], [200], [[1]], row=[7]), 110)
    assert (older.log.row.tolist(), older.log.horizon_us.tolist()) == ([7], [80])
    assert older.revised.tick_us.tolist() == [90, 100] and older.answered.results.tolist() == [2]


@pytest.mark.parametrize(("every", "slack"), [(0, 0), (-1, 0), (1, -1)])
def test_ticks_and_slack_that_make_no_sense_are_refused(every: int, slack: int) -> None:
    with pytest.raises(ValueError, match="expected ticks above 0 apart"):
        Online(COUNTS, "factorised", every, slack)
