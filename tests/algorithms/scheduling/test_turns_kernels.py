from __future__ import annotations

from dataclasses import replace

import numpy as np

from lakehouse.algorithms.scheduling.contract import Chain, Discipline, Join, Plan, Query
from lakehouse.algorithms.scheduling.network import Network
from lakehouse.algorithms.scheduling.policy import first_plan
from lakehouse.algorithms.scheduling.turns_kernels import (
    NONE,
    Queues,
    adopt_order,
    empty_queues,
    first_turn,
    next_queue,
    orders,
    ready_queue,
    spend,
)
from tests.algorithms.scheduling.workloads import filters, one_stream

JOIN = Network.of([Query("q", Chain(Join("j", one_stream(False).queries[0].chain, Chain("S"))))])


def queues_of(network: Network, **heads: int) -> Queues:
    """Return queues with one tuple each, of these numbers: ``q0=5`` is number 5 in queue 0."""
    queues = empty_queues(network)
    for name, number in heads.items():
        queue = int(name[1:])
        queues.head[queue], queues.waiting[queue] = number, 1
    return queues


def chosen(network: Network, plan: Plan, queues: Queues, turn: object = None) -> int:
    return next_queue(network.wiring, orders(plan), queues, first_turn() if turn is None else turn)


def test_nothing_waiting_nothing_runs() -> None:
    network = filters(2)
    for discipline in Discipline:
        assert (
            chosen(network, replace(first_plan(network), discipline=discipline), empty_queues(network))
            == NONE
        )


def test_the_oldest_goes_first_and_of_one_arrival_what_has_come_farthest() -> None:
    network = filters(3)

    assert chosen(network, first_plan(network), queues_of(network, q0=7, q2=5, q4=6)) == 2
    assert chosen(network, first_plan(network), queues_of(network, q0=5, q2=5)) == 2


def test_the_highest_priority_goes_first_and_of_equals_the_oldest() -> None:
    network = filters(3)
    plan = replace(first_plan(network), discipline=Discipline.HIGHEST, priority=np.array([2.0, 2.0, 1.0]))

    assert chosen(network, plan, queues_of(network, q0=9, q4=1)) == 0
    assert chosen(network, plan, queues_of(network, q0=9, q2=8, q4=1)) == 2


def test_a_round_gives_way_when_a_slice_is_over_or_nothing_waits() -> None:
    network, turn = filters(2), first_turn()
    plan = replace(first_plan(network), discipline=Discipline.ROUND, slices_us=np.array([10, 10]))
    both = queues_of(network, q0=2, q2=1)

    assert chosen(network, plan, both, turn) == 0
    spend(turn, 9)
    assert chosen(network, plan, both, turn) == 0
    spend(turn, 1)
    assert chosen(network, plan, both, turn) == 2
    assert chosen(network, plan, queues_of(network, q0=2), turn) == 0


def test_a_lone_operator_gets_a_slice_in_every_round() -> None:
    network, turn = filters(1), first_turn()
    plan = replace(first_plan(network), discipline=Discipline.ROUND)
    for _ in range(3):
        assert chosen(network, plan, queues_of(network, q0=1), turn) == 0
        spend(turn, 5)


def test_a_join_waits_for_what_arrived_before_on_the_other_side() -> None:
    # Position 0 is the filter over the left stream, queue 2 and 3 are the join's sides.
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q3=5), 1) == 3
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q0=4, q3=5), 1) == NONE
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q0=6, q3=5), 1) == 3
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q2=4, q3=5), 1) == 2


def test_of_one_arrival_on_both_sides_the_left_goes_first() -> None:
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q2=5, q3=5), 1) == 2
    assert ready_queue(JOIN.wiring, queues_of(JOIN, q0=5, q3=5), 1) == NONE


def test_filters_change_places_only_when_nothing_is_between_them() -> None:
    network, order, wanted = filters(2), np.arange(2), np.array([1, 0])
    between = queues_of(network, q0=5, q2=4)

    adopt_order(network.wiring, between, order, wanted)

    assert order.tolist() == [0, 1]
    assert ready_queue(network.wiring, between, 0) == NONE
    assert ready_queue(network.wiring, between, 1) == 2

    clear = queues_of(network, q0=5)
    adopt_order(network.wiring, clear, order, wanted)

    assert order.tolist() == [1, 0]
    assert ready_queue(network.wiring, clear, 0) == 0
