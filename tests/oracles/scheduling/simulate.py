"""A machine on a virtual clock: what a policy makes of arrivals, costs and selectivities, repeatable to the last tuple.

Verdicts are drawn from the seed by tuple and operator, so that every policy sees the same tuples pass; they do not
depend on each other. A tuple is handled without interruption, for its operator's cost; handling another operator's
tuple than before costs ``switch_us`` more. Planning takes no time.

Cost: a tuple at an operator O(operators), compiled; memory in proportion to the tuples in the system and the results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.scheduling.contract import MILLISECOND
from lakehouse.algorithms.scheduling.interval import Interval, Replanning
from lakehouse.algorithms.scheduling.turns_kernels import NONE
from tests.oracles.scheduling.shedding_kernels import empty_queues, first_turn, orders
from tests.oracles.scheduling.simulate_kernels import (
    ARRIVED,
    FREE,
    LAST,
    LOG_COLUMNS,
    LOG_DRAW,
    LOG_LEFT_US,
    LOG_NUMBER,
    LOG_QUERY,
    LOGGED,
    NEXT,
    NOW,
    PEAK,
    STATE,
    SWITCHES,
    TUPLE_US,
    Arrivals,
    Machine,
    Running,
    run,
)

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Float64s, Int64s
    from lakehouse.algorithms.scheduling.network import Network
    from lakehouse.algorithms.scheduling.policy import Policy


@dataclass(frozen=True)
class Workload:
    """What arrives and what it costs.

    ``at_us``, ``stream``: time and stream of each arrival, times ascending from 0. ``phase``: which of the phases its
    costs and selectivities are of; ``cost_us`` (from 1) and ``selectivity`` (results a tuple, above 1 only for joins)
    are phases x operators x sides. ``switch_us``: what it takes to turn to another operator.

    Raises:
        ValueError: lengths or shapes do not fit, times descend or are negative, a cost is below 1 us, a selectivity
            is negative or not finite, or a stream or phase does not exist.
    """

    at_us: Int64s
    stream: Int64s
    phase: Int64s
    cost_us: Int64s
    selectivity: Float64s
    switch_us: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = {len(self.at_us), len(self.stream), len(self.phase)}
        if len(lengths) != 1 or self.cost_us.ndim != 3 or self.cost_us.shape != self.selectivity.shape:
            raise ValueError(
                f"expected arrivals of one length and costs like selectivities, found {sorted(lengths)}, "
                f"{self.cost_us.shape}, {self.selectivity.shape}"
            )
        if len(self.at_us) and (self.at_us[0] < 0 or (np.diff(self.at_us) < 0).any()):
            raise ValueError("expected arrival times that ascend from 0, found one before the one before it")
        if (self.cost_us < 1).any() or self.switch_us < 0:
            raise ValueError(f"expected costs from 1 us, found {self.cost_us.min()}, switch {self.switch_us}")
        if not (np.isfinite(self.selectivity).all() and (self.selectivity >= 0).all()):
            raise ValueError("expected selectivities finite and from 0, found one that is not")
        if ((self.phase < 0) | (self.phase >= len(self.cost_us)) | (self.stream < 0)).any():
            raise ValueError(f"expected phases below {len(self.cost_us)} and streams from 0")


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Results, in the order in which they left: ``query``, ``number`` of the arrival that made it, ``draw`` (which
    result of that arrival), ``delay_us`` since that arrival. ``in_system``: tuples every ``sample_us``.
    ``taken`` and ``passed`` are operators x sides over the whole run, ``waiting`` is by queue at its end.
    """

    query: Int64s
    number: Int64s
    draw: Int64s
    delay_us: Int64s
    in_system: Int64s
    sample_us: int
    mean_tuples: float
    peak_tuples: int
    ended_us: int
    taken: Int64s
    passed: Int64s
    waiting: Int64s
    arrived: Int64s
    switches: int
    plan_changes: int

    @property
    def mean_delay_us(self) -> float:
        """Return the mean delay of a result; 0 if there is none."""
        return float(self.delay_us.mean()) if len(self.delay_us) else 0.0

    @property
    def p99_delay_us(self) -> float:
        """Return the delay that 99 of 100 results have at most."""
        return float(np.quantile(self.delay_us, 0.99, method="higher")) if len(self.delay_us) else 0.0

    def misses(self, deadlines_us: Int64s) -> int:
        """Return how many results left later than their query's deadline, given by query."""
        return int((self.delay_us > deadlines_us[self.query]).sum())


def simulate(
    network: Network,
    workload: Workload,
    policy: Policy,
    interval: Interval | None = None,
    until_us: int | None = None,
    sample_us: int = 10 * MILLISECOND,
) -> Outcome:
    """Run a policy over a workload until everything is handled, or until a time.

    Raises:
        ValueError: the workload's operators are not the network's, a stream is not read by it, or a filter has a
            selectivity above 1.
    """
    return _Run(network, workload, policy, interval or Interval(), sample_us).to(until_us)


@dataclass
class _Run:
    network: Network
    workload: Workload
    policy: Policy
    interval: Interval
    sample_us: int
    planning: Replanning = field(init=False)

    def __post_init__(self) -> None:
        _check(self.network, self.workload)
        self.planning = Replanning(self.network, self.policy, self.interval)
        size, counts = self.network.size, self.planning.counts
        state = np.zeros(STATE, np.int64)
        state[LAST] = NONE
        pool = np.empty((1024, 3), np.int64)
        pool[:, NEXT] = np.arange(1, 1025)
        pool[-1, NEXT], state[FREE] = NONE, 0
        self._pool, self._log = pool, np.empty((1024, LOG_COLUMNS), np.int64)
        self._running = Running(
            state=state,
            turn=first_turn(),
            queues=empty_queues(self.network),
            first=np.full(2 * size, NONE),
            last=np.full(2 * size, NONE),
            order=np.arange(size),
            wanted=np.arange(size),
            taken=counts.taken,
            passed=counts.passed,
            busy_us=counts.busy_us,
            arrived=counts.arrived,
            switched=counts.switched,
            samples=np.zeros(1024, np.int64),
            sample_us=self.sample_us,
        )
        self._machine = Machine(
            self.workload.cost_us, self.workload.selectivity, self.workload.switch_us, self.workload.seed
        )
        self._arrivals = _arrivals(self.network, self.workload)
        self._taken, self._passed = np.zeros((size, 2), np.int64), np.zeros((size, 2), np.int64)

    def to(self, until_us: int | None) -> Outcome:
        state, limit_us = self._running.state, 2**60 if until_us is None else until_us
        stop_us = 0
        # The loop comes back before it has reached its time only if nothing is left to do.
        while stop_us <= state[NOW] < limit_us:
            stop_us = min(self.planning.due_us, limit_us)
            self._step(stop_us)
            if state[NOW] >= self.planning.due_us and self.planning.advance(int(state[NOW])):
                self._running.wanted[:] = self.planning.plan.order
                self._running.turn[:] = first_turn()
        return self._outcome()

    def _step(self, stop_us: int) -> None:
        counts = self.planning.counts
        self._make_room(stop_us)
        self._taken -= counts.taken
        self._passed -= counts.passed
        self._pool, self._log = run(
            self.network.wiring,
            self._machine,
            self._arrivals,
            orders(self.planning.plan),
            self._running,
            self._pool,
            self._log,
            stop_us,
        )
        self._taken += counts.taken
        self._passed += counts.passed

    def _make_room(self, stop_us: int) -> None:
        """Have a sample for every time that the next step can reach; the last tuple may end after it should stop."""
        longest = int(self.workload.cost_us.max()) + self.workload.switch_us
        needed = (stop_us + longest) // self.sample_us + 1
        if needed > len(self._running.samples):
            wider = np.zeros(2 * needed, np.int64)
            wider[: len(self._running.samples)] = self._running.samples
            self._running = self._running._replace(samples=wider)

    def _outcome(self) -> Outcome:
        state = self._running.state
        log = self._log[: state[LOGGED]]
        ended = int(state[NOW])
        return Outcome(
            query=log[:, LOG_QUERY],
            number=log[:, LOG_NUMBER],
            draw=log[:, LOG_DRAW],
            delay_us=log[:, LOG_LEFT_US] - self.workload.at_us[log[:, LOG_NUMBER]],
            in_system=self._running.samples[: -(-ended // self.sample_us)],
            sample_us=self.sample_us,
            mean_tuples=float(state[TUPLE_US]) / max(ended, 1),
            peak_tuples=int(state[PEAK]),
            ended_us=ended,
            taken=self._taken,
            passed=self._passed,
            waiting=self._running.queues.waiting,
            arrived=np.bincount(self.workload.stream[: state[ARRIVED]], minlength=len(self.network.streams)),
            switches=int(state[SWITCHES]),
            plan_changes=self.planning.changes,
        )


def _check(network: Network, workload: Workload) -> None:
    if workload.cost_us.shape[1:] != (network.size, 2):
        raise ValueError(
            f"expected costs of {network.size} operators and 2 sides, found {workload.cost_us.shape[1:]}"
        )
    if len(workload.stream) and workload.stream.max() >= len(network.streams):
        raise ValueError(f"expected streams below {len(network.streams)}, found {workload.stream.max()}")
    if (workload.selectivity[:, ~network.wiring.is_join] > 1).any():
        raise ValueError("expected filters that pass at most what they take, found a selectivity above 1")


def _arrivals(network: Network, workload: Workload) -> Arrivals:
    reading = [np.flatnonzero(network.wiring.stream == stream) for stream in range(len(network.streams))]
    reader_from = np.concatenate([[0], np.cumsum([len(queues) for queues in reading])]).astype(np.int64)
    return Arrivals(workload.at_us, workload.stream, workload.phase, reader_from, np.concatenate(reading))
