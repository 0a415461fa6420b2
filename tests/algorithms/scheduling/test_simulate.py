from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lakehouse.algorithms.scheduling.contract import Chain, Join, Query
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policies import Fifo
from tests.algorithms.scheduling.workloads import SHORT, filters, one_stream, workload_of
from tests.oracles.scheduling.simulate import Workload, simulate
from tests.oracles.scheduling.simulate_kernels import copies, draw_of


def test_tuples_in_the_system_are_sampled_just_after_their_number_changes() -> None:
    workload = workload_of([0, 15, 25], [10], [1.0])

    outcome = simulate(filters(1), workload, Fifo(), sample_us=5)

    # 0---10 first    15---25 second    25---35 third
    assert outcome.in_system.tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert outcome.mean_tuples == pytest.approx(30 / 35)


def test_an_arrival_waits_while_another_tuple_is_handled() -> None:
    workload = workload_of([0, 3], [10], [1.0])

    outcome = simulate(filters(1), workload, Fifo())

    assert outcome.delay_us.tolist() == [10, 17]
    assert outcome.peak_tuples == 2


def test_selectivities_are_met_on_average_and_by_whole_numbers() -> None:
    made = np.array([copies(draw_of(7, number), 3, 1.3) for number in range(20_000)])

    assert set(made.tolist()) == {1, 2}
    assert made.mean() == pytest.approx(1.3, abs=0.02)


def test_verdicts_of_two_operators_on_a_tuple_do_not_depend_on_each_other() -> None:
    first, second = (
        np.array([copies(draw_of(1, number), operator, 0.5) for number in range(20_000)])
        for operator in (0, 1)
    )

    assert (first & second).mean() == pytest.approx(0.25, abs=0.02)


def test_a_phase_changes_what_tuples_cost_and_whether_they_pass() -> None:
    workload = replace(
        workload_of([0, 100], [10], [1.0]),
        phase=np.array([0, 1]),
        cost_us=np.array([[[10, 1]], [[20, 1]]]),
        selectivity=np.array([[[1.0, 1.0]], [[0.0, 1.0]]]),
    )

    outcome = simulate(filters(1), workload, Fifo())

    assert outcome.number.tolist() == [0]
    assert outcome.ended_us == 120


def test_a_join_takes_both_sides_in_the_order_of_arrival() -> None:
    """The right tuple could go at 0; it waits for the left one, which arrived before it and has a filter to pass."""
    network = Network.of([Query("q", Chain(Join("j", one_stream(False).queries[0].chain, Chain("S"))))])
    workload = Workload(
        at_us=np.array([0, 0]),
        stream=np.array([0, 1]),
        phase=np.array([0, 0]),
        cost_us=np.array([[[50, 1], [10, 10]]]),
        selectivity=np.ones((1, 2, 2)),
    )

    outcome = simulate(network, workload, Fifo())

    assert outcome.number.tolist() == [0, 1]
    assert outcome.delay_us.tolist() == [60, 70]


def test_a_new_order_waits_until_nothing_is_between_the_filters() -> None:
    """Later filters are better: the order changes once, and every tuple still meets every filter exactly once."""
    at_us = list(range(0, 4000, 10))
    workload = workload_of(at_us, [12, 2, 2], [1.0, 0.5, 0.5])

    outcome = simulate(filters(3), workload, MultiFactor(), SHORT)

    assert outcome.plan_changes >= 1
    taken, passed = outcome.taken[:, 0], outcome.passed[:, 0]
    assert (taken - passed).sum() + len(outcome.number) == len(at_us)


def test_stopped_early_the_rest_waits() -> None:
    workload = workload_of([0, 0, 0, 500], [10], [1.0])

    outcome = simulate(filters(1), workload, Fifo(), until_us=15)

    assert (len(outcome.number), outcome.waiting[0], outcome.arrived.tolist()) == (2, 1, [3])


def test_no_arrivals_are_a_run_of_nothing() -> None:
    outcome = simulate(filters(2), workload_of([], [1, 1], [1.0, 1.0]), MultiFactor())

    assert (outcome.peak_tuples, outcome.mean_tuples, outcome.ended_us, len(outcome.number)) == (0, 0.0, 0, 0)


GOOD = workload_of([0, 1], [10], [0.5])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"stream": np.zeros(3, np.int64)}, "arrivals of one length"),
        ({"selectivity": np.ones((1, 2, 2))}, "costs like selectivities"),
        ({"at_us": np.array([5, 1])}, "ascend from 0"),
        ({"at_us": np.array([-5, 1])}, "ascend from 0"),
        ({"cost_us": np.zeros((1, 1, 2), np.int64)}, "costs from 1 us, found 0"),
        ({"switch_us": -1}, "switch -1"),
        ({"selectivity": np.full((1, 1, 2), -0.1)}, "finite and from 0"),
        ({"phase": np.array([0, 1])}, "phases below 1"),
    ],
)
def test_a_workload_that_cannot_be_is_refused(changed: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replace(GOOD, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        (workload_of([0], [1, 1], [1.0, 1.0]), "costs of 1 operators and 2 sides"),
        (replace(GOOD, stream=np.array([0, 1])), "streams below 1, found 1"),
        (workload_of([0], [1], [1.5]), "selectivity above 1"),
    ],
)
def test_a_workload_of_another_network_is_refused(workload: Workload, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        simulate(filters(1), workload, Fifo())
