"""Rounds that give way to what sheds most, as the simulator runs them: the product's rounds know no such plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from lakehouse.algorithms.scheduling.contract import Discipline, Plan
from lakehouse.algorithms.scheduling.turns_kernels import EMPTY, LEFT_US, NONE, PLACE, highest, ready_queue
from lakehouse.algorithms.scheduling.turns_kernels import next_queue as next_of_plan

if TYPE_CHECKING:
    from lakehouse.algorithms.scheduling.contract import Bools, Float64s, Int64s
    from lakehouse.algorithms.scheduling.network import Network

ROUND = int(Discipline.ROUND)
# Beside the fields of the product's turn: the queue that sheds, if it has the turn, and what is left of its stay.
SHEDDING, STAY_US, FIELDS = 2, 3, 4


@dataclass(frozen=True)
class Shedding:
    """Rule by which a round gives way to the highest priority, so that fewer tuples wait.

    It does while what waits is more than ``from_us`` of work, as long as all that the first operators have passed on
    can still be done within ``budget_us`` of the oldest's arrival. An operator then keeps its turn for ``stay_us``.
    ``remaining_us``, by position: work that a tuple still makes on average from there on.
    """

    from_us: int
    budget_us: int
    stay_us: int
    remaining_us: Float64s


@dataclass(frozen=True)
class SheddingPlan(Plan):
    """Plan of rounds with a rule of shedding; None for none."""

    shedding: Shedding | None = None


class Orders(NamedTuple):
    """A plan as the kernels read it. Without shedding ``from_us`` is never reached."""

    discipline: int
    priority: Float64s
    visits: Int64s
    slices_us: Int64s
    from_us: int
    budget_us: int
    stay_us: int
    remaining_us: Float64s


class Queues(NamedTuple):
    """The product's queues, and when the oldest tuple of each arrived."""

    head: Int64s
    since_us: Int64s
    waiting: Int64s
    held: Bools


def orders(plan: Plan) -> Orders:
    """Return a plan for the kernels."""
    turns = int(plan.discipline), plan.priority, plan.visits, plan.slices_us
    if (shed := getattr(plan, "shedding", None)) is None:
        return Orders(*turns, EMPTY, 0, 0, np.zeros(len(plan.order)))
    return Orders(*turns, shed.from_us, shed.budget_us, shed.stay_us, shed.remaining_us)


def empty_queues(network: Network) -> Queues:
    """Return queues in which nothing waits."""
    since_us, waiting = np.zeros((2, 2 * network.size), np.int64)
    return Queues(np.full(2 * network.size, EMPTY), since_us, waiting, np.zeros(network.size, np.bool_))


def first_turn() -> Int64s:
    """Return the state of turns before the first."""
    turn = np.zeros(FIELDS, np.int64)
    turn[PLACE] = turn[SHEDDING] = NONE
    return turn


@njit(cache=True)
def spend(turn: Any, spent_us: int) -> None:
    """Take what the running operator used off its slice and its stay."""
    turn[LEFT_US] -= spent_us
    turn[STAY_US] -= spent_us


@njit(cache=True)
def next_queue(wiring: Any, orders: Any, queues: Any, turn: Any, now_us: int) -> int:
    """Return the queue whose oldest tuple is handled next, or ``NONE`` if none can be."""
    if orders.discipline == ROUND:
        if orders.from_us != EMPTY and _may_shed(wiring, orders, queues, now_us):
            return _shedding(wiring, orders, queues, turn)
        turn[SHEDDING] = NONE
    return next_of_plan(wiring, orders, queues, turn)


@njit(cache=True)
def _may_shed(wiring: Any, orders: Any, queues: Any, now_us: int) -> Any:
    """Return whether much waits, and what was taken in can be done in time even so."""
    work, taken_in, oldest = 0.0, 0.0, EMPTY
    for queue in range(len(queues.head)):
        if queues.head[queue] != EMPTY:
            waits = queues.waiting[queue] * orders.remaining_us[queue // 2]
            work += waits
            if wiring.stream[queue] == NONE:
                taken_in += waits
                oldest = min(oldest, queues.since_us[queue])
    return work > orders.from_us and now_us + taken_in < oldest + orders.budget_us


@njit(cache=True)
def _shedding(wiring: Any, orders: Any, queues: Any, turn: Any) -> int:
    if turn[SHEDDING] != NONE and turn[STAY_US] > 0:
        queue = ready_queue(wiring, queues, turn[SHEDDING] // 2)
        if queue != NONE:
            return queue
    queue = highest(wiring, orders, queues)
    turn[SHEDDING], turn[STAY_US] = queue, orders.stay_us
    return queue
