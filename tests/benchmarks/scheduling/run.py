"""One run of a policy over a scenario, its figures, and who is lowest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.chain import ChainScheduling
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.policies import Fifo, Greedy
from lakehouse.algorithms.scheduling.policy import Policy
from tests.benchmarks.scheduling.scenarios import DEADLINE_US, Scenario
from tests.oracles.scheduling.deadline_rounds import DeadlineRounds
from tests.oracles.scheduling.simulate import Outcome, simulate

POLICIES: dict[str, Callable[[], Policy]] = {
    policy.name: policy for policy in (Fifo, Greedy, ChainScheduling, MultiFactor, DeadlineRounds)
}
# The executor's turns know no shedding.
EXECUTED = {name: make for name, make in POLICIES.items() if name != "DeadlineRounds"}
BASELINES = ("FIFO", "Greedy", "Chain")
OURS = ("MultiFactor", "DeadlineRounds")
METRICS = ("peak_tuples", "mean_tuples", "mean_delay_ms", "p99_delay_ms", "deadline_misses")


@dataclass(frozen=True)
class Run:
    """What came of a run. Delays are of results, from the arrival of the tuple that made them until they leave."""

    outcome: Outcome
    figures: dict[str, float]


def run(scenario: Scenario, policy: Policy) -> Run:
    """Run a policy until all is handled."""
    outcome = simulate(scenario.network, scenario.workload, policy)
    values = (
        outcome.peak_tuples,
        round(outcome.mean_tuples, 3),
        round(outcome.mean_delay_us / 1000, 3),
        round(outcome.p99_delay_us / 1000, 3),
        outcome.misses(np.array([DEADLINE_US])),
    )
    return Run(outcome, dict(zip(METRICS, values, strict=True)))


def runs(scenario: Scenario, policies: Mapping[str, Callable[[], Policy]] = POLICIES) -> dict[str, Run]:
    """Run every policy over a scenario; they must put out the same results in the same order.

    Raises:
        AssertionError: they do not.
    """
    found = {name: run(scenario, make()) for name, make in policies.items()}
    first = next(iter(found.values())).outcome
    for each in found.values():
        for column in ("query", "number", "draw"):
            assert np.array_equal(getattr(first, column), getattr(each.outcome, column)), scenario.name
    return found


def beaten(found: Mapping[str, Run], ours: str, others: Iterable[str] = BASELINES) -> dict[str, list[Any]]:
    """Return by metric the best of the others and both values, where ours is not lowest or equal."""
    worse = {}
    for metric in METRICS:
        best = min(others, key=lambda name: found[name].figures[metric])
        if found[best].figures[metric] < found[ours].figures[metric]:
            worse[metric] = [best, found[best].figures[metric], found[ours].figures[metric]]
    return worse


def table_rows(found: Mapping[str, Run]) -> list[list[Any]]:
    """Return a row for each policy, with how often it turned to another operator and changed the order."""
    return [
        [name, *each.figures.values(), each.outcome.switches, each.outcome.plan_changes]
        for name, each in found.items()
    ]


HEADS = [
    "policy",
    "peak tuples",
    "mean tuples",
    "mean delay ms",
    "p99 delay ms",
    "misses",
    "switches",
    "new orders",
]
