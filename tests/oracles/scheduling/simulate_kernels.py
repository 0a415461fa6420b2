"""Compiled loop of the simulator: one machine, a clock that goes on by what each tuple costs.

A tuple is a row of ``pool``: its arrival number, its draw, the next one of its queue. The draw decides, with the
operator, what becomes of it, so that every policy sees the same verdicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from lakehouse.algorithms.scheduling.turns_kernels import EMPTY, NONE, adopt_order
from tests.oracles.scheduling.shedding_kernels import next_queue, spend

# Columns of `pool` and of `log`.
NUMBER, DRAW, NEXT = range(3)
LOG_QUERY, LOG_NUMBER, LOG_DRAW, LOG_LEFT_US, LOG_COLUMNS = range(5)
# Fields of `state`.
NOW, ARRIVED, FREE, IN_SYSTEM, COUNTED_TO, TUPLE_US, PEAK, LAST, LOGGED, SWITCHES, STATE = range(11)


class Machine(NamedTuple):
    """Costs and verdicts: ``cost_us`` and ``selectivity`` are phases x operators x sides."""

    cost_us: Any
    selectivity: Any
    switch_us: int
    seed: int


class Arrivals(NamedTuple):
    """By arrival number, times ascending; ``readers[reader_from[s] : reader_from[s + 1]]`` are stream s's queues."""

    at_us: Any
    stream: Any
    phase: Any
    reader_from: Any
    readers: Any


class Running(NamedTuple):
    """What changes in place: ``Queues``, the first and last tuple of each, and the parts of ``Counts``.

    ``order`` becomes ``wanted`` once nothing waits inside a segment. ``samples``: tuples in the system every
    ``sample_us``.
    """

    state: Any
    turn: Any
    queues: Any
    first: Any
    last: Any
    order: Any
    wanted: Any
    taken: Any
    passed: Any
    busy_us: Any
    arrived: Any
    switched: Any
    samples: Any
    sample_us: int


@njit(cache=True)
def mixed(a: Any, b: Any) -> Any:
    """Return 64 bits that look random and depend on both."""
    z = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xD1B54A32D192ED03)
    z += np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def draw_of(seed: int, number: Any) -> Any:
    """Return the draw of an arrival."""
    return np.int64(mixed(seed, number))


@njit(cache=True)
def draw_of_copy(draw: Any, operator: Any, copy: int) -> Any:
    """Return the draw of one of the tuples that a join makes of one."""
    return np.int64(mixed(draw, -2 - operator - 1000 * copy))


@njit(cache=True)
def copies(draw: Any, operator: Any, selectivity: Any) -> Any:
    """Return how many tuples an operator makes of one: selectivity on average, the whole numbers around it only."""
    whole = int(selectivity)
    chance = float(mixed(draw, operator) >> np.uint64(11)) / 9007199254740992.0
    return whole + (1 if chance < selectivity - whole else 0)


@njit(cache=True)
def run(
    wiring: Any, machine: Any, arrivals: Any, orders: Any, running: Any, pool: Any, log: Any, until_us: int
) -> Any:
    """Run until a time or until nothing is left to do; return the pool and the log, which may have grown."""
    state, queues = running.state, running.queues
    while True:
        pool = _arrive(arrivals, running, pool, machine.seed, state[NOW])
        adopt_order(wiring, queues, running.order, running.wanted)
        if state[NOW] >= until_us:
            return pool, log
        queue = next_queue(wiring, orders, queues, running.turn, state[NOW])
        if queue != NONE:
            pool, log = _handle(wiring, machine, arrivals, running, pool, log, queue)
        elif state[ARRIVED] < len(arrivals.at_us):
            state[NOW] = min(until_us, arrivals.at_us[state[ARRIVED]])
        else:
            return pool, log


@njit(cache=True)
def _handle(wiring: Any, machine: Any, arrivals: Any, running: Any, pool: Any, log: Any, queue: int) -> Any:
    """Let an operator handle the oldest tuple of a queue."""
    state, position, side = running.state, queue // 2, queue % 2
    operator = running.order[position]
    tuple_at = _take(running, arrivals, pool, queue)
    number, draw = pool[tuple_at, NUMBER], pool[tuple_at, DRAW]
    phase = arrivals.phase[number]
    cost = machine.cost_us[phase, operator, side]
    if state[LAST] != operator:
        state[NOW] += machine.switch_us
        running.switched[0] += 1
        running.switched[1] += machine.switch_us
        state[SWITCHES] += 1
    state[LAST] = operator
    state[NOW] += cost
    spend(running.turn, cost)
    pool = _arrive(arrivals, running, pool, machine.seed, state[NOW])
    _count_to(running, state[NOW])
    made = copies(draw, operator, machine.selectivity[phase, operator, side])
    running.taken[operator, side] += 1
    running.passed[operator, side] += made
    running.busy_us[operator, side] += cost
    _leave(running, pool, tuple_at)
    for copy in range(made):
        # A filter passes the tuple on as it is; a join makes others of it.
        own = draw_of_copy(draw, operator, copy) if wiring.is_join[position] else draw
        if wiring.into[position] == NONE:
            log = _logged(log, state, wiring.query[position], number, own)
        else:
            pool = _put(running, arrivals, pool, wiring.into[position], number, own)
    return pool, log


@njit(cache=True)
def _arrive(arrivals: Any, running: Any, pool: Any, seed: int, until_us: int) -> Any:
    """Put every arrival up to a time into the queues that read its stream."""
    state = running.state
    while state[ARRIVED] < len(arrivals.at_us) and arrivals.at_us[state[ARRIVED]] <= until_us:
        number = state[ARRIVED]
        _count_to(running, arrivals.at_us[number])
        stream = arrivals.stream[number]
        running.arrived[stream] += 1
        for at in range(arrivals.reader_from[stream], arrivals.reader_from[stream + 1]):
            draw = draw_of(seed, number)
            pool = _put(running, arrivals, pool, arrivals.readers[at], number, draw)
        state[ARRIVED] += 1
    return pool


@njit(cache=True)
def _put(running: Any, arrivals: Any, pool: Any, queue: Any, number: Any, draw: Any) -> Any:
    state, queues = running.state, running.queues
    if state[FREE] == NONE:
        pool = _grown(pool, state)
    at = state[FREE]
    state[FREE] = pool[at, NEXT]
    pool[at, NUMBER], pool[at, DRAW], pool[at, NEXT] = number, draw, NONE
    if queues.waiting[queue] == 0:
        running.first[queue] = at
        queues.head[queue], queues.since_us[queue] = number, arrivals.at_us[number]
    else:
        pool[running.last[queue], NEXT] = at
    running.last[queue] = at
    queues.waiting[queue] += 1
    state[IN_SYSTEM] += 1
    state[PEAK] = max(state[PEAK], state[IN_SYSTEM])
    return pool


@njit(cache=True)
def _take(running: Any, arrivals: Any, pool: Any, queue: int) -> Any:
    """Remove and return the oldest tuple of a queue; it stays in the system until ``_leave``."""
    queues, at = running.queues, running.first[queue]
    queues.waiting[queue] -= 1
    following = pool[at, NEXT]
    running.first[queue] = following
    if following == NONE:
        queues.head[queue] = EMPTY
    else:
        number = pool[following, NUMBER]
        queues.head[queue], queues.since_us[queue] = number, arrivals.at_us[number]
    return at


@njit(cache=True)
def _leave(running: Any, pool: Any, at: int) -> None:
    pool[at, NEXT] = running.state[FREE]
    running.state[FREE] = at
    running.state[IN_SYSTEM] -= 1


@njit(cache=True)
def _grown(pool: Any, state: Any) -> Any:
    size = len(pool)
    wider = np.empty((2 * size, 3), np.int64)
    wider[:size] = pool
    for at in range(size, 2 * size):
        wider[at, NEXT] = at + 1
    wider[2 * size - 1, NEXT] = NONE
    state[FREE] = size
    return wider


@njit(cache=True)
def _logged(log: Any, state: Any, query: Any, number: Any, draw: Any) -> Any:
    if state[LOGGED] == len(log):
        wider = np.empty((2 * len(log), LOG_COLUMNS), np.int64)
        wider[: len(log)] = log
        log = wider
    row = log[state[LOGGED]]
    row[LOG_QUERY], row[LOG_NUMBER], row[LOG_DRAW], row[LOG_LEFT_US] = query, number, draw, state[NOW]
    state[LOGGED] += 1
    return log


@njit(cache=True)
def _count_to(running: Any, to_us: int) -> None:
    """Account for the tuples in the system up to a time, before their number changes."""
    state = running.state
    step = running.sample_us
    first = -(-state[COUNTED_TO] // step)
    for at in range(first, min(-(-to_us // step), len(running.samples))):
        running.samples[at] = state[IN_SYSTEM]
    state[TUPLE_US] += state[IN_SYSTEM] * (to_us - state[COUNTED_TO])
    state[COUNTED_TO] = to_us
