"""Exact numbers in bands, distances and comparisons, against Python's own whole numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.bucketing import place_in_buckets
from lakehouse.algorithms.late_join.conditions import (
    OPERATORS,
    Band,
    Comparison,
    Condition,
    Distance,
    Equality,
)
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.repair import missing_pairs
from tests.oracles.late_join.nested_loop import NestedLoop, as_set, exact_numbers

EDGES = sorted(
    {
        sign * (base + by)
        for base in (0, 3, 2**31, 2**53, 2**62, 2**63, 2**64, 2**65, 10**30, 2**124)
        for by in (-3, -1, 0, 1, 2)
        for sign in (1, -1)
    }
)
NEAR = st.integers(-6, 6)
BASES = st.sampled_from([0, 2**53, -(2**53), 2**63, -(2**63), 2**64, 10**37, -(10**37), 2**125 - 9])
NUMBERS = st.one_of(st.none(), NEAR, st.sampled_from(EDGES))
REACHES = st.one_of(st.integers(0, 9), st.sampled_from([abs(each) for each in EDGES]), st.just(2**126))


@st.composite
def cases(draw: Any) -> tuple[Condition, Batch]:
    """A condition on exact numbers, and rows whose numbers are near each other or at the edges of words."""
    base = draw(BASES)
    near = NEAR.map(lambda by: base + by)
    number = st.one_of(near, near, NUMBERS)
    rows = draw(st.lists(st.tuples(st.integers(0, 1), number, number, number), max_size=24))
    where = draw(
        st.lists(
            st.builds(
                Comparison,
                *(st.just(2), st.sampled_from(OPERATORS), st.just(2)),
                plus=st.one_of(NEAR, st.sampled_from(EDGES), st.sampled_from([2**126, -(2**126)])),
                scale=st.just(0),
            ),
            max_size=2,
        )
    )
    reach = draw(REACHES)
    made: list[Condition] = [
        Equality(tuple(where)),
        Band(reach, where=tuple(where), scale=0),
        Distance(reach, where=tuple(where), scale=0),
    ]
    condition = draw(st.sampled_from(made))
    x, y, z = ([row[place] for row in rows] for place in (1, 2, 3))
    columns = {Equality: 1, Band: 2, Distance: 3}[type(condition)]
    if isinstance(condition, Band):
        condition = Band(reach, where=tuple(_at(each, 1) for each in where), scale=0)
    if isinstance(condition, Equality):
        condition = Equality(tuple(_at(each, 0) for each in where))
    numbers = exact_numbers(*{1: (z,), 2: (x, z), 3: (x, y, z)}[columns])
    side = [row[0] for row in rows]
    return condition, Batch.of(side, np.arange(len(rows)), numbers=numbers)


def _at(each: Comparison, place: int) -> Comparison:
    return Comparison(place, each.operator, place, each.plus, each.scale)


@settings(max_examples=300, deadline=None)
@given(case=cases())
def test_pairs_are_those_of_whole_numbers_without_bounds(case: tuple[Condition, Batch]) -> None:
    condition, rows = case
    expected = as_set(NestedLoop(condition, 100).process(rows).pairs)
    join = QJoin(condition, 100, NeededSlack(0.9, 100, 10))
    assert as_set(join.process(rows).pairs) == expected
    everything = np.arange(len(rows))
    assert as_set(missing_pairs(condition, 100, rows, everything, np.full(len(rows), 2**40))) == expected


@settings(max_examples=100, deadline=None)
@given(case=cases(), buckets=st.integers(1, 5))
def test_buckets_have_all_pairs(case: tuple[Condition, Batch], buckets: int) -> None:
    condition, rows = case
    found = set[tuple[int, int]]()
    positions, bucket = place_in_buckets(condition, rows, buckets)
    for number in range(buckets):
        found |= as_set(NestedLoop(condition, 100).process(rows[positions[bucket == number]]).pairs)
    assert found == as_set(NestedLoop(condition, 100).process(rows).pairs)


@pytest.mark.parametrize(
    ("condition", "pairs"),
    [
        (Equality((Comparison(0, ">", 0, 0, 0),)), {(1, 0)}),
        (Band(0, scale=0), {(0, 0), (1, 1)}),
    ],
)
def test_neighbours_around_2_to_the_53_are_not_equal(
    condition: Condition, pairs: set[tuple[int, int]]
) -> None:
    numbers = exact_numbers([2**53, 2**53 + 1, 2**53, 2**53 + 1])
    rows = Batch.of([0, 0, 1, 1], [1, 2, 3, 4], row=[0, 1, 0, 1], numbers=numbers)
    assert as_set(QJoin(condition, 10, NeededSlack(0.9, 100, 10)).process(rows).pairs) == pairs
