from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings

from lakehouse.algorithms.scheduling.fifo import Fifo
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.simulate import Workload, simulate
from tests.algorithms.scheduling.workloads import POLICIES, SHORT, cases, filters, workload_of


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


@settings(max_examples=30, deadline=None)
@given(case=cases())
def test_in_its_order_no_policy_has_a_result_of_a_lone_query_out_earlier(
    case: tuple[Network, Workload],
) -> None:
    network, workload = case
    alone = Network.of(network.queries[:1])
    assume(alone.size == network.size and not network.segments)
    free = Workload(
        workload.at_us,
        workload.stream,
        workload.phase,
        workload.cost_us,
        workload.selectivity,
        0,
        workload.seed,
    )
    least = simulate(alone, free, Fifo(), SHORT).delay_us

    for make in POLICIES.values():
        assert (simulate(alone, free, make(), SHORT).delay_us >= least).all()


def test_nothing_waits_while_arrivals_are_far_apart() -> None:
    workload = workload_of([0, 1000, 2000], [10, 10], [1.0, 0.0])

    outcome = simulate(filters(2), workload, Fifo())

    assert outcome.peak_tuples == 1
    assert len(outcome.number) == 0
    assert (outcome.mean_delay_us, outcome.p99_delay_us) == (0.0, 0.0)
    assert outcome.misses(np.array([1])) == 0
