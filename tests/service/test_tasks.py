from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.problems import ConfigError
from lakehouse.service.tasks import LONGEST_WAIT_S, SECONDS, Task, wait_s
from lakehouse.storage.control.lease import LeaseHeld


class Source:
    """A source whose state and failures a test sets, and a clock that it moves."""

    def __init__(self) -> None:
        self.now, self.shown, self.works = 0.0, 0, 0
        self.fails: Exception | None = None
        self.probe_fails: Exception | None = None
        self.task = Task("ingest", "alpha", self.probe, self.work, every_s=2.0, clock=lambda: self.now)

    def probe(self) -> int:
        if self.probe_fails:
            raise self.probe_fails
        return self.shown

    def work(self) -> None:
        self.works += 1
        self.now += 1.5
        if self.fails:
            raise self.fails


def test_nothing_new_costs_a_look_and_no_work() -> None:
    source = Source()

    assert [source.task.run_if_new() for _ in range(3)] == [True, False, False]
    assert source.works == 1
    source.shown = 1
    assert source.task.run_if_new()
    assert source.works == 2


def test_what_comes_while_it_works_is_seen_by_the_next_look() -> None:
    source = Source()

    def work() -> None:
        source.works += 1
        source.shown += source.works < 3

    source.task.work = work
    assert [source.task.run_if_new() for _ in range(5)] == [True, True, True, False, False]


def test_a_failure_waits_longer_each_time_and_a_success_ends_that() -> None:
    source = Source()
    source.fails = RuntimeError("the disk is full")
    waits = []
    for _ in range(8):
        source.task.run_if_new()
        waits.append(source.task.not_before - source.now)
        assert not source.task.run_if_new()
        source.now = source.task.not_before

    assert waits == [4.0, 8.0, 16.0, 32.0, *[LONGEST_WAIT_S] * 4]
    assert (source.task.state, source.task.error) == ("failing", "RuntimeError: the disk is full")
    source.fails = None
    assert source.task.run_if_new()
    assert (source.task.failures, source.task.error, source.task.state) == (0, None, "waiting")
    assert (source.task.tally.runs, source.task.tally.failures) == (1, 8)


def test_a_work_that_failed_is_done_again_although_nothing_new_came() -> None:
    source = Source()
    source.task.run_if_new()
    source.shown, source.fails = 1, ValueError("no")
    source.task.run_if_new()
    source.now, source.fails = source.task.not_before, None

    assert source.task.run_if_new()
    assert source.works == 3


def test_a_look_that_fails_is_a_failure_and_is_over_when_it_looks_again() -> None:
    source = Source()
    source.task.run_if_new()
    source.probe_fails = ConnectionError("no broker")
    source.task.run_if_new()
    assert source.task.error == "ConnectionError: no broker"
    source.now, source.probe_fails = source.task.not_before, None

    assert not source.task.run_if_new()
    assert (source.works, source.task.failures) == (1, 0)


def test_a_lease_that_another_holds_is_no_failure_and_is_asked_for_again_at_once() -> None:
    source = Source()
    source.fails = LeaseHeld("another process writes this table now")

    assert not source.task.run_if_new()
    source.fails = None
    assert source.task.run_if_new()
    assert source.task.tally.failures == 0


def test_an_error_that_stays_until_it_is_corrected_is_logged_once_and_looked_at_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    source.fails = ConfigError("tidemark.toml", [])
    for _ in range(3):
        source.task.run_if_new()
        source.now = source.task.not_before

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert source.task.snapshot()["is_permanent"] is True
    source.fails = ConfigError("other.toml", [])
    source.task.run_if_new()
    assert "until that is changed: other.toml" in caplog.text
    source.now, source.fails = source.task.not_before, None
    assert source.task.run_if_new()
    assert source.task.snapshot()["is_permanent"] is False


def test_works_start_at_most_every_so_often() -> None:
    source = Source()
    source.task.pace_s = 10.0
    starts = []
    for _ in range(400):
        source.shown += 1
        before = source.now
        if source.task.run_if_new():
            starts.append(before)
        source.now += 0.1

    assert len(starts) > 2
    assert all(9.8 < later - earlier < 10.2 for earlier, later in pairwise(starts))
    assert all(at >= 10.0 * number for number, at in enumerate(starts))


def test_a_work_that_began_late_does_not_make_the_next_late_and_two_are_half_a_pace_apart() -> None:
    source, starts = Source(), list[float]()
    source.task.pace_s = 10.0
    for came in (0.0, 10.0, 27.0, 30.0, 40.0):
        source.now, source.shown = max(source.now, came), source.shown + 1
        while not source.task.run_if_new():
            source.now += 0.5
        starts.append(source.now - 1.5)

    assert starts == [0.0, 10.0, 27.0, 32.0, 42.0]


def test_what_must_be_alone_is_held_around_the_work_and_let_go_after_a_failure() -> None:
    source, told = Source(), list[str]()

    @contextmanager
    def alone() -> Iterator[None]:
        told.append("held")
        try:
            yield
        finally:
            told.append("free")

    source.task.alone, source.fails = alone, ValueError("no")
    source.task.run_if_new()
    assert told == ["held", "free"]


@given(st.integers(1, 10_000), st.floats(0.01, 30))
def test_a_wait_grows_and_is_bounded(failures: int, every_s: float) -> None:
    assert 0 < wait_s(failures, every_s) <= wait_s(failures + 1, every_s) <= LONGEST_WAIT_S


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_every_work_falls_into_the_bin_whose_end_is_not_below_it(seconds: list[float]) -> None:
    task = Source().task
    for each in seconds:
        task.tally.add(each)

    for place, end in enumerate(SECONDS):
        assert sum(task.tally.bins[: place + 1]) == sum(each <= end for each in seconds)
    assert (sum(task.tally.bins), task.tally.runs) == (len(seconds), len(seconds))
    assert task.tally.seconds == pytest.approx(sum(seconds))


def test_what_comes_while_it_waits_to_be_alone_is_part_of_the_work() -> None:
    source = Source()

    @contextmanager
    def alone() -> Iterator[None]:
        source.shown += 1
        yield

    source.task.alone = alone
    assert [source.task.run_if_new() for _ in range(3)] == [True, False, False]
