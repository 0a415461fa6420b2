"""Many ranges answered at once: the same as one by one, and never outside the truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.bounds import EPS
from tests.oracles.rollup.contract import AGGREGATES, Aggregate, Answer
from tests.oracles.rollup.dsmga_tree import DsmgaTree
from tests.oracles.rollup.paper_tree import PaperTree
from tests.oracles.rollup.recompute import Recompute

Tree = DsmgaTree | PaperTree
Row = tuple[int, float | None]
Range = tuple[int, int]

TREES: dict[str, Callable[[], Tree]] = {
    "one_level": lambda: DsmgaTree([Level(4, None)]),
    "three_levels": lambda: DsmgaTree([Level(1, 6), Level(3, 24), Level(12, None)]),
    "forgets": lambda: DsmgaTree([Level(1, 5), Level(5, 20), Level(10, 40)]),
    "paper_binary": lambda: PaperTree(base_us=1, alpha=2, exponent=1),
    "paper_ternary": lambda: PaperTree(base_us=2, alpha=3, exponent=2),
    "paper_spreads_whole": lambda: PaperTree(base_us=1, alpha=2, exponent=1, spread="whole"),
}
TIMES = st.integers(-70, 70)
WHOLE = st.integers(-1000, 1000).map(float)
DOUBLES = st.floats(-1e9, 1e9) | st.sampled_from([0.1, -0.1, 1e16, -1e16, -0.0])
RANGES = st.lists(st.tuples(st.integers(-80, 80), st.integers(-80, 80)), min_size=1, max_size=12)

every_tree = pytest.mark.parametrize("make", TREES.values(), ids=TREES.keys())
moderate = settings(max_examples=40, deadline=None)


def filled(rollup: Tree | Recompute, rows: list[Row]) -> Tree | Recompute:
    rollup.insert_batch([time_us for time_us, _ in rows], [value for _, value in rows])
    return rollup


def tree_of(make: Callable[[], Tree], rows: list[Row]) -> Tree:
    tree = make()
    filled(tree, rows)
    return tree


def batch(tree: Tree, asked: list[Range], aggregate: Aggregate) -> list[Answer]:
    found = tree.query_batch([start for start, _ in asked], [end for _, end in asked], aggregate)
    return [found[index] for index in range(len(found))]


def facts(answer: Answer) -> list[object]:
    """What must be equal to the last digit."""
    counted = [answer.exact, answer.rows_low, answer.rows_high, answer.nodes_read]
    return [*counted, answer.finest_granularity_us]


def numbered(answer: Answer) -> list[float | None]:
    return [answer.value, answer.low, answer.high, answer.rows]


def numbers(answer: Answer) -> list[object]:
    """What may differ in the last bit: sums are added in another order."""
    return [None if x is None else pytest.approx(x, rel=1e-12, abs=1e-12) for x in numbered(answer)]


def holds(answer: Answer, truth: float | None) -> bool:
    if truth is None:
        return answer.rows_low == 0
    low = -math.inf if answer.low is None else answer.low
    return low <= truth <= (math.inf if answer.high is None else answer.high)


@every_tree
@pytest.mark.parametrize("aggregate", AGGREGATES)
@moderate
@given(rows=st.lists(st.tuples(TIMES, WHOLE), max_size=40), asked=RANGES)
def test_a_batch_of_ranges_is_answered_as_each_alone(
    make: Callable[[], Tree], aggregate: Aggregate, rows: list[Row], asked: list[Range]
) -> None:
    tree = tree_of(make, rows)

    one_by_one = [tree.query(start, end, aggregate) for start, end in asked]

    answers = batch(tree, asked, aggregate)
    assert [facts(answer) for answer in answers] == [facts(answer) for answer in one_by_one]
    assert all(numbered(answer) == numbers(each) for answer, each in zip(answers, one_by_one, strict=True))


@every_tree
@pytest.mark.parametrize("aggregate", AGGREGATES)
@moderate
@given(rows=st.lists(st.tuples(TIMES, DOUBLES | st.none()), max_size=40), asked=RANGES)
def test_the_truth_stays_in_every_interval_of_a_batch(
    make: Callable[[], Tree], aggregate: Aggregate, rows: list[Row], asked: list[Range]
) -> None:
    answers = batch(tree_of(make, rows), asked, aggregate)

    yardstick = filled(Recompute(), rows)
    truths = [yardstick.query(start, end, aggregate) for start, end in asked]
    assert all(holds(answer, truth.value) for answer, truth in zip(answers, truths, strict=True))
    assert all(answer.rows_low <= truth.rows for answer, truth in zip(answers, truths, strict=True))


@every_tree
def test_no_ranges_have_no_answers(make: Callable[[], Tree]) -> None:
    assert len(make().query_batch([], [], "sum")) == 0


@every_tree
def test_unequal_numbers_of_starts_and_ends_are_refused(make: Callable[[], Tree]) -> None:
    with pytest.raises(ValueError, match="one end per start"):
        make().query_batch([1, 2, 3], [1, 2], "sum")


def test_the_rounding_of_sums_is_allowed_for() -> None:
    tree = DsmgaTree([Level(1, 6), Level(3, None)])
    tree.insert_batch(np.arange(1000), np.full(1000, 0.1))

    found = tree.query_batch([0], [999], "sum")

    assert found.exact[0]
    assert 999 * 0.1 * EPS <= found.high[0] - found.low[0] <= 1000 * EPS
