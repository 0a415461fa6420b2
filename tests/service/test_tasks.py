from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.home.lease import LeaseHeld
from lakehouse.service.tasks import LONGEST_WAIT_S, SECONDS, Turn, wait_s


class Source:
    """A source whose state and failures a test sets, and a clock that it moves."""

    def __init__(self) -> None:
        self.now, self.shown, self.works = 0.0, 0, 0
        self.fails: Exception | None = None
        self.look_fails: Exception | None = None
        self.turn = Turn("ingest", "alpha", self.look, self.work, every_s=2.0, clock=lambda: self.now)

    def look(self) -> int:
        if self.look_fails:
            raise self.look_fails
        return self.shown

    def work(self) -> None:
        self.works += 1
        self.now += 1.5
        if self.fails:
            raise self.fails


def test_nothing_new_costs_a_look_and_no_work() -> None:
    source = Source()

    assert [source.turn.take() for _ in range(3)] == [True, False, False]
    assert source.works == 1
    source.shown = 1
    assert source.turn.take()
    assert source.works == 2


def test_what_comes_while_it_works_is_seen_by_the_next_look() -> None:
    source = Source()

    def work() -> None:
        source.works += 1
        source.shown += source.works < 3

    source.turn.work = work
    assert [source.turn.take() for _ in range(5)] == [True, True, True, False, False]


def test_a_failure_waits_longer_each_time_and_a_success_ends_that() -> None:
    source = Source()
    source.fails = RuntimeError("the disk is full")
    waits = []
    for _ in range(8):
        source.turn.take()
        waits.append(source.turn.not_before - source.now)
        assert not source.turn.take()
        source.now = source.turn.not_before

    assert waits == [4.0, 8.0, 16.0, 32.0, *[LONGEST_WAIT_S] * 4]
    assert (source.turn.state, source.turn.error) == ("failing", "RuntimeError: the disk is full")
    source.fails = None
    assert source.turn.take()
    assert (source.turn.failures, source.turn.error, source.turn.state) == (0, None, "waiting")
    assert (source.turn.tally.works, source.turn.tally.failures) == (1, 8)


def test_a_work_that_failed_is_done_again_although_nothing_new_came() -> None:
    source = Source()
    source.turn.take()
    source.shown, source.fails = 1, ValueError("no")
    source.turn.take()
    source.now, source.fails = source.turn.not_before, None

    assert source.turn.take()
    assert source.works == 3


def test_a_look_that_fails_is_a_failure_and_is_over_when_it_looks_again() -> None:
    source = Source()
    source.turn.take()
    source.look_fails = ConnectionError("no broker")
    source.turn.take()
    assert source.turn.error == "ConnectionError: no broker"
    source.now, source.look_fails = source.turn.not_before, None

    assert not source.turn.take()
    assert (source.works, source.turn.failures) == (1, 0)


def test_a_lease_that_another_holds_is_no_failure_and_is_asked_for_again_at_once() -> None:
    source = Source()
    source.fails = LeaseHeld("another process writes this table now")

    assert not source.turn.take()
    source.fails = None
    assert source.turn.take()
    assert source.turn.tally.failures == 0


def test_works_start_at_most_every_so_often() -> None:
    source = Source()
    source.turn.pace_s = 10.0
    starts = []
    for _ in range(400):
        source.shown += 1
        before = source.now
        if source.turn.take():
            starts.append(before)
        source.now += 0.1

    assert len(starts) > 2
    assert all(10.0 <= later - earlier < 10.2 for earlier, later in pairwise(starts))


def test_what_must_be_alone_is_held_around_the_work_and_let_go_after_a_failure() -> None:
    source, told = Source(), list[str]()

    @contextmanager
    def alone() -> Iterator[None]:
        told.append("held")
        try:
            yield
        finally:
            told.append("free")

    source.turn.alone, source.fails = alone, ValueError("no")
    source.turn.take()
    assert told == ["held", "free"]


@given(st.integers(1, 10_000), st.floats(0.01, 30))
def test_a_wait_grows_and_is_bounded(failures: int, every_s: float) -> None:
    assert 0 < wait_s(failures, every_s) <= wait_s(failures + 1, every_s) <= LONGEST_WAIT_S


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_every_work_falls_into_the_bin_whose_end_is_not_below_it(seconds: list[float]) -> None:
    turn = Source().turn
    for each in seconds:
        turn.tally.add(each)

    for place, end in enumerate(SECONDS):
        assert sum(turn.tally.bins[: place + 1]) == sum(each <= end for each in seconds)
    assert (sum(turn.tally.bins), turn.tally.works) == (len(seconds), len(seconds))
    assert turn.tally.seconds == pytest.approx(sum(seconds))


def test_what_comes_while_it_waits_to_be_alone_is_part_of_the_work() -> None:
    source = Source()

    @contextmanager
    def alone() -> Iterator[None]:
        source.shown += 1
        yield

    source.turn.alone = alone
    assert [source.turn.take() for _ in range(3)] == [True, False, False]
