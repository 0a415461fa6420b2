from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from lakehouse.algorithms.late_join.slack_grid import slack_grid
from lakehouse.algorithms.late_join.spare import spare_slack
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.whole_join import WholeJoin

SECOND = 1_000_000
GRID = slack_grid(SECOND)
NEVER = len(GRID) - 1


def behind(left: dict[int, int], right: dict[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the rows of one time by the seconds of slack that they needed, for the left and for the right side."""
    counts = np.zeros((2, 2, len(GRID) + 1))
    for side, rows in enumerate((left, right)):
        for seconds, count in rows.items():
            counts[1, side, 1 + seconds] = count
    return counts


def slacks(counts: np.ndarray[tuple[int, ...], np.dtype[np.float64]], spare: int) -> list[float]:
    """Return both slacks in seconds, where a time lasts 100 s and the window is 1 s."""
    bins = spare_slack(counts.sum(axis=0), counts.sum(axis=(1, 2)).max(), 100 * SECOND, SECOND, spare, GRID)
    return [float(slack) / SECOND for slack in GRID[bins]]


def test_with_enough_rows_known_the_latest_of_them_is_covered_and_no_more() -> None:
    assert slacks(behind({0: 900, 6: 1}, {0: 500, 2: 7}), 400) == [7, 3]


def test_with_few_rows_known_slack_is_all_that_the_spare_has_room_for() -> None:
    # 100 rows in 100 s: a second costs one row, and the window is one of them.
    assert slacks(behind({0: 50}, {0: 50}), 51) == [50, 50]
    assert slacks(behind({}, {}), 10) == [GRID[NEVER] / SECOND] * 2


def test_what_is_needed_is_covered_only_as_far_as_the_spare_has_room() -> None:
    assert slacks(behind({0: 900, 60: 1}, {0: 1099}), 200) == [9, 1]
    assert slacks(behind({0: 9000, 60: 1}, {0: 9000}), 100) == [0, 0]


def test_without_spare_nothing_is_added() -> None:
    assert slacks(behind({0: 9, 60: 1}, {}), 0) == [0, 0]


def bursts(seed: int, rows: int = 2000) -> Batch:
    """A row a second; every ten minutes a burst of one key ends, the first rows of which are minutes late."""
    rng = np.random.default_rng(seed)
    event = np.arange(rows) * SECOND
    key = rng.integers(0, 400, rows)
    in_burst = event // SECOND % 600 < 40
    key[in_burst] = -1
    arrival = event + np.where(in_burst, rng.integers(60, 300, rows), 0) * SECOND
    order = np.argsort(arrival, kind="stable")
    side = rng.integers(0, 2, rows)
    return Batch.of(side[order], event[order], arrival_us=arrival[order], key=key[order])


@pytest.mark.parametrize("kind", [NeededSlack, PerSource])
def test_windows_short_beside_the_lateness_find_all_while_it_costs_few_rows(kind: type[NeededSlack]) -> None:
    batch = bursts(1)
    truth = len(WholeJoin(Equality(), SECOND, ConstantSlack(10**12, 10**12)).process(batch).pairs)
    thrifty, sparing = (
        WholeJoin(Equality(), SECOND, kind(0.95, 300 * SECOND, SECOND, spare=spare)) for spare in (0, 1024)
    )

    assert len(thrifty.process(batch).pairs) < 0.9 * truth
    assert len(sparing.process(batch).pairs) == truth
    assert sparing.held_over_time()[:, 1].max() <= 1100


def test_at_an_even_rate_no_more_than_the_spare_is_held_whatever_comes_late() -> None:
    rows = 20_000
    event = np.arange(rows) * 100_000
    event[5000::1000] -= 400 * SECOND
    batch = Batch.of(np.arange(rows) % 2, event, key=np.arange(rows))
    policy = NeededSlack(0.5, 60 * SECOND, logged=1.0, spare=300)
    join = WholeJoin(Equality(), SECOND, policy)

    join.process(batch)

    held = join.held_over_time()[:, 1]
    # The window has 10 rows of 300.
    assert 250 < held[held > 250].mean() < 310 and held.max() < 320


def test_rows_in_order_are_let_go_once_enough_are_known() -> None:
    event = np.arange(20_000) * 10_000
    policy = NeededSlack(0.95, 60 * SECOND, spare=500)
    join = WholeJoin(Equality(), SECOND, policy)

    join.process(Batch.of(np.arange(20_000) % 2, event))

    assert join.slacks_us == (0, 0)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 600), max_size=5))
def test_a_policy_that_spares_goes_on_from_its_snapshot_anywhere(seed: int, cuts: list[int]) -> None:
    batch, ends = bursts(seed, 600), sorted({0, *cuts, 600})
    whole, join = (WholeJoin(Equality(), SECOND, NeededSlack(0.9, 60 * SECOND, spare=40)) for _ in range(2))
    found = []
    for start, end in pairwise(ends):
        again = WholeJoin(Equality(), SECOND, NeededSlack(0.9, 60 * SECOND, spare=40))
        again.restore(join.snapshot())
        join = again
        found += join.process(batch[start:end]).pairs.left.tolist()

    assert found == whole.process(batch).pairs.left.tolist()
    assert join.snapshot() == whole.snapshot()
