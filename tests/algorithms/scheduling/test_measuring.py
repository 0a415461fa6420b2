from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lakehouse.algorithms.scheduling.contract import Chain, Query
from lakehouse.algorithms.scheduling.executor import Executor
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.measuring import (
    SAMPLE_ROWS,
    SAMPLES,
    SHARE,
    UNKNOWN_PER_S,
    Counts,
    nothing_measured,
)
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.operators import Predicate
from lakehouse.algorithms.scheduling.policies import Fifo
from lakehouse.algorithms.scheduling.policy import Policy
from tests.algorithms.scheduling.running import VirtualClock
from tests.algorithms.scheduling.workloads import filters
from tests.oracles.scheduling.alone import run_through
from tests.oracles.scheduling.columns import Columns
from tests.oracles.scheduling.deadline_rounds import DeadlineRounds

TAU_US = 100_000
ROWS = 1000


def test_n_s_and_v_are_those_of_the_interval() -> None:
    network = filters(2)
    counts = Counts.zero(network)
    counts.taken[0, 0], counts.passed[0, 0], counts.busy_us[0, 0] = 100, 25, 50_000.0
    counts.arrived[0] = 120
    counts.switched[:] = 4, 100

    known = counts.measured(500_000, nothing_measured(network))

    assert known.handled_per_s[0, 0] == pytest.approx(2000)
    assert known.selectivity[0, 0] == pytest.approx(0.25)
    assert known.arrived_per_s[0] == pytest.approx(240)
    assert known.switch_us == pytest.approx(25)


def test_what_the_interval_did_not_reach_keeps_what_was_known() -> None:
    network = filters(2)
    first, second = Counts.zero(network), Counts.zero(network)
    first.taken[1, 0], first.passed[1, 0], first.busy_us[1, 0] = 10, 5, 1000.0
    first.switched[:] = 1, 7
    before = first.measured(1000, nothing_measured(network))

    known = second.measured(1000, before)

    assert known.handled_per_s[1, 0] == pytest.approx(10_000)
    assert known.selectivity[1, 0] == pytest.approx(0.5)
    assert known.switch_us == pytest.approx(7)
    assert known.handled_per_s[0, 0] == UNKNOWN_PER_S


def test_operators_that_share_work_are_measured_together_for_n_and_apart_for_s() -> None:
    network = filters(2)
    counts = Counts.zero(network, np.array([0, 0]))
    counts.taken[:, 0], counts.passed[:, 0], counts.busy_us[:, 0] = [100, 300], [50, 30], [4000.0, 0.0]

    known = counts.measured(1000, nothing_measured(network))

    assert known.handled_per_s[:, 0].tolist() == pytest.approx([100_000, 100_000])
    assert known.selectivity[:, 0].tolist() == pytest.approx([0.5, 0.1])


def test_another_interval_begins_with_nothing() -> None:
    network = filters(1)
    counts = Counts.zero(network)
    counts.taken[0, 0], counts.arrived[0] = 3, 3
    counts.clear()

    known = counts.measured(1000, nothing_measured(network))

    assert known.arrived_per_s.tolist() == [0]
    assert known.handled_per_s[0, 0] == UNKNOWN_PER_S


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
    for _ in run_through(executor, (("s", rows) for _ in range(batches))):
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
