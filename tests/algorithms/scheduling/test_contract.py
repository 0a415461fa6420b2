"""One body for every policy: what comes out never depends on it; and what statistics may be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Statistics
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.network import NOWHERE, Network
from lakehouse.algorithms.scheduling.policy import Policy
from tests.algorithms.scheduling.workloads import POLICIES, SHORT, cases, expected
from tests.oracles.scheduling.simulate import Outcome, Workload, simulate

every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES.keys())
moderate = settings(max_examples=40, deadline=None)


def results(network: Network, outcome: Outcome) -> list[list[tuple[int, int]]]:
    found: list[list[tuple[int, int]]] = [[] for _ in network.queries]
    for query, number, draw in zip(
        outcome.query.tolist(), outcome.number.tolist(), outcome.draw.tolist(), strict=True
    ):
        found[query].append((number, draw))
    return found


@pytest.mark.slow
@every_policy
@moderate
@given(case=cases())
def test_every_query_puts_out_what_it_says_in_the_order_of_arrival(
    make: Callable[[], Policy], case: tuple[Network, Workload]
) -> None:
    network, workload = case

    outcome = simulate(network, workload, make(), SHORT)

    assert results(network, outcome) == expected(network, workload)
    assert outcome.waiting.sum() == 0


@every_policy
@moderate
@given(case=cases(), until_us=st.integers(1, 3000))
def test_what_came_in_was_passed_on_filtered_or_waits(
    make: Callable[[], Policy], case: tuple[Network, Workload], until_us: int
) -> None:
    network, workload = case
    wiring = network.wiring

    outcome = simulate(network, workload, make(), SHORT, until_us)

    into = np.where(wiring.stream == NOWHERE, 0, outcome.arrived[wiring.stream]).reshape(-1, 2).sum(axis=1)
    taken, passed = outcome.taken.sum(axis=1), outcome.passed.sum(axis=1)
    waiting = outcome.waiting.reshape(-1, 2).sum(axis=1)
    assert into.sum() + passed.sum() == taken.sum() + waiting.sum() + len(outcome.number)
    filters = ~wiring.is_join
    assert (passed[filters] <= taken[filters]).all()


@every_policy
@moderate
@given(case=cases())
def test_a_run_repeats_to_the_last_tuple(make: Callable[[], Policy], case: tuple[Network, Workload]) -> None:
    first, second = (simulate(*case, make(), SHORT) for _ in range(2))

    assert first.delay_us.tolist() == second.delay_us.tolist()
    assert first.in_system.tolist() == second.in_system.tolist()
    assert first.switches == second.switches


@every_policy
@moderate
@given(case=cases(), length_us=st.integers(50, 100_000))
def test_when_plans_are_made_changes_no_result(
    make: Callable[[], Policy], case: tuple[Network, Workload], length_us: int
) -> None:
    network, workload = case
    interval = Interval(length_us, 50, 100_000, 1)

    outcome = simulate(network, workload, make(), interval)

    assert results(network, outcome) == expected(network, workload)


@every_policy
@moderate
@given(case=cases())
def test_no_time_is_lost_while_something_waits(
    make: Callable[[], Policy], case: tuple[Network, Workload]
) -> None:
    """Busy from the first arrival of a backlog to its end: what is handled takes its cost and its switches only."""
    network, workload = case
    at_once = Workload(
        np.zeros_like(workload.at_us),
        workload.stream,
        np.zeros_like(workload.phase),
        workload.cost_us,
        workload.selectivity,
        workload.switch_us,
        workload.seed,
    )

    outcome = simulate(network, at_once, make(), SHORT)

    work = int((outcome.taken * at_once.cost_us[0]).sum())
    assert outcome.ended_us == work + outcome.switches * at_once.switch_us


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (([-1.0], [[1.0, 1.0]], [[0.5, 0.5]]), "arrived_per_s"),
        (([1.0], [[0.0, 1.0]], [[0.5, 0.5]]), "handled_per_s finite and above 0"),
        (([1.0], [[1.0, 1.0]], [[np.nan, 0.5]]), "selectivity"),
    ],
)
def test_statistics_that_cannot_be_are_refused(values: tuple[list[float], ...], told: str) -> None:
    arrived, handled, passed = (np.array(each) for each in values)

    with pytest.raises(ValueError, match=told):
        Statistics(arrived, handled, passed)
