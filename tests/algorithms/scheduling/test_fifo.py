from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from lakehouse.algorithms.scheduling.fifo import Fifo
from lakehouse.algorithms.scheduling.network import Network
from tests.algorithms.scheduling.workloads import POLICIES, SHORT, filters, fixed_cases, workload_of
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
