"""Rows folded to what keys have per tick: the same answers, sums included, from fewer rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.factorised import Factorised
from lakehouse.algorithms.join_aggregate.folded import at_ticks, folded, spread, spread_values
from lakehouse.algorithms.join_aggregate.held import HeldRows
from lakehouse.algorithms.join_aggregate.online import Online
from lakehouse.algorithms.join_aggregate.revision import ticks_in
from tests.algorithms.join_aggregate.streams import ROUGH, SMALL, assert_same, rows_of, shapes

SUMS = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 0, 0), Aggregate("max", 1, 0)))


@settings(max_examples=80, deadline=None)
@given(data=st.data(), every=st.integers(1, 5), values=st.sampled_from([SMALL, ROUGH]))
def test_folded_rows_have_the_answers_of_the_rows_to_the_last_digit(
    data: st.DataObject, every: int, values: Any
) -> None:
    shape = data.draw(shapes(sides=(2, 3), one_key=True))
    rows = data.draw(rows_of(shape, (0, 40), values))
    ticks = ticks_in(rows.enter_us, rows.leave_us, every)
    if not len(ticks):
        return
    own = spread(shape)
    fewer = folded(own, spread_values(shape, at_ticks(rows, every)))
    assert len(fewer) <= len(rows) and np.all(fewer.weight >= 1)
    assert_same(Factorised(own).advance(fewer, ticks), Factorised(shape).advance(rows, ticks))


@settings(deadline=None)
@given(st.lists(ROUGH, min_size=1, max_size=30))
def test_a_sum_is_kept_whole_and_in_no_more_parts_than_it_has_values(values: list[float]) -> None:
    rows = Rows.of(
        [0] * len(values), [0] * len(values), [9] * len(values), [[1]] * len(values), values=values
    )
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 0, 0),))
    found = folded(shape, rows)
    parts = found.values[:, 0].tolist()
    assert sum(map(Fraction, parts), Fraction(0)) == sum(map(Fraction, values), Fraction(0))
    assert found.weight.sum() == len(values)
    assert all(not math.isnan(part) for part in parts)


def test_an_hour_of_one_key_is_a_row_per_tick_and_side() -> None:
    n, second = 72_000, 1_000_000
    event = np.arange(n) * (3600 * second // n)
    values = np.column_stack([np.arange(n) % 10.0])
    rows = Rows.of(np.arange(n) % 2, event, event + 3600 * second, np.zeros((n, 1)), values=values)
    online = Online(SUMS, "factorised", 60 * second, 0)
    online.process(rows, 3600 * second)
    # A row at a tick leaves at one too; the others of its minute leave at the tick before.
    assert online.held == n
    assert len(online.rows()) <= 2 * 2 * 61


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_held_rows_are_found_by_their_key_until_they_end(data: st.DataObject) -> None:
    shape = data.draw(shapes(sides=(2, 3)))
    held, known, horizon = HeldRows(shape), Rows.none(shape), -100
    for number in range(data.draw(st.integers(1, 4))):
        rows = data.draw(rows_of(shape, first=100 * number))
        rows = Rows.of(rows.side, rows.enter_us, rows.leave_us, rows.keys[:, : shape.width], row=rows.row)
        rows = rows[rows.leave_us >= horizon]
        empty = np.zeros((len(rows), shape.columns))
        rows = Rows.of(rows.side, rows.enter_us, rows.leave_us, rows.keys, values=empty, row=rows.row)
        held.add(rows)
        known = Rows.joined([known, rows])
        horizon += data.draw(st.integers(0, 60))
        held.drop(horizon)
        known = known[known.leave_us >= horizon]
        wanted = known[: data.draw(st.integers(0, 3))]
        own = sorted(shape.attributes[0]) if shape.has_one_key else []
        keys = {tuple(key) for key in wanted.keys[:, own].tolist()}
        is_wanted = [not own or tuple(key) in keys for key in known.keys[:, own].tolist()]
        expected = known.row[np.array(is_wanted, bool)] if len(known) else known.row
        assert sorted(held.with_keys_of(wanted).row.tolist()) == sorted(expected.tolist())
        assert held.weight == len(known) == len(held.all())
