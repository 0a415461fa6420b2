from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join import qjoin
from lakehouse.algorithms.late_join.bucketing import place_in_buckets
from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch, Clock, Pairs
from lakehouse.algorithms.late_join.qjoin import CHUNK
from lakehouse.algorithms.late_join.repair import missing_pairs
from tests.algorithms.late_join.streams import CONDITIONS, POLICIES, WINDOW, batches, join_of, parts
from tests.oracles.late_join.constant_slack import ConstantSlack
from tests.oracles.late_join.nested_loop import NestedLoop, as_set
from tests.oracles.late_join.whole_join import WholeJoin

moderate = settings(max_examples=40, deadline=None)
thorough = settings(max_examples=120, deadline=None)
CONDITION = st.sampled_from(sorted(CONDITIONS))
POLICY = st.sampled_from(sorted(POLICIES))
CLOCK = st.sampled_from([Clock(), Clock(idle_us=3), Clock(idle_us=0)])


def positions(batch: Batch, rows: Any, sides: Any) -> Any:
    ids = zip(batch.side.tolist(), batch.row.tolist(), strict=True)
    where = {each: at for at, each in enumerate(ids)}
    return np.array(
        [where[side, row] for side, row in zip(sides.tolist(), rows.tolist(), strict=True)], np.int64
    )


def joined_and_repaired(join: WholeJoin, batch: Batch) -> tuple[Pairs, Pairs]:
    found = join.process(batch)
    kept = batch[np.setdiff1d(np.arange(len(batch)), found.refused)]
    logged = positions(kept, found.log.row, found.log.side)
    return found.pairs, missing_pairs(join.condition, join.window_us, kept, logged, found.log.horizon_us)


def truth_of(condition: str, batch: Batch) -> set[tuple[int, int]]:
    return as_set(NestedLoop(CONDITIONS[condition], WINDOW).process(batch).pairs)


@pytest.mark.parametrize("condition", CONDITIONS)
@thorough
@given(batch=batches(), policy=POLICY, clock=CLOCK)
def test_online_and_repaired_pairs_are_disjoint_and_together_all(
    condition: str, batch: Batch, policy: str, clock: Clock
) -> None:
    online, repaired = joined_and_repaired(join_of(condition, policy, clock), batch)

    assert as_set(online).isdisjoint(as_set(repaired))
    assert as_set(online) | as_set(repaired) == truth_of(condition, batch)
    assert len(as_set(repaired)) == len(repaired)


@moderate
@given(batch=batches(), condition=CONDITION, policy=POLICY)
def test_the_log_names_what_is_missing_by_definition(batch: Batch, condition: str, policy: str) -> None:
    join, yardstick = join_of(condition, policy), NestedLoop(CONDITIONS[condition], WINDOW)
    found = join.process(batch)
    every = as_set(yardstick.process(batch).pairs)

    assert as_set(found.pairs) == every - yardstick.missing(found.log)


@moderate
@given(batch=batches(), condition=CONDITION, policy=POLICY, data=st.data())
def test_after_repair_no_order_of_arrival_leaves_a_trace(
    batch: Batch, condition: str, policy: str, data: st.DataObject
) -> None:
    order = np.array(data.draw(st.permutations(range(len(batch)))), np.int64)

    online, repaired = joined_and_repaired(join_of(condition, policy), batch[order])

    assert as_set(online) | as_set(repaired) == truth_of(condition, batch)


@moderate
@given(batch=batches(), condition=CONDITION, policy=POLICY, buckets=st.integers(1, 5))
def test_after_repair_the_number_of_buckets_leaves_no_trace(
    batch: Batch, condition: str, policy: str, buckets: int
) -> None:
    rows, bucket = place_in_buckets(CONDITIONS[condition], batch, buckets)
    found: list[tuple[int, int]] = []

    for number in range(buckets):
        both = joined_and_repaired(join_of(condition, policy), batch[rows[bucket == number]])
        found += [
            pair for pairs in both for pair in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
        ]

    assert len(found) == len(set(found))
    assert set(found) == truth_of(condition, batch)


@moderate
@given(batch=batches(), policy=POLICY, clock=CLOCK)
def test_time_and_horizons_only_grow(batch: Batch, policy: str, clock: Clock) -> None:
    join = join_of("equality", policy, clock)

    seen = []
    for piece in parts(batch, range(40)):
        join.process(piece)
        left, right = join.horizons_us
        seen.append([-(10**6) if each is None else each for each in (join.time_us, left, right)])

    assert np.all(np.diff(np.array(seen), axis=0) >= 0)


def test_a_row_at_the_horizon_is_gone_and_one_above_it_is_met() -> None:
    join = WholeJoin(Equality(), 10, ConstantSlack(0, 0, step_us=1000))
    # The first choice sweeps, so it comes first: rows below the horizon are still there when they are looked for.
    join.process(Batch.of([0, 1], [0, 0], row=[8, 9], key=[1, 1]))

    found = join.process(Batch.of([0, 0, 0, 1, 1], [40, 41, 50, 50, 50], key=[7] * 5))

    assert join.horizons_us == (40, 40)
    assert found.pairs.left.tolist() == [2, 1, 0, 2, 1]
    assert found.log.row.tolist() == [4]


def test_a_row_below_its_own_horizon_is_joined_but_not_kept() -> None:
    join = WholeJoin(Equality(), 10, ConstantSlack(0, 5))
    join.process(Batch.of([0, 1, 1], [50, 50, 37], row=[0, 1, 2], key=[7] * 3))

    found = join.process(Batch.of([0, 1], [36, 41], row=[3, 4], key=[7] * 2))

    assert (found.pairs.left.tolist(), found.pairs.right.tolist()) == ([3, 0], [2, 4])
    assert join.held == 4


def test_pairs_are_online_at_once_and_belong_to_the_newer_row() -> None:
    pairs = WholeJoin(Equality(), 10, ConstantSlack(0, 0)).process(Batch.of([0, 1], [9, 3], key=[1, 1])).pairs

    assert (pairs.event_us.tolist(), pairs.wait_us.tolist()) == ([9], [0])


def test_a_silent_side_stops_time_only_until_it_counts_as_idle() -> None:
    clock = Clock(idle_us=20)
    rows = Batch.of([0, 1, 0, 0], [0, 0, 20, 21], arrival_us=[0, 0, 20, 21])
    waiting, idle = (WholeJoin(Equality(), 5, ConstantSlack(0, 0), clock) for _ in range(2))

    waiting.process(rows[:3])
    idle.process(rows)

    assert (waiting.time_us, idle.time_us) == (0, 21)


def test_what_comes_late_for_a_silent_side_is_counted_and_logged() -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0), Clock(idle_us=20))
    join.process(Batch.of([0, 1, 0], [0, 0, 30], arrival_us=[0, 0, 30]))

    found = join.process(Batch.of([1, 1], [29, 31], arrival_us=[31, 32]))

    assert join.counts["late_after_silence"] == 1
    assert found.log.event_us.tolist() == [29]


def test_a_stream_that_never_had_a_row_counts_as_idle_too() -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0), Clock(idle_us=20))

    join.process(Batch.of([0] * 100, range(100)))

    assert join.held == 5


@pytest.mark.parametrize("clock", [Clock(ahead_of_arrival_us=10), Clock(ahead_of_streams_us=10)])
def test_a_clock_in_the_future_is_refused_before_it_moves_time(clock: Clock) -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0), clock)

    found = join.process(Batch.of([0, 1, 0, 1, 0], [0, 0, 10**9, 10**9, 1], arrival_us=[0, 0, 1, 1, 1]))

    assert found.refused.tolist() == [2, 3]
    assert join.time_us == 0
    assert join.counts["refused"] == 2


def test_a_time_at_the_bound_is_believed() -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0), Clock(ahead_of_arrival_us=10))

    assert join.process(Batch.of([0, 0], [10, 11], arrival_us=[0, 0])).refused.tolist() == [1]


@pytest.mark.parametrize("condition", ["band", "distance"])
def test_places_that_are_no_numbers_never_join_and_are_counted(condition: str) -> None:
    join = join_of(condition)

    join.process(Batch.of([0, 1, 1], [0, 0, 0], numbers=[[np.nan, 0], [np.nan, 0], [np.inf, 0]]))

    assert (join.counts["unusable"], join.held) == (3, 0)


def test_null_keys_never_join_and_are_counted() -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0))

    found = join.process(Batch.of([0, 1, 1], [0, 0, 0], key=[3, 3, 3], missing=[True, True, False]))

    assert (len(found.pairs), join.counts["unusable"]) == (0, 2)


def test_time_told_from_elsewhere_lets_a_quiet_bucket_s_rows_expire() -> None:
    join = WholeJoin(Equality(), 5, ConstantSlack(0, 0))
    join.process(Batch.of([0, 1], [0, 0]))

    join.advance((100, None))
    still = join.held
    join.advance((None, 100))

    assert (still, join.held, join.time_us) == (2, 0, 100)


def test_batches_beyond_a_chunk_are_joined_whole() -> None:
    rng = np.random.default_rng(1)
    n = 2 * CHUNK + 10
    batch = Batch.of(rng.integers(0, 2, n), np.arange(n) - rng.integers(0, 40, n), key=rng.integers(0, 9, n))
    whole, cut = (WholeJoin(Equality(), 20, ConstantSlack(3, 3, 100)) for _ in range(2))

    pairs = whole.process(batch).pairs
    found = [cut.process(piece).pairs for piece in parts(batch, range(0, n, 1000))]

    assert pairs.left.tolist() == np.concatenate([each.left for each in found]).tolist()
    assert whole.snapshot() == cut.snapshot()


@pytest.mark.parametrize("condition", CONDITIONS)
def test_more_pairs_in_a_block_than_memory_was_set_aside_for_come_out_as_row_by_row(condition: str) -> None:
    rng = np.random.default_rng(3)
    n = 1200
    event = rng.integers(0, WINDOW, n)
    batch = Batch.of(rng.integers(0, 2, n), event, numbers=rng.integers(0, 2, (n, 2)) / 2)
    whole, cut = join_of(condition), join_of(condition)

    pairs = whole.process(batch).pairs
    found = [cut.process(batch[at : at + 1]).pairs for at in range(n)]

    assert len(pairs) > 2 * CHUNK
    for name in ("left", "right", "event_us"):
        assert (
            getattr(pairs, name).tolist() == np.concatenate([getattr(each, name) for each in found]).tolist()
        )
    assert whole.snapshot() == cut.snapshot()


def test_positions_that_begin_at_0_again_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    batch = Batch.of(rng.integers(0, 2, 3000), np.arange(3000) - rng.integers(0, 40, 3000))
    whole, wrapped = (WholeJoin(Equality(), 20, ConstantSlack(3, 3, 100)) for _ in range(2))
    expected = whole.process(batch).pairs

    monkeypatch.setattr(qjoin, "LAST_POSITION", 50)
    found = wrapped.process(batch).pairs

    assert wrapped._ring[4].max() < 1500
    assert (found.left.tolist(), found.right.tolist()) == (expected.left.tolist(), expected.right.tolist())
    assert wrapped.snapshot() == whole.snapshot()
    wrapped.check()


def test_too_few_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 columns of numbers, found 1"):
        join_of("distance").process(Batch.of([0], [0], numbers=[[1.0]]))


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window"):
        WholeJoin(Equality(), -1, ConstantSlack(0, 0))


def test_check_finds_a_lost_row() -> None:
    join = join_of("equality")
    join.process(Batch.of([0, 1], [0, 0], numbers=np.zeros((2, 2))))
    join._ring[3].fill(-1)

    with pytest.raises(AssertionError, match="no chain reaches"):
        join.check()
