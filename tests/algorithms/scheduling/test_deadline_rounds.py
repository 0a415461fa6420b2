from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.flow import flow
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.workloads import SHORT, filters, measured, one_stream, workload_of
from tests.oracles.scheduling.deadline_rounds import (
    UNLIMITED_US,
    DeadlineRounds,
    intake_slices_us,
    round_length_us,
)
from tests.oracles.scheduling.simulate import simulate

T = 600_000


@pytest.mark.parametrize(
    ("arriving", "switch_us", "length_us"),
    [
        (250, 20.0, 2 * 20 * 10 / 0.5),
        (250, 0.0, 0.0),
        (490, 20.0, 2 * 20 * 10 / 0.05),
        (600, 20.0, 2 * 20 * 10 / 0.05),
        (600, 5000.0, T / 2),
    ],
)
def test_a_round_is_as_short_as_switching_allows_and_half_of_t_at_most(
    arriving: float, switch_us: float, length_us: float
) -> None:
    network = filters(2)
    known = measured(network, [arriving], [1000, 1000], [1.0, 1.0], switch_us)

    found = round_length_us(network, known, flow(network, known, np.arange(2)))

    assert found == pytest.approx(length_us)


def test_only_what_takes_tuples_in_has_a_slice() -> None:
    network = filters(2)
    known = measured(network, [100], [1000, 500], [0.5, 1.0])

    assert intake_slices_us(network, flow(network, known, np.arange(2)), 800.0).tolist() == [
        400,
        UNLIMITED_US,
    ]


def test_an_order_that_is_almost_as_good_stays() -> None:
    network = filters(2)
    known = measured(network, [100], [100, 100], [0.5, 0.47])

    assert DeadlineRounds().plan(network, known, first_plan(network)).order.tolist() == [0, 1]


def test_shedding_is_told_from_the_deadline() -> None:
    network = filters(2)
    known = measured(network, [100], [1000, 500], [0.5, 1.0], 10.0)

    shedding = DeadlineRounds().plan(network, known, first_plan(network)).shedding

    assert shedding is not None
    assert (shedding.from_us, shedding.budget_us) == (12_000, 450_000)
    assert shedding.remaining_us.tolist() == pytest.approx([1000 + 0.5 * 2000, 2000])


def test_short_rounds_shed_never() -> None:
    network = filters(2)
    known = measured(network, [100], [1000, 500], [0.5, 1.0], 10.0)

    policy = DeadlineRounds(sheds=False)

    assert policy.plan(network, known, first_plan(network)).shedding is None
    assert policy.name == "ShortRounds"


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), burst=st.integers(50, 300))
def test_a_burst_that_can_be_done_in_time_is(seed: int, burst: int) -> None:
    """Bursts of work for at most 130 ms, with T = 200 ms, every 400 ms; shedding lets none of their results be late."""
    network = one_stream(False, False, False, deadline_us=200_000)
    at_us = [start for start in range(0, 2_000_000, 400_000) for _ in range(burst)]
    workload = workload_of(at_us, [100, 300, 400], [0.5, 0.5, 1.0], seed=seed)

    outcome = simulate(network, workload, DeadlineRounds(), SHORT)

    assert outcome.misses(np.array([200_000])) == 0
