from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.counter_kernels import COUNTER
from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.counter import CounterTree, Increase
from tests.oracles.rollup.counter_scan import CounterScan

Row = tuple[int, float | None]

WATER = Path(__file__).parents[4] / "shared" / "data" / "smart-meter-water"
LEVELS = [Level(2, 12), Level(6, 48), Level(24, None)]
ONE_TIME_A_NODE = [Level(1, 12), Level(6, 48), Level(24, None)]
SECOND = 1_000_000

TIMES = st.integers(-60, 60)
# Few different values, so that ties, equal neighbours and falls all happen.
READINGS = st.integers(0, 9).map(float) | st.sampled_from([0.1, 0.3, 1e9 + 0.1])
GAPS = st.sampled_from([None, math.nan, math.inf, -1.0])
ROWS = st.lists(st.tuples(TIMES, READINGS | GAPS), max_size=40)
RANGES = st.tuples(st.integers(-70, 70), st.integers(-70, 70)).map(lambda ends: (min(ends), max(ends)))
moderate = settings(max_examples=100, deadline=None)


def tree_of(batches: list[list[Row]], levels: list[Level] = LEVELS) -> CounterTree:
    tree = CounterTree(levels)
    for rows in batches:
        tree.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])
        tree.check()
    return tree


def truth_of(rows: list[Row], asked: tuple[int, int]) -> float:
    scan = CounterScan()
    scan.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])
    return scan.increase(*asked)


def cut_into(rows: list[Row], cuts: list[int]) -> list[list[Row]]:
    ends = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    return [rows[start:end] for start, end in pairwise(ends)]


def holds(found: Increase, truth: float) -> bool:
    return found.low <= truth <= (math.inf if found.high is None else found.high)


def by_time(row: Row) -> tuple[int, float]:
    """Order of time, and of value inside an instant; rows that are no readings anywhere."""
    return row[0], row[1] if row[1] is not None and math.isfinite(row[1]) else 0.0


def whole_numbers(rows: list[Row]) -> list[Row]:
    return [(time_us, None if value is None else float(np.nan_to_num(value) // 1)) for time_us, value in rows]


@pytest.mark.slow
@moderate
@given(rows=ROWS, cuts=st.lists(st.integers(1, 39), max_size=6), asked=RANGES)
def test_the_true_increase_never_leaves_the_interval_whatever_the_order_and_the_batches(
    rows: list[Row], cuts: list[int], asked: tuple[int, int]
) -> None:
    found = tree_of(cut_into(rows, cuts)).increase(*asked)

    truth = truth_of(rows, asked)
    assert holds(found, truth)
    assert holds(found, found.value)
    assert not found.exact or found.value == pytest.approx(truth, rel=1e-12, abs=1e-6)


@moderate
@given(rows=ROWS, cuts=st.lists(st.integers(1, 39), max_size=6), asked=RANGES)
def test_a_level_with_one_time_a_node_takes_late_rows_exactly(
    rows: list[Row], cuts: list[int], asked: tuple[int, int]
) -> None:
    levels = [Level(1, 1000), Level(6, 2000), Level(24, None)]
    rows = list(dict(rows).items())

    found = tree_of(cut_into(rows, cuts), levels).increase(*asked)

    assert found.exact
    assert found.value == pytest.approx(truth_of(rows, asked), rel=1e-12, abs=1e-6)


@moderate
@given(rows=ROWS, cuts=st.lists(st.integers(1, 39), max_size=6))
def test_in_order_of_time_no_split_into_batches_leaves_a_trace(rows: list[Row], cuts: list[int]) -> None:
    in_order = sorted(whole_numbers(rows), key=by_time)

    split = tree_of(cut_into(in_order, cuts))

    assert split.snapshot() == tree_of([in_order]).snapshot()


@moderate
@given(rows=ROWS, asked=RANGES, data=st.data())
def test_in_one_batch_order_leaves_no_trace(
    rows: list[Row], asked: tuple[int, int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))

    assert tree_of([list(shuffled)]).snapshot() == tree_of([rows]).snapshot()


@moderate
@given(rows=ROWS, cuts=st.lists(st.integers(1, 39), max_size=6))
def test_in_order_of_time_every_node_is_exact(rows: list[Row], cuts: list[int]) -> None:
    tree = tree_of(cut_into(sorted(rows, key=by_time), cuts))

    for index in range(len(LEVELS)):
        nodes = tree.nodes(index)
        assert nodes["drops_low"].tolist() == nodes["drops_high"].tolist()


@moderate
@given(rows=ROWS, later=ROWS)
def test_a_restored_snapshot_goes_on_like_the_original(rows: list[Row], later: list[Row]) -> None:
    original, copy = tree_of([rows]), CounterTree(LEVELS)
    copy.restore(original.snapshot())

    for tree in (original, copy):
        tree.insert_batch([time_us for time_us, _ in later], [value for _, value in later])

    assert copy.snapshot() == original.snapshot()
    assert copy.increase(-50, 50) == original.increase(-50, 50)


@moderate
@given(rows=ROWS, cuts=st.lists(st.integers(1, 39), max_size=6))
def test_rebuilding_from_all_rows_makes_every_node_exact_again(rows: list[Row], cuts: list[int]) -> None:
    tree = tree_of(cut_into(rows, cuts))

    tree.rebuild(-72, 72, [time_us for time_us, _ in rows], [value for _, value in rows])

    tree.check()
    found = tree.increase(-72, 72)
    assert found.exact
    assert found.value == pytest.approx(truth_of(rows, (-72, 72)), rel=1e-12, abs=1e-6)


@moderate
@given(rows=st.lists(st.tuples(TIMES, READINGS), max_size=30), more=st.tuples(TIMES, READINGS))
def test_a_row_more_never_lessens_the_increase_and_adds_at_most_the_greatest_reading(
    rows: list[tuple[int, float]], more: tuple[int, float]
) -> None:
    """The two inequalities that the interval of overlapping nodes rests on."""
    before = truth_of([*rows], (-70, 70))
    after = truth_of([*rows, more], (-70, 70))

    greatest = max(value for _, value in [*rows, more])
    # A row before the first or after the last also adds the step to it.
    ends = [more, *rows]
    is_outermost = bool(rows) and more in (min(ends), max(ends))
    assert before <= after + 1e-6
    assert is_outermost or after - before <= greatest + 1e-6


def test_a_reset_counts_what_was_before_and_what_came_after() -> None:
    tree = tree_of([[(0, 100.0), (1, 104.0), (2, 3.0), (3, 8.0)]])

    found = tree.increase(0, 4)

    assert (found.value, found.exact) == (12.0, True)


def test_a_reset_between_two_batches_is_seen() -> None:
    tree = tree_of([[(0, 100.0), (1, 104.0)], [(30, 3.0), (31, 8.0)]])

    assert tree.increase(0, 40).value == 4.0 + 8.0


def test_two_readings_at_one_time_are_no_reset() -> None:
    tree = tree_of([[(0, 1.0), (5, 7.0)], [(5, 4.0), (9, 9.0)]], [Level(1, 100), Level(24, None)])

    assert tree.increase(0, 10).value == 8.0


def test_a_late_row_in_the_midst_of_a_node_widens_the_interval_until_the_node_is_rebuilt() -> None:
    tree = tree_of([[(0, 10.0), (4, 14.0), (8, 19.0)], [(6, 16.0)]], [Level(24, None)])

    widened = tree.increase(0, 24)
    tree.rebuild(0, 24, [0, 4, 8, 6], [10.0, 14.0, 19.0, 16.0])

    assert (widened.value, widened.exact) == (9.0, False)
    assert widened.low == pytest.approx(9.0)
    assert widened.high == pytest.approx(9.0 + 19.0)
    assert tree.increase(0, 24) == Increase(9.0, 9.0, 9.0, True, 1)


def test_a_cut_node_gives_between_nothing_and_all_of_its_increase() -> None:
    tree = tree_of([[(0, 10.0), (4, 14.0), (20, 30.0), (25, 33.0)]], [Level(24, None)])

    found = tree.increase(2, 30)

    assert found.low == pytest.approx(3.0)
    assert found.high == pytest.approx(23.0)
    assert found.value == pytest.approx(3.0 + 20.0 * 18 / 20)


def test_between_the_two_readings_of_a_node_there_is_none_and_so_no_increase() -> None:
    tree = CounterTree([Level(100, None)])
    tree.insert_batch([10, 50], [0.0, 40.0])

    found = tree.increase(20, 40)

    assert (found.value, found.low, found.high, found.exact) == (0.0, 0.0, 0.0, True)


def test_what_the_top_level_forgot_leaves_the_upper_side_open() -> None:
    tree = tree_of([[(0, 1.0), (100, 5.0), (103, 9.0)]], [Level(2, 12), Level(12, 24)])

    found = tree.increase(-10, 120)

    assert (found.low, found.high, found.exact) == (4.0, None, False)


def test_what_is_no_reading_is_counted_and_kept_out() -> None:
    tree = tree_of([[(0, 1.0), (1, None), (2, math.nan), (3, math.inf), (4, -5.0), (5, 3.0)]])

    assert (tree.missing, tree.increase(0, 6).value) == (4, 2.0)


def test_a_rebuild_that_would_cut_a_node_of_the_top_is_refused() -> None:
    with pytest.raises(ValueError, match="multiples of 24 us, found 0 and 30"):
        tree_of([[(0, 1.0)]]).rebuild(0, 30, [], [])


def test_a_rebuild_with_a_row_of_another_time_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rows in \[0, 24\), found 3 to 24"):
        tree_of([[(0, 1.0)]]).rebuild(0, 24, [3, 24], [1.0, 2.0])


@pytest.mark.parametrize("field", ["n", "last", "drops_high", "first_us", "start"])
def test_check_finds_a_broken_node(field: str) -> None:
    tree = tree_of([[(0, 1.0), (1, 3.0), (7, 9.0), (30, 11.0)]])
    tree._nodes[-1][field][-1] += 1

    with pytest.raises(AssertionError):
        tree.check()


def water() -> tuple[np.ndarray, np.ndarray]:
    if not WATER.is_dir():
        pytest.skip("real input is not beside this checkout: ../shared/data/smart-meter-water")
    files = [
        np.genfromtxt(path, delimiter=",", skip_header=1) for path in sorted(WATER.glob("*-[123].csv.gz"))
    ]
    rows = np.concatenate(files)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    return rows[:, 0].astype(np.int64) * SECOND, rows[:, 1]


@pytest.mark.slow
def test_a_house_s_water_meter_is_read_exactly_on_node_edges_and_within_the_interval_elsewhere() -> None:
    times, litres = water()
    hour, day = 3600 * SECOND, 86_400 * SECOND
    tree = CounterTree([Level(60 * SECOND, 2 * day), Level(hour, 30 * day), Level(day, None)])
    for part in np.array_split(np.arange(len(times)), 50):
        tree.insert_batch(times[part], litres[part])

    rng = np.random.default_rng(6)
    asked = np.sort(rng.integers(times[0], times[-1], (400, 2)), axis=1)
    asked[:200] -= asked[:200] % day
    found = [tree.increase(*each) for each in asked.tolist()]

    edges = [np.searchsorted(times, each) for each in asked]
    truths = [litres[after - 1] - litres[first] if after > first else 0.0 for first, after in edges]
    assert all(holds(each, truth) for each, truth in zip(found, truths, strict=True))
    assert all(
        each.exact and each.value == truth for each, truth in zip(found[:200], truths[:200], strict=True)
    )
    assert sum(len(tree.nodes(index)) for index in range(3)) * COUNTER.itemsize < times.nbytes
