from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.audit import Periods
from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import Batch
from lakehouse.algorithms.late_join.kernels.needed_slack import cheapest
from lakehouse.algorithms.late_join.margin import judged_share
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.algorithms.late_join.repair import missing_pairs
from tests.oracles.late_join.audit import audit
from tests.oracles.late_join.constant_slack import ConstantSlack

SECOND = 1_000_000
COUNTS = st.lists(st.lists(st.integers(0, 20), min_size=12, max_size=12), min_size=1, max_size=4)


def late_stream(rows: int = 4000, seed: int = 0, late_us: int = 2 * SECOND) -> Batch:
    rng = np.random.default_rng(seed)
    arrival = np.arange(rows) * 10_000
    late = np.where(rng.random(rows) < 0.2, rng.integers(0, late_us, rows), 0)
    event = arrival - late
    return Batch.of(rng.integers(0, 2, rows), event, arrival_us=arrival, key=rng.integers(0, 5, rows))


def counted(policy: NeededSlack, batch: Batch, window_us: int = SECOND) -> QJoin:
    join = QJoin(Equality(), window_us, policy)
    join.process(batch)
    return join


@settings(max_examples=100, deadline=None)
@given(counts=COUNTS, share=st.floats(0.1, 1.0), least=st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_the_cheapest_slacks_are_those_of_the_whole_grid(
    counts: list[list[int]], share: float, least: tuple[int, int]
) -> None:
    covered = np.cumsum(np.array(counts, np.float64).reshape(-1, 2, 6), axis=2)
    totals, rates = covered[:, :, -1].sum(axis=1), np.array([3.0, 2.0])
    grid = np.array([0, 1, 2, 4, 7, 9])

    found = cheapest(covered, totals, share, np.array(least), rates, grid)

    enough = np.all(
        covered[:, 0, :, None] + covered[:, 1, None, :] >= share * totals[:, None, None] - 1e-9, axis=0
    )
    enough[: least[0]], enough[:, : least[1]] = False, False
    memory = np.where(enough, grid[:, None] * rates[0] + grid[None, :] * rates[1], np.inf)
    assert memory[found] == memory.min()


def obvious_choice(
    policy: NeededSlack, kept: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]
) -> float:
    """Return the memory of the cheapest slacks, of all pairs of them, with which all periods are complete enough."""
    pairs, behind, bins = kept[0] + kept[1], kept[2], len(policy.grid)
    judged = [pairs[at : at + 4].sum(axis=0) for at in range(len(pairs) - 3)]
    is_enough = np.ones((bins, bins), np.bool_)
    for period in judged:
        left, right = np.cumsum(period, axis=1)[:, :bins]
        is_enough &= (
            left[:, None] + right[None, :] >= judged_share(policy.recall, policy.margin) * period.sum() - 1e-9
        )
    known = behind.sum(axis=0)
    for side in range(2):
        for slack in range(bins - 1):
            if known[side, slack + 1 :].sum() > policy.logged * known[side].sum():
                is_enough[(slice(None),) * side + (slack,)] = False
    is_enough[-1, -1] = True
    left_rows, right_rows = known.sum(axis=1)
    memory = policy.grid[:, None] * right_rows + policy.grid[None, :] * left_rows
    return float(memory[is_enough].min())


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 10_000), recall=st.sampled_from([0.5, 0.9, 0.99]), logged=st.sampled_from([0.01, 0.3])
)
def test_each_choice_of_a_quarter_is_the_cheapest_of_all_slacks(
    seed: int, recall: float, logged: float
) -> None:
    dice = np.random.default_rng(seed)
    policy = NeededSlack(recall, 400 * SECOND, granularity_us=SECOND, remembered=2, logged=logged)
    policy.begin(SECOND)
    kept = policy._counted, policy._estimated, policy._behind
    for each in kept:
        bins = dice.integers(0, each.shape[2], 40)
        each[dice.integers(0, len(each), 40), dice.integers(0, 2, 40), bins] = dice.integers(1, 50, 40)
    for time_us in (950 * SECOND, 960 * SECOND):
        rates = policy._behind.sum(axis=(0, 2))[::-1]
        slacks = policy.choose(time_us)
        assert slacks[0] * rates[0] + slacks[1] * rates[1] == obvious_choice(policy, list(kept))
        # The newest quarter goes on within a quarter, and no other.
        for each in kept:
            each[-1, dice.integers(0, 2, 5), dice.integers(0, each.shape[2], 5)] += dice.integers(1, 90, 5)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 100), slack_us=st.sampled_from([0, 100_000, 500_000, 10 * SECOND]))
def test_counts_of_a_join_that_finds_all_tell_what_a_constant_slack_would_find(
    seed: int, slack_us: int
) -> None:
    batch, policy = late_stream(seed=seed), NeededSlack(0.9, 100 * SECOND, remembered=5)
    policy.choose = lambda time_us: (60 * SECOND, 60 * SECOND)  # type: ignore[method-assign]
    counted(policy, batch)
    bins = int(np.searchsorted(policy.grid, slack_us)) + 1
    at_most = int(policy.grid[bins - 1])

    join = QJoin(Equality(), SECOND, ConstantSlack(at_most, at_most, policy.step_us))

    # The first pairs come before T is known, and need no slack.
    assert len(join.process(batch).pairs) == policy._counted[:, :, :bins].sum()


def test_more_recall_never_takes_less_slack() -> None:
    slacks = []
    for recall in (0.5, 0.8, 0.9, 0.95, 0.99):
        slacks.append(sum(counted(NeededSlack(recall, 8 * SECOND), late_stream()).slacks_us))

    assert slacks == sorted(slacks)
    assert slacks[-1] > slacks[0]


def test_what_is_asked_for_is_found_once_the_delays_are_known() -> None:
    batch = late_stream(12_000)
    join, whole = (
        QJoin(Equality(), SECOND, NeededSlack(0.95, 8 * SECOND)),
        QJoin(Equality(), SECOND, ConstantSlack(10 * SECOND, 10 * SECOND)),
    )

    found, truth = join.process(batch).pairs.event_us, whole.process(batch).pairs.event_us

    since = 20 * SECOND
    assert np.count_nonzero(found > since) >= 0.95 * np.count_nonzero(truth > since)
    assert join.held < whole.held


def test_at_most_the_declared_share_is_logged() -> None:
    few = counted(NeededSlack(0.01, 8 * SECOND, logged=0.05), late_stream(12_000)).counts
    many = counted(NeededSlack(0.01, 8 * SECOND, logged=1.0), late_stream(12_000)).counts

    assert few["logged"] < 0.07 * few["processed"] < many["logged"]


def test_what_logged_rows_missed_is_estimated_at_about_its_number() -> None:
    policy = NeededSlack(0.5, 100 * SECOND, remembered=2)
    policy.choose = lambda time_us: (0, 0)  # type: ignore[method-assign]
    batch = late_stream(20_000, late_us=3 * SECOND)
    found = len(counted_pairs(policy, batch))

    truth = len(QJoin(Equality(), SECOND, ConstantSlack(60 * SECOND, 60 * SECOND)).process(batch).pairs)

    assert policy._estimated.sum() == pytest.approx(truth - found, rel=0.1)
    assert truth - found > 0.02 * truth


def counted_pairs(policy: NeededSlack, batch: Batch) -> list[int]:
    pairs: list[int] = QJoin(Equality(), SECOND, policy).process(batch).pairs.left.tolist()
    return pairs


def test_exact_counts_take_the_place_of_estimates_in_quarters_that_are_over() -> None:
    policy = NeededSlack(0.5, 8 * SECOND)
    join = counted(policy, late_stream())
    now = join.time_us or 0

    later = np.array([now - 5 * SECOND] * 2)
    missed = np.array([1, 0]), np.array([now - 9 * SECOND] * 2), later, later - SECOND
    policy.replace(now, policy.count_missed(*missed))

    assert policy._estimated[:-1].sum() == 2
    assert policy._estimated[:-1, 1].sum() == 1
    needed = np.searchsorted(policy.grid, 3 * SECOND, side="right")
    assert policy._estimated[:-1, :, needed].sum() == 2


def test_exact_counts_before_the_first_row_change_nothing() -> None:
    policy = NeededSlack(0.5, 8 * SECOND)
    policy.begin(SECOND)
    before = policy.snapshot()

    policy.replace(10**9, np.array([[0, 0, 10_000, 7]]))

    assert policy.snapshot() == before


def drifting_stream(seed: int, rows: int = 20_000) -> Batch:
    """Rows of many keys, and of one that is always late, ever later: what late rows miss is not what others find."""
    rng = np.random.default_rng(seed)
    arrival, hot = np.arange(rows) * 10_000, rng.random(rows) < 0.03
    key = np.where(hot, 0, rng.integers(1, 400, rows))
    late = np.where(hot, rng.exponential(1 + 4 * np.arange(rows) / rows), rng.exponential(0.02, rows))
    event = arrival - (late * SECOND).astype(np.int64)
    return Batch.of(rng.integers(0, 2, rows), event, arrival_us=arrival, key=key)


def joined_and_repaired(batch: Batch, parts: int, is_told: bool) -> Periods:
    """Join a stream in parts, each repaired before the next one; return the periods."""
    policy, missed = NeededSlack(0.9, 20 * SECOND), np.empty((0, 4), np.int64)
    join, found, repaired = QJoin(Equality(), SECOND, policy), [], []
    for end in np.linspace(0, len(batch), parts + 1).astype(int)[1:]:
        outcome = join.process(batch[join.counts["processed"] : end])
        log = outcome.log
        pairs = missing_pairs(Equality(), SECOND, batch[:end], log.row, log.horizon_us, -log.time_us)
        earlier = np.minimum(pairs.left, pairs.right)
        time = -pairs.wait_us
        counted = policy.count_missed(batch.side[earlier], batch.event_us[earlier], time, time - SECOND)
        missed = np.concatenate([missed, counted])
        if is_told:
            policy.replace(join.time_us or 0, missed)
        found.append(outcome.pairs.event_us)
        repaired.append(pairs.event_us)
    return audit(np.concatenate(found), np.concatenate(repaired), policy.period_us, policy.step_us)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_told_what_was_missed_it_meets_the_recall_in_more_periods_of_a_stream_that_drifts(seed: int) -> None:
    batch = drifting_stream(seed)

    told, untold = (joined_and_repaired(batch, 20, is_told).met(0.9) for is_told in (True, False))

    assert told[1] == untold[1] > 100
    assert told[0] >= 0.9 * told[1]
    assert told[0] > untold[0]


def test_a_stream_whose_estimates_are_right_loses_nothing_by_being_told() -> None:
    batch = late_stream(20_000, seed=3)

    told, untold = (joined_and_repaired(batch, 20, is_told).met(0.9) for is_told in (True, False))

    assert told[0] >= untold[0]


@settings(max_examples=20, deadline=None)
@given(
    missed=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 39), st.integers(0, 60)), max_size=30),
    cut=st.integers(0, 30),
    until=st.integers(0, 80),
)
def test_telling_in_parts_or_again_is_telling_once(
    missed: list[tuple[int, int, int]], cut: int, until: int
) -> None:
    side, time, behind = np.array(missed, np.int64).reshape(-1, 3).T
    pairs = side, (time - behind) * SECOND, time * SECOND, (time - 1) * SECOND
    policies = [NeededSlack(0.5, 8 * SECOND, remembered=2) for _ in range(2)]
    for policy in policies:
        counted(policy, late_stream())
    once, parts = policies
    whole = once.count_missed(*pairs)
    halves = [
        once.count_missed(*(column[part] for column in pairs)) for part in (slice(cut), slice(cut, None))
    ]

    once.replace(until * SECOND, whole)
    parts.replace(until * SECOND // 2, halves[0])
    for _ in range(2):
        parts.replace(until * SECOND, np.concatenate(halves))

    assert once.snapshot() == parts.snapshot()
    assert whole[:, 3].sum() == len(missed)


@pytest.mark.parametrize(
    "wrong", [{"recall": 1.0}, {"recall": 0.0}, {"margin": 0.0}, {"period_us": 3}, {"remembered": 0}]
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        NeededSlack(**{"recall": 0.9, "period_us": 100, **wrong})  # type: ignore[arg-type]
