"""One body for every rollup method: the four laws and the guaranteed interval, against the yardstick."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.bounds import EPS
from tests.oracles.rollup.contract import AGGREGATES, Aggregate, Answer, Rollup, Snapshot
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.paper_tree import PaperTree
from tests.oracles.rollup.recompute import Recompute

Row = tuple[int, float | None]

METHODS: dict[str, Callable[[], Rollup]] = {
    "recompute": Recompute,
    "dsmga_one_level": lambda: DsmgaTree([Level(4, None)]),
    "dsmga_three_levels": lambda: DsmgaTree([Level(1, 6), Level(3, 24), Level(12, None)]),
    "dsmga_forgets": lambda: DsmgaTree([Level(1, 5), Level(5, 20), Level(10, 40)]),
    "paper_binary": lambda: PaperTree(base_us=1, alpha=2, exponent=1),
    "paper_ternary": lambda: PaperTree(base_us=2, alpha=3, exponent=2),
    "paper_spreads_whole": lambda: PaperTree(base_us=1, alpha=2, exponent=1, spread="whole"),
}
TIMES = st.integers(-70, 70)
DOUBLES = st.floats(-1e9, 1e9) | st.sampled_from([0.1, -0.1, 1e16, -1e16, 0.0, -0.0])
WHOLE = st.integers(-1000, 1000).map(float)
GAPS = st.sampled_from([None, math.nan, math.inf, -math.inf])
ROWS = st.lists(st.tuples(TIMES, DOUBLES | GAPS), max_size=40)
WHOLE_ROWS = st.lists(st.tuples(TIMES, WHOLE | GAPS), max_size=40)
RANGES = st.tuples(st.integers(-80, 80), st.integers(-80, 80)).map(lambda ends: (min(ends), max(ends)))

every_method = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS.keys())
moderate = settings(max_examples=40, deadline=None)


def insert_all(rollup: Rollup, rows: list[Row]) -> None:
    rollup.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])


def insert_and_check_each(rollup: Rollup, rows: list[Row]) -> None:
    for time_us, value in rows:
        rollup.insert(time_us, value)
        rollup.check()


def filled(make: Callable[[], Rollup], rows: list[Row]) -> Rollup:
    rollup = make()
    insert_all(rollup, rows)
    return rollup


def one_by_one(make: Callable[[], Rollup], rows: list[Row]) -> Rollup:
    rollup = make()
    for time_us, value in rows:
        rollup.insert(time_us, value)
    return rollup


def restored(make: Callable[[], Rollup], snapshot: Snapshot) -> Rollup:
    rollup = make()
    rollup.restore(snapshot)
    return rollup


def holds(answer: Answer, truth: float) -> bool:
    low = -math.inf if answer.low is None else answer.low
    high = math.inf if answer.high is None else answer.high
    return low <= truth <= high


def same(value: float | None, truth: float | None, apart: float) -> bool:
    return value is truth if value is None or truth is None else abs(value - truth) <= apart


def rounding(rows: list[Row]) -> float:
    finite = [abs(value) for _, value in rows if value is not None and math.isfinite(value)]
    return EPS * len(finite) * max(finite, default=0.0)


@pytest.mark.slow
@every_method
@pytest.mark.parametrize("aggregate", AGGREGATES)
@moderate
@given(rows=ROWS, asked=RANGES)
def test_truth_and_value_stay_in_the_interval_and_exact_means_equal(
    make: Callable[[], Rollup], aggregate: Aggregate, rows: list[Row], asked: tuple[int, int]
) -> None:
    answer = filled(make, rows).query(*asked, aggregate)

    truth = filled(Recompute, rows).query(*asked, aggregate)

    assert holds(answer, truth.value) if truth.value is not None else answer.rows_low == 0
    assert holds(answer, answer.value) if answer.value is not None else answer.rows == 0
    assert same(answer.value, truth.value, rounding(rows)) or not answer.exact


@every_method
@moderate
@given(rows=ROWS, asked=RANGES)
def test_the_number_of_rows_stays_between_its_sides(
    make: Callable[[], Rollup], rows: list[Row], asked: tuple[int, int]
) -> None:
    answer = filled(make, rows).query(*asked, "max")

    truth = filled(Recompute, rows).query(*asked, "max")

    assert answer.rows_low <= truth.rows <= (math.inf if answer.rows_high is None else answer.rows_high)
    assert answer.rows_low <= answer.rows <= (math.inf if answer.rows_high is None else answer.rows_high)


@every_method
@moderate
@given(rows=WHOLE_ROWS, cut=st.integers(0, 40))
def test_a_batch_does_what_its_rows_do_one_by_one(
    make: Callable[[], Rollup], rows: list[Row], cut: int
) -> None:
    batched = filled(make, rows[:cut])
    insert_all(batched, rows[cut:])

    assert batched.snapshot() == one_by_one(make, rows).snapshot()


@every_method
@moderate
@given(rows=WHOLE_ROWS, data=st.data())
def test_arrival_order_leaves_no_trace(
    make: Callable[[], Rollup], rows: list[Row], data: st.DataObject
) -> None:
    shuffled = one_by_one(make, data.draw(st.permutations(rows)))

    in_order = filled(make, sorted(rows, key=lambda row: row[0]))

    assert shuffled.snapshot() == in_order.snapshot()


@every_method
@moderate
@given(rows=WHOLE_ROWS, cuts=st.lists(st.integers(0, 40), max_size=5), data=st.data())
def test_any_order_any_split_and_a_restart_after_every_batch_leave_no_trace(
    make: Callable[[], Rollup], rows: list[Row], cuts: list[int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    rollup = make()

    for start, end in pairwise([0, *sorted(cuts), len(rows)]):
        insert_all(rollup, list(shuffled[start:end]))
        rollup = restored(make, rollup.snapshot())

    assert rollup.snapshot() == filled(make, rows).snapshot()


@every_method
@moderate
@given(rows=ROWS, later=ROWS)
def test_a_restored_snapshot_goes_on_like_the_original(
    make: Callable[[], Rollup], rows: list[Row], later: list[Row]
) -> None:
    original = filled(make, rows)
    copy = restored(make, original.snapshot())

    insert_all(original, later)
    insert_all(copy, later)

    assert copy.snapshot() == original.snapshot()
    assert copy.query(-50, 50, "avg") == original.query(-50, 50, "avg")


@every_method
@moderate
@given(rows=ROWS, later=ROWS)
def test_a_snapshot_is_not_changed_by_later_rows(
    make: Callable[[], Rollup], rows: list[Row], later: list[Row]
) -> None:
    rollup = filled(make, rows)
    taken = rollup.snapshot()

    insert_all(rollup, later)

    assert taken == filled(make, rows).snapshot()


@every_method
@moderate
@given(rows=ROWS, batch=ROWS)
def test_every_step_keeps_the_invariants(
    make: Callable[[], Rollup], rows: list[Row], batch: list[Row]
) -> None:
    rollup = make()

    insert_and_check_each(rollup, rows)
    insert_all(rollup, batch)

    rollup.check()


@every_method
@moderate
@given(rows=WHOLE_ROWS, ends=st.lists(st.integers(-80, 80), min_size=3, max_size=6))
def test_neighbouring_counts_hold_the_count_of_their_union(
    make: Callable[[], Rollup], rows: list[Row], ends: list[int]
) -> None:
    rollup = filled(make, rows)
    edges = sorted(ends)

    parts = [rollup.query(start, end, "count") for start, end in pairwise(edges)]

    truth = filled(Recompute, rows).query(edges[0], edges[-1], "count").rows_low
    assert sum(part.rows_low for part in parts) <= truth
    assert truth <= sum(math.inf if part.rows_high is None else part.rows_high for part in parts)


@every_method
def test_no_rows_sum_to_zero_and_have_no_mean_or_extreme(make: Callable[[], Rollup]) -> None:
    empty = make()

    answers = [empty.query(-10, 10, aggregate) for aggregate in AGGREGATES]

    assert [answer.value for answer in answers] == [0.0, 0.0, None, None, None]
    assert all(answer.exact for answer in answers)


@every_method
def test_a_range_that_ends_where_it_starts_is_empty(make: Callable[[], Rollup]) -> None:
    rollup = filled(make, [(5, 1.0), (6, 2.0)])

    answer = rollup.query(5, 5, "count")

    assert (answer.value, answer.exact) == (0.0, True)


@every_method
def test_a_value_that_is_no_number_is_counted_and_kept_out(make: Callable[[], Rollup]) -> None:
    rollup = filled(make, [(1, 4.0), (2, None), (3, math.nan), (4, math.inf), (5, -math.inf)])

    assert rollup.snapshot().missing == 4
    assert rollup.query(-100, 100, "sum").value == 4.0


@every_method
def test_unequal_numbers_of_times_and_values_are_refused(make: Callable[[], Rollup]) -> None:
    with pytest.raises(ValueError, match=r"argument|one value per time"):
        make().insert_batch([1, 2], [1.0])


@every_method
def test_a_snapshot_of_another_method_is_refused(make: Callable[[], Rollup]) -> None:
    stranger = DsmgaTree([Level(7, None)]).snapshot()

    with pytest.raises(ValueError, match="expected a snapshot of"):
        make().restore(stranger)
