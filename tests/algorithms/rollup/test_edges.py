"""Edges at which systems with several granularities went wrong, each as a law of ours."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.contract import AGGREGATES, Aggregate
from tests.oracles.rollup.counter import CounterTree
from tests.oracles.rollup.counter_scan import CounterScan
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.recompute import Recompute

Rows = list[tuple[int, float]]
LEVELS = [Level(1, 6), Level(3, 24), Level(12, None)]
TOP = 12
ROWS = st.lists(st.tuples(st.integers(-70, 70), st.integers(-99, 99).map(float)), min_size=1, max_size=40)
TIMES = st.integers(-80, 80)
moderate = settings(max_examples=60, deadline=None)


def tree_of(rows: Rows, levels: list[Level] = LEVELS) -> DsmgaTree:
    tree = DsmgaTree(levels)
    tree.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])
    return tree


def truth(rows: Rows, start: int, end: int, aggregate: Aggregate) -> float | None:
    yardstick = Recompute()
    yardstick.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])
    return yardstick.query(start, end, aggregate).value


def batch_of_one(tree: DsmgaTree, start: int, end: int, aggregate: Aggregate) -> tuple[float | None, bool]:
    answer = tree.query_batch([start], [end], aggregate)[0]
    return answer.value, answer.exact


@st.composite
def nested_levels(draw: st.DrawFn) -> list[Level]:
    """Levels that keep as little as validation lets them."""
    widths = list(accumulate(draw(st.lists(st.integers(2, 5), min_size=2, max_size=3)), int.__mul__))
    keeps = [*widths[1:], None]
    return [Level(width, keep) for width, keep in zip(widths, keeps, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", AGGREGATES)
@moderate
@given(rows=ROWS, first=st.integers(-6, 5), nodes=st.integers(1, 6))
def test_a_range_that_starts_on_a_node_edge_leaves_the_node_before_out(
    aggregate: Aggregate, rows: Rows, first: int, nodes: int
) -> None:
    """Netdata #23127: the node that ends where the window starts was added to it; sums doubled."""
    start, end = first * TOP, (first + nodes) * TOP
    tree = tree_of(rows)

    answer = tree.query(start, end, aggregate)

    assert (answer.value, answer.exact) == (truth(rows, start, end, aggregate), True)
    assert batch_of_one(tree, start, end, aggregate) == (answer.value, True)


@moderate
@given(rows=ROWS, cut=TIMES)
def test_a_node_cut_by_two_neighbouring_ranges_is_paid_neither_twice_nor_too_little(
    rows: Rows, cut: int
) -> None:
    """Netdata #23512 and #23283: a stored total across a seam of rows or tiers was paid twice, partly, or not."""
    tree = tree_of(rows)

    left, right = tree.query(-84, cut, "sum"), tree.query(cut, 84, "sum")

    total = truth(rows, -84, 84, "sum")
    assert total is not None
    assert left.low is not None and left.high is not None and right.low is not None and right.high is not None
    assert left.low + right.low <= total <= left.high + right.high
    assert not (left.exact and right.exact) or (left.value or 0.0) + (right.value or 0.0) == total


@moderate
@given(readings=st.lists(st.integers(0, 20), min_size=1, max_size=30), width=st.integers(1, 9))
def test_one_reading_a_node_loses_no_step_of_a_counter(readings: list[int], width: int) -> None:
    """Netdata #23505: a bucket of one sample lost the seed that the next one needed; the query stayed empty."""
    tree, scan = CounterTree([Level(width, 3 * width), Level(3 * width, None)]), CounterScan()
    for number, reading in enumerate(readings):
        tree.insert_batch([number * width], [float(reading)])
        scan.insert_batch([number * width], [float(reading)])

    found = tree.increase(0, len(readings) * width)

    assert found.exact
    assert found.value == scan.increase(0, len(readings) * width)


@moderate
@given(rows=ROWS, level_index=st.integers(0, 1), back=st.integers(-4, 4), length=st.integers(1, 60))
def test_a_range_near_a_horizon_is_answered_by_what_is_kept_there(
    rows: Rows, level_index: int, back: int, length: int
) -> None:
    """VictoriaMetrics #10672: near a tier's edge the coarse interval was put on fine rows; sums came out small."""
    tree = tree_of(rows)
    start = tree.horizons[level_index] + back
    end = start + length

    answer = tree.query(start, end, "sum")

    total = truth(rows, start, end, "sum")
    fine_from, on_node_edge = tree.horizons[0] <= start, start % 3 == 0 and end % 3 == 0
    assert answer.low is not None and total is not None and answer.high is not None
    assert answer.low <= total <= answer.high
    assert answer.exact or not (fine_from or (level_index == 1 and back >= 0 and on_node_edge))


@moderate
@given(rows=ROWS, asked=st.tuples(TIMES, TIMES), later=st.lists(st.integers(1, 40), max_size=5))
def test_the_same_range_asked_again_as_it_ages_never_loses_the_truth(
    rows: Rows, asked: tuple[int, int], later: list[int]
) -> None:
    """VictoriaMetrics #10672: the wrong sum was cached and served again when the window had moved on."""
    tree, (start, end) = tree_of(rows), (min(asked), max(asked))
    total = truth(rows, start, end, "count")

    for newest in accumulate(later, initial=max(time_us for time_us, _ in rows)):
        tree.advance(newest)
        answer = tree.query(start, end, "count")
        assert total is not None and answer.rows_high is not None
        assert answer.rows_low <= total <= answer.rows_high


@moderate
@given(rows=ROWS, beyond=st.integers(1, 10**12))
def test_the_newest_unfinished_node_is_counted_however_long_the_range(rows: Rows, beyond: int) -> None:
    """VictoriaMetrics #563: totals shrank when the period grew, the last interval was left out."""
    tree = tree_of(rows)
    newest = max(time_us for time_us, _ in rows)

    answer = tree.query(-84 - beyond * TOP, newest + beyond, "count")

    assert (answer.value, answer.exact) == (float(len(rows)), True) or newest + beyond < TOP * (
        newest // TOP + 1
    )
    assert answer.rows_low <= len(rows) <= (answer.rows_high or 0)


@moderate
@given(
    levels=nested_levels(),
    steps=st.lists(st.integers(0, 400), min_size=1, max_size=30),
    size=st.integers(1, 10),
)
def test_the_shortest_retention_and_any_outage_lose_no_row(
    levels: list[Level], steps: list[int], size: int
) -> None:
    """Thanos #7908 and #3716: raw expired before the coarser block was built, after an outage or always."""
    times = list(accumulate(steps))
    tree = DsmgaTree(levels)
    for at in range(0, len(times), size):
        tree.insert_batch(times[at : at + size], [1.0] * len(times[at : at + size]))

    answer = tree.query(-(10**6), 10**6, "count")

    tree.check()
    assert answer.rows_low == answer.rows_high == len(times)


@moderate
@given(levels=nested_levels(), begin=st.integers(-500, 500), rows=st.integers(1, 60))
def test_a_history_that_begins_inside_a_node_keeps_its_first_rows(
    levels: list[Level], begin: int, rows: int
) -> None:
    """Thanos #6733: the first days fell into a period that had begun before them, and were never downsampled."""
    tree = tree_of([(begin + step, 1.0) for step in range(rows)], levels)
    tree.advance(begin + 10**6)

    answer = tree.query(begin - 10**4, begin + 10**4, "count")

    assert answer.rows_low == answer.rows_high == rows


@pytest.mark.parametrize("aggregate", AGGREGATES)
@moderate
@given(rows=ROWS, first=st.integers(-6, 5), nodes=st.integers(1, 6))
def test_every_granularity_gives_the_same_answer(
    aggregate: Aggregate, rows: Rows, first: int, nodes: int
) -> None:
    """Thanos #922: sums over downsampled data were 10 and 120 times those over raw rows."""
    start, end = first * TOP, (first + nodes) * TOP

    values = {tree_of(rows, [Level(width, None)]).query(start, end, aggregate).value for width in (1, 3, 12)}

    assert values == {truth(rows, start, end, aggregate)}


@moderate
@given(start=st.integers(0, 900), length=st.integers(1, 60), value=st.integers(1, 50))
def test_a_range_shorter_than_its_nodes_is_no_gap(start: int, length: int, value: int) -> None:
    """Thanos #1316 and #2737: windows shorter than the resolution found no sample and left gaps in the graph."""
    tree = tree_of([(time_us, float(value)) for time_us in range(1000)])

    answer = tree.query(start, start + length, "sum")

    assert answer.value == pytest.approx(value * length)


@moderate
@given(
    lives=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=6),
    width=st.integers(6, 9),
)
def test_a_counter_reset_on_a_node_edge_is_seen(lives: list[list[int]], width: int) -> None:
    """Thanos #1568: a node kept its last reading only; a reset at its edge hid where the next one ended higher."""
    tree, scan = CounterTree([Level(width, 2 * width), Level(2 * width, None)]), CounterScan()
    for number, rises in enumerate(lives):
        times = [number * width + step for step in range(len(rises))]
        readings = [float(reading) for reading in accumulate(rises)]
        tree.insert_batch(times, readings)
        scan.insert_batch(times, readings)

    found = tree.increase(0, width * len(lives))

    assert (found.value, found.exact) == (scan.increase(0, width * len(lives)), True)
