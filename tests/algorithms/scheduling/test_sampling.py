from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.contract import Chain, Query
from lakehouse.algorithms.scheduling.deadline_rounds import DeadlineRounds
from lakehouse.algorithms.scheduling.executor import Executor
from lakehouse.algorithms.scheduling.fifo import Fifo
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.algorithms.scheduling.policy import Policy
from lakehouse.algorithms.scheduling.sampling import SAMPLE_ROWS, SAMPLES, SHARE
from tests.algorithms.scheduling.running import VirtualClock
from tests.oracles.scheduling.columns import Columns

TAU_US = 100_000
ROWS = 1000


class Asked:
    """A predicate that takes its time, and remembers of how many rows it was asked each time."""

    def __init__(self, clock: VirtualClock, us_a_row: float, passes: Callable[[Any], Any]) -> None:
        self.clock, self.us_a_row, self.passes = clock, us_a_row, passes
        self.calls: list[int] = []

    def __call__(self, rows: Columns) -> Any:
        self.calls.append(rows.num_rows)
        self.clock.spend(self.us_a_row * rows.num_rows)
        return self.passes(rows["x"])


def run(clock: VirtualClock, policy: Policy, batches: int, **asked: Asked) -> Executor:
    chain = Chain("s", tuple(Predicate(name, run=each, columns=("x",)) for name, each in asked.items()))
    executor = Executor([Query("q", chain)], policy, clock, interval=Interval(TAU_US, TAU_US, TAU_US))
    rows = Columns({"x": np.arange(ROWS)})
    for _ in executor.run(("s", rows) for _ in range(batches)):
        pass
    return executor


def nothing(x: Any) -> Any:
    return x < 0


def few(x: Any) -> Any:
    return x % 10 == 0


def test_a_cheap_filter_behind_one_that_passes_nothing_comes_first() -> None:
    for policy in (MultiFactor(), DeadlineRounds()):
        clock = VirtualClock()
        slow, cheap = Asked(clock, 10, nothing), Asked(clock, 0.01, few)

        executor = run(clock, policy, 100, slow=slow, cheap=cheap)

        assert executor.order.tolist() == [1, 0]
        assert slow.calls[-1] == ROWS // 10


def test_only_rows_enough_to_measure_are_asked_of() -> None:
    clock = VirtualClock()
    first, second = Asked(clock, 0.1, nothing), Asked(clock, 1, few)

    run(clock, MultiFactor(), 2000, first=first, second=second)

    intervals = clock.ns / 1000 / TAU_US
    assert 0 < len(second.calls) <= SAMPLES * (intervals / 2 + 1)
    assert max(second.calls) <= SAMPLE_ROWS


def test_asking_takes_its_share_of_the_time_and_no_more() -> None:
    clock = VirtualClock()
    first, dear = Asked(clock, 1, nothing), Asked(clock, 100, nothing)

    run(clock, MultiFactor(), 2000, first=first, dear=dear)

    one_call_us = SAMPLE_ROWS * 100
    intervals = clock.ns / 1000 / TAU_US
    assert 0 < 100 * sum(dear.calls) <= SHARE * clock.ns / 1000 + one_call_us * (intervals / 2 + 1)


def test_one_that_raises_of_rows_that_a_guard_keeps_from_it_is_asked_once_and_stops_nothing() -> None:
    clock = VirtualClock()

    def raises(x: Any) -> Any:
        raise ZeroDivisionError

    guard, guarded = Asked(clock, 1, nothing), Asked(clock, 1, raises)

    executor = run(clock, MultiFactor(), 1000, guard=guard, guarded=guarded)

    assert executor.states["q"].error is None
    assert len(guarded.calls) == 1


def test_nothing_is_asked_for_a_policy_that_keeps_the_written_order() -> None:
    clock = VirtualClock()
    first, second = Asked(clock, 1, nothing), Asked(clock, 1, few)

    run(clock, Fifo(), 1000, first=first, second=second)

    assert second.calls == []
