from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from itertools import pairwise

import pytest

from lakehouse.service import workers as workers
from lakehouse.service.tasks import Task
from lakehouse.service.workers import Service, Worker, WorkerEnded


@pytest.fixture(autouse=True)
def _short_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "BEAT_S", 0.02)


def task(name: str, work: Callable[[], object], probe: Callable[[], Hashable] = object) -> Task:
    return Task("job", name, probe, work, every_s=0.01)


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


class Running:
    """A service in a thread of its own, as it is seen from outside."""

    def __init__(
        self,
        *served: Worker,
        is_alive: Callable[[], bool] = lambda: True,
        within_s: float = 5.0,
        every_s: float = 0.01,
    ) -> None:
        self.states: list[str] = []
        self.service = Service(served, every_s, self.states.append, is_alive)
        self.cut_off: list[Task] = []
        self.error: Exception | None = None
        self._within_s = within_s
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.cut_off = self.service.run(self._within_s)
        except WorkerEnded as error:
            self.error = error
            self.service.stop.set()

    def stop(self) -> None:
        self.service.stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_a_lane_that_hangs_or_fails_holds_up_no_other() -> None:
    free, done = threading.Event(), list[str]()

    def fail() -> None:
        raise OSError("gone")

    bad, good = task("failing", fail), task("good", lambda: done.append("good"))
    running = Running(
        Worker("hangs", [task("hanging", free.wait)]), Worker("fails", [bad]), Worker("good", [good])
    )
    until(lambda: len(done) > 5 and bad.failures > 0)
    free.set()
    running.stop()

    assert bad.error == "OSError: gone"
    assert running.cut_off == []


def test_a_stop_lets_the_running_work_end_and_begins_no_other() -> None:
    began, may_end, done = threading.Event(), threading.Event(), list[str]()

    def long() -> None:
        began.set()
        may_end.wait(10)
        done.append("first")

    running = Running(Worker("one", [task("first", long), task("second", lambda: done.append("second"))]))
    began.wait(10)
    running.service.stop.set()
    until(lambda: "stopping" in running.states)
    may_end.set()
    running.stop()

    assert (done, running.cut_off) == (["first"], [])


def test_what_does_not_end_in_time_is_told_as_cut_off() -> None:
    began, may_end = threading.Event(), threading.Event()

    def endless() -> None:
        began.set()
        may_end.wait(30)

    running = Running(Worker("one", [task("endless", endless)]), within_s=0.2)
    began.wait(10)
    started = time.monotonic()
    running.stop()
    may_end.set()

    assert [each.name for each in running.cut_off] == ["endless"]
    assert time.monotonic() - started < 20


def test_what_follows_wakes_as_soon_as_another_lane_has_worked() -> None:
    state, seen, idle = [0], list[int](), threading.Event()

    def first() -> None:
        idle.wait(10)
        state[0] = 1

    def follow() -> None:
        seen.append(state[0])
        idle.set()

    follower = Worker("follower", [task("follower", follow, lambda: state[0])], follows=True)
    running = Running(follower, Worker("first", [task("first", first, lambda: 0)]), every_s=60)
    until(lambda: seen == [0, 1])
    running.stop()


def test_what_came_too_early_for_a_paced_task_runs_as_soon_as_its_pace_allows() -> None:
    works = list[float]()
    paced = task("paced", lambda: works.append(time.monotonic()), lambda: min(len(works), 3))
    paced.pace_s = 0.1
    running = Running(Worker("publish", [paced], follows=True), every_s=60)
    until(lambda: len(works) == 4)
    running.stop()

    assert all(later - earlier >= 0.05 for earlier, later in pairwise(works))
    assert works[-1] - works[0] >= 0.25


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lane_or_an_engine_that_has_ended_ends_the_service() -> None:
    def leave() -> None:
        raise SystemExit

    dead = Running(Worker("dies", [task("dies", leave)]))
    until(lambda: dead.error is not None)
    alone = Running(Worker("idle", [task("idle", lambda: None)]), is_alive=lambda: False)
    until(lambda: alone.error is not None)

    assert "dies has ended" in str(dead.error)
    assert "the engine has ended" in str(alone.error)
