"""Compiled choice of the operator that runs next, for the simulator and for the executor.

The caller keeps two arrays by queue: ``head``, the number of the oldest tuple in it (numbers go by arrival over all
streams), ``EMPTY`` if there is none; ``waiting``, how many there are. And ``held`` by position: its filters are about
to change places, so it takes nothing in until those behind it are empty.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lakehouse.algorithms.scheduling.contract import Bools, Discipline, Float64s, Int64s, Plan
from lakehouse.algorithms.scheduling.network import Network

EMPTY = 2**62
NONE = -1
OLDEST, HIGHEST = int(Discipline.OLDEST), int(Discipline.HIGHEST)
# Fields of `turn`: the place in the round and what is left of its slice in us.
PLACE, LEFT_US, FIELDS = range(3)


class Orders(NamedTuple):
    """A plan as the kernels read it; see ``Plan``."""

    discipline: int
    priority: Float64s
    visits: Int64s
    slices_us: Int64s


class Queues(NamedTuple):
    """Queues of waiting batches; see the module."""

    head: Int64s
    waiting: Int64s
    held: Bools


def orders(plan: Plan) -> Orders:
    """Return a plan for the kernels."""
    return Orders(int(plan.discipline), plan.priority, plan.visits, plan.slices_us)


def empty_queues(network: Network) -> Queues:
    """Return queues in which nothing waits."""
    queues = 2 * network.size
    return Queues(np.full(queues, EMPTY), np.zeros(queues, np.int64), np.zeros(network.size, np.bool_))


def first_turn() -> Int64s:
    """Return the state of turns before the first."""
    turn = np.zeros(FIELDS, np.int64)
    turn[PLACE] = NONE
    return turn


@njit(cache=True)
def spend(turn: Any, spent_us: int) -> None:
    """Take what the running operator used off its slice."""
    turn[LEFT_US] -= spent_us


@njit(cache=True)
def ready_queue(wiring: Any, queues: Any, position: int) -> int:
    """Return the queue that a position may take from now, or ``NONE``.

    A join takes its inputs in the order of arrival: the older head, if nothing older can still come on the other side.
    """
    left = 2 * position
    if queues.held[position]:
        return NONE
    if not wiring.is_join[position]:
        return left if queues.head[left] != EMPTY else NONE
    right = left + 1
    queue = left if queues.head[left] <= queues.head[right] else right
    number = queues.head[queue]
    if number == EMPTY:
        return NONE
    other = right if queue == left else left
    for at in range(wiring.below_from[other], wiring.below_from[other + 1]):
        coming = queues.head[wiring.below[at]]
        # One arrival may come on both sides; the left one goes first.
        if coming < number or (coming == number and queue == right):
            return NONE
    return queue


@njit(cache=True)
def next_queue(wiring: Any, orders: Any, queues: Any, turn: Any) -> int:
    """Return the queue whose oldest tuple is handled next, or ``NONE`` if none can be."""
    if orders.discipline == OLDEST:
        return _oldest(wiring, queues)
    if orders.discipline == HIGHEST:
        return highest(wiring, orders, queues)
    return _next_of_round(wiring, orders, queues, turn)


@njit(cache=True)
def _oldest(wiring: Any, queues: Any) -> int:
    best = NONE
    # The last position first: of one arrival, what has come farthest goes on.
    for position in range(len(wiring.into) - 1, -1, -1):
        queue = ready_queue(wiring, queues, position)
        if queue != NONE and (best == NONE or queues.head[queue] < queues.head[best]):
            best = queue
    return best


@njit(cache=True)
def highest(wiring: Any, orders: Any, queues: Any) -> int:
    """Return the queue of the highest priority, of equals the oldest, or ``NONE`` if none can be taken from."""
    best, most = NONE, -np.inf
    for position in range(len(wiring.into) - 1, -1, -1):
        priority = orders.priority[position]
        if best != NONE and priority < most:
            continue
        queue = ready_queue(wiring, queues, position)
        if queue != NONE and (best == NONE or priority > most or queues.head[queue] < queues.head[best]):
            best, most = queue, priority
    return best


@njit(cache=True)
def _next_of_round(wiring: Any, orders: Any, queues: Any, turn: Any) -> int:
    if turn[PLACE] == NONE:
        turn[PLACE], turn[LEFT_US] = 0, orders.slices_us[orders.visits[0]]
    for _ in range(len(orders.visits) + 1):
        position = orders.visits[turn[PLACE]]
        queue = ready_queue(wiring, queues, position)
        if queue != NONE and turn[LEFT_US] > 0:
            return queue
        turn[PLACE] = (turn[PLACE] + 1) % len(orders.visits)
        turn[LEFT_US] = orders.slices_us[orders.visits[turn[PLACE]]]
    return NONE


@njit(cache=True)
def adopt_order(wiring: Any, queues: Any, order: Any, wanted: Any) -> None:
    """Let the filters of each segment change places where nothing waits between them; hold the others' intake."""
    position = 0
    while position < len(order):
        end, is_same, is_clear = position, True, True
        while end < len(order) and wiring.segment[end] == wiring.segment[position]:
            is_same &= order[end] == wanted[end]
            is_clear &= end == position or queues.head[2 * end] == EMPTY
            end += 1
        if is_clear and not is_same:
            order[position:end] = wanted[position:end]
        queues.held[position] = not (is_clear or is_same)
        position = end
