from __future__ import annotations

import pytest

from lakehouse.algorithms.scheduling.contract import Discipline
from lakehouse.algorithms.scheduling.greedy import Greedy
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.workloads import SHORT, filters, measured, workload_of
from tests.oracles.scheduling.simulate import simulate


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
