from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.contract import NO_SOURCE, NO_TIME, Batch
from lakehouse.algorithms.late_join.kernels.source import DUE, SHARE
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.policy_per_source import PerSource
from tests.algorithms.late_join.streams import outcome_of, parts
from tests.oracles.late_join.whole_join import WholeJoin

SECOND = 1_000_000
# What was stored of the sources of ``stream_with_a_silence`` at 20.985 s by the version that did not count pairs, and
# by the one that did not know which silences had held rows back.


def stream_with_a_silence(silence_us: int, rows: int = 8000, sources: int = 8) -> Batch:
    """Rows 5 ms apart of eight sources; the last one says nothing for a while and then sends what it held back."""
    event = np.arange(rows) * 5_000
    source = np.arange(rows) % sources
    begin = 20 * SECOND
    is_held = (source == sources - 1) & (event >= begin) & (event < begin + silence_us)
    arrival = np.where(is_held, begin + silence_us, event)
    order = np.argsort(arrival, kind="stable")
    side = (source % 2).astype(np.int8)
    columns = {"arrival_us": arrival[order], "key": np.zeros(rows, np.int64), "source": source[order]}
    return Batch.of(side[order], event[order], **columns)


def joined(policy: NeededSlack, batch: Batch) -> tuple[WholeJoin, int, int]:
    """Return the join, its pairs, and the rows that it has logged."""
    join = WholeJoin(Equality(), SECOND // 10, policy)
    outcome = join.process(batch)
    return join, len(outcome.pairs), len(outcome.log)


def test_what_the_first_silence_held_back_finds_its_partners_at_once() -> None:
    batch = stream_with_a_silence(2 * SECOND)

    _, found, logged = joined(PerSource(0.9, 10 * SECOND), batch)
    _, fewer, many = joined(NeededSlack(0.9, 10 * SECOND), batch)

    # A source is known to be silent after four of its usual gaps: what it sent in these may have lost partners.
    assert logged <= 4 < many
    assert found > fewer


def test_the_log_tells_the_edge_from_which_slack_was_counted() -> None:
    batch = stream_with_a_silence(2 * SECOND)
    policy = PerSource(0.9, 10 * SECOND)
    policy.choose = lambda time_us: (0, 0)  # type: ignore[method-assign]
    log = WholeJoin(Equality(), SECOND // 10, policy).process(batch).log

    # At no slack the horizon is the edge; it lags behind stream time while a source is silent.
    assert log.edge_us.tolist() == log.horizon_us.tolist()
    behind = log.time_us - SECOND // 10 - log.edge_us
    assert (behind >= 0).all() and (behind > SECOND).any()


def test_once_the_silence_is_over_rows_are_held_no_longer_than_without_it() -> None:
    silent, _, _ = joined(PerSource(0.9, 10 * SECOND), stream_with_a_silence(2 * SECOND))
    steady, _, _ = joined(PerSource(0.9, 10 * SECOND), stream_with_a_silence(0))

    assert silent.horizons_us == steady.horizons_us


def test_a_source_whose_silences_hold_nothing_back_is_not_waited_for_until_one_does() -> None:
    """The last of eight sources is silent for seven of every eight seconds; until 80 s nothing is held back."""
    event = np.arange(24_000) * 5_000
    source, second = np.arange(24_000) % 8, event // SECOND
    is_silent = (source == 7) & (second % 8 < 7)
    arrival = np.where(is_silent, (second // 8 * 8 + 7) * SECOND, event)
    order = np.argsort(arrival, kind="stable")
    batch = Batch.of(source % 2, event, arrival_us=arrival, source=source)[order]
    batch = batch[(~is_silent | (second >= 80))[order]]
    policy = PerSource(0.9, 10 * SECOND, first_us=8 * SECOND)
    join, waits = WholeJoin(Equality(), SECOND // 100, policy), []

    for second_us in range(0, 120 * SECOND, SECOND):
        join.process(batch[batch.arrival_us // SECOND * SECOND == second_us])
        waits.append(join.slacks_us[0] > 2 * SECOND)

    assert all(waits[12:15]) and not any(waits[48:87]) and all(waits[92:95])


def longest_wait_us(policy: PerSource, batch: Batch) -> int:
    """Return the most that rows were held for silent sources, at the end of any 0.1 s."""
    join, longest = WholeJoin(Equality(), SECOND // 10, policy), 0
    for tenth in np.split(batch.row, np.flatnonzero(np.diff(batch.arrival_us // (SECOND // 10))) + 1):
        join.process(batch[tenth])
        longest = max(longest, *join.slacks_us)
    return longest


def test_a_silence_is_waited_for_as_long_as_silences_that_held_rows_back_make_likely() -> None:
    """One of eight sources falls silent for 1 s, and then for good."""
    once = stream_with_a_silence(SECOND)
    silent, how = (once.source == 7) & (once.event_us > 28 * SECOND), {"gone_us": 60 * SECOND}
    ends = Batch.of(once.side, once.event_us, arrival_us=once.arrival_us, source=once.source)[~silent]
    never = ends[(ends.source != 7) | (ends.event_us < 20 * SECOND)]

    for batch, first_us, expected in ((ends, 100_000, 4), (ends, 6 * SECOND, 6), (never, 3 * SECOND, 3)):
        numbered = Batch.of(batch.side, batch.event_us, arrival_us=batch.arrival_us, source=batch.source)
        waited = longest_wait_us(PerSource(0.9, 10 * SECOND, first_us=first_us, **how), numbered)
        # Less what its slack would have been, four usual gaps; and what it held back was not a whole second old.
        assert (expected - 0.5) * SECOND < waited <= expected * SECOND


def test_sources_that_come_and_go_are_not_waited_for_once_that_is_known() -> None:
    """Eight sources at a time, each of them for two seconds, so that every one falls silent for good."""
    event = np.arange(24_000) * 5_000
    source = np.arange(24_000) % 8 + event // (2 * SECOND) * 8
    batch = Batch.of(source % 2, event, source=source)
    early, late = (
        batch[(event >= start * SECOND) & (event < end * SECOND)] for start, end in ((0, 6), (6, 120))
    )
    policy = PerSource(0.9, 10 * SECOND)
    join = WholeJoin(Equality(), SECOND // 10, policy)

    join.process(early)
    at_first = max(join.slacks_us)
    join.process(late)

    assert at_first > SECOND > SECOND // 10 > max(join.slacks_us)
    assert policy.watch[4][:, SHARE].max() < 0.3


def test_a_source_that_held_rows_back_is_waited_for_among_others_that_come_and_go() -> None:
    """Every eight seconds one of eight sources is silent for a second; the seven others change every two seconds."""
    event = np.arange(24_000) * 5_000
    source, second = np.arange(24_000) % 8, event // SECOND
    is_held = (source == 7) & (second % 8 == 5)
    arrival = np.where(is_held, (second + 1) * SECOND, event)
    changing = np.where(source == 7, 7, source + 8 * (1 + event // (2 * SECOND)))
    batch = Batch.of(source % 2, event, arrival_us=arrival, source=changing)[
        np.argsort(arrival, kind="stable")
    ]
    policy = PerSource(0.9, 10 * SECOND, spared=0.0)
    join, waits = WholeJoin(Equality(), SECOND // 100, policy), []

    for until in range(SECOND, 120 * SECOND, SECOND):
        join.process(batch[(batch.arrival_us >= until - SECOND) & (batch.arrival_us < until)])
        waits.append(join.slacks_us[0] > SECOND // 2)

    # The side of the others that come and go is the same: what most of its silences do, this one does not.
    assert policy.watch[4][1, SHARE] < 0.3
    assert [second for second, waiting in enumerate(waits) if waiting and second > 60] == list(
        range(61, 119, 8)
    )


def test_a_source_that_is_gone_is_not_waited_for() -> None:
    batch = stream_with_a_silence(15 * SECOND)
    waited, gone = (
        joined(PerSource(0.9, 10 * SECOND, gone_us=us), batch[batch.arrival_us < 34 * SECOND])[0]
        for us in (60 * SECOND, SECOND)
    )

    assert gone.held < waited.held
    # Of the two sides' rows those wait that the silent source would meet.
    assert waited.slacks_us[0] > 13 * SECOND > SECOND > max(*gone.slacks_us, waited.slacks_us[1])


def test_rows_that_tell_no_source_are_held_as_without_a_watch() -> None:
    batch = stream_with_a_silence(2 * SECOND)
    nobody = Batch.of(
        batch.side, batch.event_us, arrival_us=batch.arrival_us, source=[NO_SOURCE] * len(batch)
    )

    assert (
        joined(PerSource(0.9, 10 * SECOND), nobody)[1:] == joined(NeededSlack(0.9, 10 * SECOND), nobody)[1:]
    )


def test_more_sources_than_slots_are_watched_as_far_as_there_is_room() -> None:
    rng = np.random.default_rng(3)
    rows = 20_000
    batch = Batch.of(rng.integers(0, 2, rows), np.arange(rows) * 100, source=rng.integers(0, 5000, rows))
    policy = PerSource(0.9, 60 * SECOND)
    join = WholeJoin(Equality(), 1000, policy)
    join.process(batch[: rows // 2])
    first = watched(policy)
    join.process(batch[rows // 2 :])

    again = PerSource(0.9, 60 * SECOND)
    again.begin(1000)
    again.restore(policy.snapshot())

    assert again.snapshot() == policy.snapshot()
    # No source makes room for another while it is heard.
    assert len(first) > 1024 and first <= watched(policy) and len(watched(policy)) <= 2 * 1024


def watched(policy: PerSource) -> set[tuple[int, int]]:
    """Return side and id of every source that is watched."""
    records = policy.watch[0]
    return {(side, each["id"].item()) for side in (0, 1) for each in records[side][records[side]["seen"] > 0]}


def stream_of_forty(silent: int, pairing: int = 40, rows: int = 40_000) -> Batch:
    """Rows 1 ms apart of forty sources; from 20 s to 23 s the last ones say nothing, and then send what they held back.

    Rows of the last sources, so many as are ``pairing``, meet those of each other; the others meet none.
    """
    event, source = np.arange(rows) * 1_000, np.arange(rows) % 40
    begin, end = 20 * SECOND, 23 * SECOND
    is_held = (source >= 40 - silent) & (event >= begin) & (event < end)
    arrival = np.where(is_held, end, event)
    key = np.where(source >= 40 - pairing, 0, 1 + source)
    order = np.argsort(arrival, kind="stable")
    columns = {"arrival_us": arrival, "key": key, "source": source}
    return Batch.of(source % 2, event, **columns)[order]


def is_waiting(policy: PerSource, batch: Batch, window_us: int = SECOND // 10) -> bool:
    """Tell if rows are held for silent sources a second after these fell silent."""
    join = WholeJoin(Equality(), window_us, policy)
    join.process(batch[batch.arrival_us < 21 * SECOND])
    return max(join.slacks_us) > SECOND // 2


def test_silent_sources_are_waited_for_once_they_send_more_than_may_be_missed() -> None:
    waits = [is_waiting(PerSource(0.95, 10 * SECOND), stream_of_forty(silent)) for silent in (1, 3, 5)]

    # One of forty sends 2.5 % of the rows; every other one is of the same side.
    assert waits == [False, False, True]
    assert is_waiting(PerSource(0.99, 10 * SECOND), stream_of_forty(1))
    assert is_waiting(PerSource(0.95, 10 * SECOND, spared=0.02), stream_of_forty(1))


def test_a_silent_source_of_few_rows_is_waited_for_if_it_finds_many_of_the_pairs() -> None:
    assert is_waiting(PerSource(0.95, 10 * SECOND), stream_of_forty(1, pairing=8))


def test_where_pairs_are_few_every_silent_source_is_waited_for() -> None:
    few = stream_of_forty(1)

    assert is_waiting(PerSource(0.95, 10 * SECOND), few, window_us=1)
    assert not is_waiting(PerSource(0.95, 10 * SECOND, few=0), few, window_us=1_000)


def test_where_pairs_are_few_no_more_rows_are_logged_than_by_default() -> None:
    rng = np.random.default_rng(5)
    arrival = np.arange(20_000) * 1_000
    late = np.where(rng.random(20_000) < 0.2, rng.exponential(SECOND / 10, 20_000), 0.0).astype(np.int64)
    side, key, source = (rng.integers(0, below, 20_000) for below in (2, 5000, 4))
    batch = Batch.of(side, arrival - late, arrival_us=arrival, key=key, source=source)
    shares = [
        joined(policy, batch)[2] / len(batch)
        for policy in (PerSource(0.9, 10 * SECOND), PerSource(0.9, 10 * SECOND, few=0))
    ]

    assert shares[0] < 0.03 < shares[1]


def test_where_pairs_are_few_less_of_the_allowed_loss_is_used_at_high_recalls() -> None:
    rng = np.random.default_rng(5)
    arrival = np.arange(20_000) * 1_000
    late = np.where(rng.random(20_000) < 0.2, rng.exponential(SECOND / 10, 20_000), 0.0).astype(np.int64)
    side, source = rng.integers(0, 2, 20_000), rng.integers(0, 4, 20_000)
    batch = Batch.of(side, arrival - late, arrival_us=arrival, key=side * 0, source=source)

    def slack_us(recall: float, few: float) -> int:
        policy = PerSource(recall, 10 * SECOND, few=few, logged=1.0, spared=0.0)
        return max(joined(policy, batch)[0].slacks_us)

    assert slack_us(0.95, few=0) == slack_us(0.95, few=1e9)
    assert slack_us(0.99, few=0) < slack_us(0.99, few=1e9)


def test_more_sources_than_slots_are_watched_alike_however_rows_are_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakehouse.algorithms.late_join.policy_per_source.SLOTS", 2)
    rng = np.random.default_rng(4)
    # In a gap all sources are forgotten, and others take their slots behind it.
    event = np.arange(400) - rng.integers(0, 6, 400) + 100 * (np.arange(400) >= 130)
    batch = Batch.of(rng.integers(0, 2, 400), event, source=rng.integers(0, 5, 400))
    whole, single = (
        WholeJoin(Equality(), 6, PerSource(0.8, 40, 8, granularity_us=1, few=0)) for _ in range(2)
    )

    assert outcome_of(whole, [batch]) == outcome_of(single, parts(batch, range(len(batch))))
    assert whole.snapshot() == single.snapshot()


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 2**32),
    sources=st.sampled_from([3, 20]),
    gone_us=st.sampled_from([12, 60]),
    first_us=st.sampled_from([4, 20]),
    spared=st.sampled_from([0.0, 0.3]),
)
def test_a_look_at_sources_that_is_left_out_would_have_found_nothing(
    seed: int, sources: int, gone_us: int, first_us: int, spared: float
) -> None:
    """Beside a join for which a look is due before each row: sources fall silent, and hold rows back or not."""
    rng = np.random.default_rng(seed)
    event, source = np.cumsum(rng.integers(0, 3, 240)), rng.integers(0, sources, 240)
    silent_until = np.where((event + 13 * source) % 60 < 30, event + 30 - (event + 13 * source) % 60, event)
    holds_back = rng.random(sources) < 0.7
    arrival = np.where(holds_back[source], silent_until, event) + rng.integers(0, 4, 240)
    batch = Batch.of(rng.integers(0, 2, 240), event, arrival_us=arrival, source=source)
    batch = batch[(silent_until == event) | holds_back[source]]
    batch = batch[np.argsort(batch.arrival_us, kind="stable")]
    how: dict[str, Any] = {"gaps": 1.0, "seen": 2, "gone_us": gone_us, "spared": spared, "few": 0}
    how |= {"first_us": first_us}
    saving, looking = (
        WholeJoin(Equality(), 6, PerSource(0.8, 16, 4, granularity_us=1, **how)) for _ in range(2)
    )

    for row in parts(batch, range(len(batch))):
        looking.policy.watch[5][DUE] = NO_TIME
        assert outcome_of(saving, [row]) == outcome_of(looking, [row])
        assert saving.slacks_us == looking.slacks_us
    assert saving.snapshot() == looking.snapshot()


@pytest.mark.parametrize(
    "wrong",
    [
        {"gaps": -1.0},
        {"seen": -1},
        {"gone_us": 9},
        {"first_us": -1},
        {"spared": -0.1},
        {"few": -1},
        {"recall": 1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        PerSource(**{"recall": 0.9, "period_us": 100, "step_us": 10, **wrong})  # type: ignore[arg-type]


def test_by_default_it_uses_half_of_the_allowed_loss_and_logs_as_many_rows_at_any_recall() -> None:
    for recall in (0.5, 0.95, 0.99):
        ours, watching = NeededSlack(recall, 10 * SECOND), PerSource(recall, 10 * SECOND)

        assert watching.margin == 0.5 >= 2 * ours.margin
        assert watching.logged == 0.05 >= ours.logged
    assert PerSource(0.9, 10 * SECOND, margin=0.1, logged=0.2).margin == 0.1
