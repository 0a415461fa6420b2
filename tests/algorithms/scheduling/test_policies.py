from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from lakehouse.algorithms.scheduling.contract import Discipline
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import Fifo, Greedy
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.workloads import POLICIES, SHORT, filters, fixed_cases, measured, workload_of
from tests.oracles.scheduling.simulate import Workload, simulate


def test_a_tuple_goes_through_the_whole_chain_before_the_next() -> None:
    """Costs 10, 20, 30; all pass; arrivals at 0, 5, 100: out at 60, 120 and 180 + 0."""
    workload = workload_of([0, 5, 100], [10, 20, 30], [1.0, 1.0, 1.0])

    outcome = simulate(filters(3), workload, Fifo())

    assert outcome.delay_us.tolist() == [60, 115, 80]
    assert outcome.peak_tuples == 2
    assert outcome.mean_tuples == (60 + 115 + 80) / 180


def test_a_switch_costs_time_whenever_another_operator_runs() -> None:
    workload = workload_of([0, 0], [10, 20], [1.0, 1.0], switch_us=1)

    outcome = simulate(filters(2), workload, Fifo())

    assert outcome.delay_us.tolist() == [32, 64]
    assert outcome.switches == 4


@settings(max_examples=50, deadline=None)
@given(case=fixed_cases())
def test_in_its_order_no_policy_has_a_result_of_a_lone_query_out_earlier(
    case: tuple[Network, Workload],
) -> None:
    """Where each stream is read once: else one copy of a tuple may be through before FIFO has done with another."""
    network, workload = case
    free = replace(workload, switch_us=0)
    least = simulate(network, free, Fifo(), SHORT).delay_us

    for make in POLICIES.values():
        assert (simulate(network, free, make(), SHORT).delay_us >= least).all()


def test_nothing_waits_while_arrivals_are_far_apart() -> None:
    workload = workload_of([0, 1000, 2000], [10, 10], [1.0, 0.0])

    outcome = simulate(filters(2), workload, Fifo())

    assert outcome.peak_tuples == 1
    assert len(outcome.number) == 0
    assert (outcome.mean_delay_us, outcome.p99_delay_us) == (0.0, 0.0)
    assert outcome.misses(np.array([1])) == 0


def test_each_operator_counts_what_it_takes_out_a_second() -> None:
    network = filters(3)
    known = measured(network, [1], [1000, 1000, 100], [0.9, 0.1, 0.8])

    plan = Greedy().plan(network, known, first_plan(network))

    assert plan.discipline is Discipline.HIGHEST
    assert plan.priority.tolist() == pytest.approx([100, 900, 100])
    assert plan.order.tolist() == [0, 1, 2]


def test_a_backlog_is_shed_first_by_what_sheds_most() -> None:
    """The first filter leaves nothing and is fast: after the first interval all of the backlog goes through it."""
    at_us = [0] * 20 + [200] * 100
    workload = workload_of(at_us, [1, 50], [0.0, 1.0])

    outcome = simulate(filters(2), workload, Greedy(), SHORT)

    assert outcome.ended_us == 300
