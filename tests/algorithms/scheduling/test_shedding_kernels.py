from __future__ import annotations

import numpy as np

from lakehouse.algorithms.scheduling.contract import Discipline, Plan
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import first_plan
from tests.algorithms.scheduling.workloads import filters
from tests.oracles.scheduling.shedding_kernels import (
    STAY_US,
    Queues,
    Shedding,
    SheddingPlan,
    empty_queues,
    first_turn,
    next_queue,
    orders,
    spend,
)


def queues_of(network: Network, **heads: int) -> Queues:
    """Return queues with one tuple each, of these numbers: ``q0=5`` is number 5 in queue 0, there since 5 us."""
    queues = empty_queues(network)
    for name, number in heads.items():
        queue = int(name[1:])
        queues.head[queue], queues.since_us[queue], queues.waiting[queue] = number, number, 1
    return queues


def chosen(network: Network, plan: Plan, queues: Queues, turn: object = None, now_us: int = 0) -> int:
    return next_queue(network.wiring, orders(plan), queues, first_turn() if turn is None else turn, now_us)


def shedding_plan(network: Network) -> SheddingPlan:
    shed = Shedding(from_us=50, budget_us=1000, stay_us=20, remaining_us=np.array([100.0, 40.0]))
    return SheddingPlan(
        order=first_plan(network).order,
        discipline=Discipline.ROUND,
        priority=np.array([5.0, 1.0]),
        visits=np.array([1, 0]),
        slices_us=np.array([10, 10]),
        shedding=shed,
    )


def test_much_waiting_is_shed_while_the_budget_lasts() -> None:
    network = filters(2)
    plan, waits = shedding_plan(network), queues_of(network, q0=100, q2=90)

    assert chosen(network, plan, waits, now_us=200) == 0
    # 40 us of work were taken in, since 90: from 1050 on they come to be late.
    assert chosen(network, plan, waits, now_us=1049) == 0
    assert chosen(network, plan, waits, now_us=1050) == 2


def test_little_waiting_goes_in_rounds() -> None:
    network = filters(2)

    assert chosen(network, shedding_plan(network), queues_of(network, q2=90), now_us=100) == 2


def test_what_sheds_keeps_its_turn_for_its_stay() -> None:
    network, turn = filters(2), first_turn()
    plan = shedding_plan(network)
    two_behind = queues_of(network, q2=90)
    two_behind.waiting[2] = 2

    assert chosen(network, plan, two_behind, turn, 100) == 2
    spend(turn, 5)
    both = queues_of(network, q0=100, q2=90)
    assert chosen(network, plan, both, turn, 105) == 2
    spend(turn, int(turn[STAY_US]))
    assert chosen(network, plan, both, turn, 120) == 0
