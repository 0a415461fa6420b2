from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Rows, Shape
from lakehouse.algorithms.join_aggregate.incremental import Incremental
from tests.algorithms.join_aggregate.streams import Case, cases
from tests.oracles.join_aggregate.as_paper import IncrementalAsPaper
from tests.oracles.join_aggregate.contents import rows_held
from tests.oracles.join_aggregate.theorem_1 import changed_count, join_count

Sides = tuple[Counter[Hashable], Counter[Hashable]]

COUNT = Shape(((0,), (0,)), (False, False))
MULTISETS = st.lists(st.integers(0, 3), max_size=8).map(lambda keys: Counter[Hashable](keys))
CHANGES = st.tuples(MULTISETS, MULTISETS)


def as_printed(count: int, left: Sides, right: Sides) -> int:
    """Theorem 1 as the paper prints it: (C & D) x (A & B) where (C - D) x (A & B) is meant."""
    kept = left[0] & left[1]
    meant, printed = join_count(right[0] - right[1], kept), join_count(right[0] & right[1], kept)
    return changed_count(count, left, right) + meant - printed


@settings(max_examples=500, deadline=None)
@given(left=CHANGES, right=CHANGES)
def test_theorem_1_holds_for_any_change_of_two_multisets(left: Sides, right: Sides) -> None:
    before, after = join_count(left[0], right[0]), join_count(left[1], right[1])

    assert changed_count(before, left, right) == after


def test_theorem_1_as_printed_fails_where_nothing_changes_at_all() -> None:
    left: Sides = (Counter("a"), Counter("a"))
    right: Sides = (Counter("a"), Counter("a"))

    assert changed_count(1, left, right) == 1
    assert as_printed(1, left, right) == 0


def test_theorem_1_as_printed_fails_for_a_change_of_both_sides_too() -> None:
    def fails(changes: tuple[Sides, Sides]) -> bool:
        left, right = changes
        changed = min(len(left[0] - left[1]), len(right[0] - right[1])) > 0
        before, after = join_count(left[0], right[0]), join_count(left[1], right[1])
        return changed and as_printed(before, left, right) != after

    left, right = find(st.tuples(CHANGES, CHANGES), fails)

    assert changed_count(join_count(left[0], right[0]), left, right) == join_count(left[1], right[1])


@settings(max_examples=60, deadline=None)
@given(case=cases(st.just(COUNT)))
def test_what_happens_between_two_ticks_is_one_change_of_theorem_1(case: Case) -> None:
    counts, windows = Incremental(COUNT), (Counter[Hashable](), Counter[Hashable]())
    count = 0
    for rows, ticks in case.calls:
        counts.advance(rows, np.array([], np.int64))
        for tick in ticks:
            found = counts.advance(Rows.none(COUNT), np.array([tick]))
            held = rows_held(counts)
            there = held[held.enter_us <= tick]
            after = tuple(Counter[Hashable](there.keys[there.side == side, 0].tolist()) for side in (0, 1))
            count = changed_count(count, (windows[0], after[0]), (windows[1], after[1]))
            assert found.results.sum() == count
            windows = after[0], after[1]


def test_the_paper_s_terms_of_one_row_that_enters_as_others_leave() -> None:
    # A: a leaves, a2 stays. B: b leaves, b2 stays. Then f enters A.
    rows = Rows.of([0, 0, 1, 1, 0], [0, 1, 0, 1, 9], [5, 20, 6, 20, 20], np.full((5, 1), 7))
    counts = IncrementalAsPaper(COUNT, buckets=2)

    before = counts.advance(rows, np.array([1]))
    after = counts.advance(Rows.none(COUNT), np.array([9]))

    set_a_wb, set_b_wa, set_a_set_b, f_wb = 1, 1, 1, 1
    assert before.results.tolist() == [4]
    assert after.results.tolist() == [4 + f_wb - set_a_wb - set_b_wa - set_a_set_b]


@pytest.mark.parametrize(
    ("make", "n"), [(Incremental, 110_000), (partial(IncrementalAsPaper, buckets=3), 10_000)]
)
def test_sums_do_not_drift_in_ten_million_changes(make: Callable[[Shape], Incremental], n: int) -> None:
    rng = np.random.default_rng(3)
    shape = Shape(((0,), (0,)), (False, False), (Aggregate("sum", 0, 0),))
    sums, values = make(shape), rng.normal(size=(n, 1)) * 10.0 ** rng.integers(-20, 20, (n, 1))
    enter = np.arange(n)
    rows = Rows.of(rng.integers(0, 2, n), enter, enter + 100, np.zeros((n, 1)), values=values)
    lasting = Rows.of([0, 1], [0, 0], [n + 200, n + 200], [[0], [0]], values=[[0.1], [0.0]])
    sums.advance(lasting, np.array([0]))
    sums.advance(rows, np.arange(100, n, 100))

    found = sums.advance(rows[:0], np.array([n + 150]))

    assert (found.high.tolist(), found.low.tolist()) == ([[0.1]], [[0.0]])


def test_a_third_stream_is_refused() -> None:
    with pytest.raises(
        ValueError, match="incremental cannot run this: it joins two streams, this query has 3"
    ):
        Incremental(Shape(((0,),) * 3, (False,) * 3))


def test_a_max_is_refused() -> None:
    with pytest.raises(ValueError, match="which works for COUNT and SUM and not for MAX"):
        Incremental(Shape(((0,), (0,)), (False, False), (Aggregate("max", 0, 0),)))
