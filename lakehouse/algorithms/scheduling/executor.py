"""Runs all registered queries over batches of rows: one thread, bounded memory, a policy that says what runs next.

    offer(stream, rows) -> is taken? -> one chunk a query, in front of its first operator
    step() ............... one operator handles one chunk
    results() ............ what queries have put out since the last call

A chunk is what one query still has of one batch. Chunks are neither cut nor put together, so an operator sees the rows
of a batch in one call, and each query's results leave in the order of their batches. Time is asked of ``clock_ns``.

Guarantees, whatever policy, limit and clock:
    results are those of each query alone in its written order (``alone.py``), in the same order
    nothing is dropped: when ``limit_bytes`` are held, ``offer`` takes nothing more and the oldest batch goes first
    held at most: the limit, one batch, what one batch grows to, and 16 bytes a row that waits in a list
    a query that raises is stopped with its error; what it had read before that batch is still put out; the others go on

A predicate that raises only because it stands before one that was written before it (a guard) is put back: its
segment keeps the written order from then on. The other way round, a guard that a plan puts first may save a query
that would raise alone.

A shared scan is one batch for all its readers; predicates with the same key run once a row for all queries,
wherever they stand. T counts from a batch's ``offer``, or from when that says that it came.
What an earlier executor has shown can be given to the next: ``counted`` tells it, ``known`` takes it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.chunks import Batch, Chunk, Memory, Rows
from lakehouse.algorithms.scheduling.contract import LEFT, Int64s, Join, Operator, Query, Statistics
from lakehouse.algorithms.scheduling.interval import Interval, Replanning
from lakehouse.algorithms.scheduling.measuring import Counts, Sampling, is_measured
from lakehouse.algorithms.scheduling.network import NOWHERE, Network
from lakehouse.algorithms.scheduling.operators import require_runnable
from lakehouse.algorithms.scheduling.policy import Policy, first_plan
from lakehouse.algorithms.scheduling.turns_kernels import (
    EMPTY,
    NONE,
    adopt_order,
    empty_queues,
    first_turn,
    next_queue,
    orders,
    spend,
)

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Result:
    """Rows that a query put out of the batch with this number, how long after the batch was offered."""

    query: str
    number: int
    rows: Any
    delay_us: int


@dataclass
class QueryState:
    """Progress of a query: results and their rows, those later than T, delays in sum and at worst.

    ``error``: what stopped it, at which operator and on which batch.
    """

    results: int = 0
    rows: int = 0
    misses: int = 0
    delay_us: int = 0
    worst_delay_us: int = 0
    error: Exception | None = None
    failed_at: str | None = None
    failed_on: int | None = None


class Executor:
    """All registered queries on one machine; see the module.

    ``states``: what became of each query. ``peak_waiting``: by operator the most rows that waited in front of it.
    Raises ValueError when the queries make no network, or the limit is below 1 byte; TypeError when an operator is no
    predicate.
    """

    def __init__(
        self,
        queries: Sequence[Query],
        policy: Policy,
        clock_ns: Callable[[], int],
        limit_bytes: int = 256 * MEBIBYTE,
        interval: Interval | None = None,
        known: Statistics | None = None,
    ) -> None:
        if limit_bytes < 1:
            raise ValueError(f"expected a limit from 1 byte, found {limit_bytes}")
        self.network = Network.of(queries)
        self.operators = [require_runnable(operator) for operator in self.network.operators]
        self.memory, self.limit_bytes, self.offered = Memory(), limit_bytes, 0
        self.states = {query.name: QueryState() for query in queries}
        self._clock_ns = clock_ns
        start_us = clock_ns() // 1000
        self.planning = Replanning(
            self.network, policy, interval or Interval(), start_us, pool_of(self.operators), known
        )
        self._sampling = Sampling(self.network, self.operators, self.planning.counts, clock_ns)
        if policy.reorders:
            self._sampling.begin(is_measured(self.planning.measured), self.planning.interval.length_us)
        self._orders, self._oldest = orders(self.planning.plan), orders(first_plan(self.network))
        self._turn = first_turn()
        self._queues = empty_queues(self.network)
        self._waiting: list[deque[Chunk]] = [deque() for _ in range(2 * self.network.size)]
        # Nothing waits yet, so every operator can stand where it is planned.
        self._order, self._wanted = self.planning.plan.order.copy(), self.planning.plan.order.copy()
        self._is_pinned = np.zeros(self.network.size, np.bool_)
        self._is_settled, self._last = True, NONE
        self.peak_waiting = np.zeros(self.network.size, np.int64)
        self._results: list[Result] = []

    @property
    def is_full(self) -> bool:
        """Return whether ``offer`` takes nothing before something has been finished."""
        return self.memory.held >= self.limit_bytes

    @property
    def order(self) -> Int64s:
        """Return which operator stands at each position now."""
        return self._order.copy()

    @property
    def waiting(self) -> Int64s:
        """Return how many rows wait in each queue."""
        return self._queues.waiting.copy()

    @property
    def counted(self) -> Counts:
        """Return what was counted since the start."""
        return self.planning.counted()

    def offer(self, stream: str, rows: Rows, since_us: int | None = None) -> bool:
        """Take a batch of a stream in for all its readers; return False, and take nothing, when memory is full.

        ``since_us``: when it came, by the executor's clock; now if it is None. Raises ValueError: no query reads the
        stream.
        """
        if stream not in self.network.streams:
            raise ValueError(f"expected one of the streams {', '.join(self.network.streams)}, found {stream}")
        if self.is_full:
            return False
        number, self.offered = self.offered, self.offered + 1
        wiring, of = self.network.wiring, self.network.streams.index(stream)
        self.planning.counts.arrived[of] += rows.num_rows
        batch = Batch(rows, self.memory)
        since_us = self._clock_ns() // 1000 if since_us is None else since_us
        for queue in np.flatnonzero(wiring.stream == of).tolist():
            if self._state(queue // 2).error is None and rows.num_rows:
                self._put(queue, Chunk(number, since_us, batch, None, None))
        return True

    def step(self) -> bool:
        """Let one operator handle one chunk; return False if nothing waits."""
        started_ns = self._clock_ns()
        self._replan(started_ns // 1000)
        turns = self._oldest if self.is_full else self._orders
        queue = next_queue(self.network.wiring, turns, self._queues, self._turn)
        if queue == NONE:
            return False
        self._handle(queue, started_ns)
        return True

    def results(self) -> list[Result]:
        """Return what has come out since the last call; a query's results are in the order of their batches."""
        results, self._results = self._results, []
        return results

    def _handle(self, queue: int, started_ns: int) -> None:
        position = queue // 2
        operator = int(self._order[position])
        chunk = self._take(queue)
        self._sampling.look(position, chunk)
        begun_ns = self._clock_ns()
        try:
            made = self._applied(operator, chunk)
        except Exception as error:
            self._raised(position, chunk, error)
            made = None
        ended_ns = self._clock_ns()
        if made is not None:
            self._count(operator, chunk.num_rows, made.num_rows, (ended_ns - begun_ns) / 1000)
            self._pass_on(position, made)
        self._drop(chunk)
        spend(self._turn, max((ended_ns - begun_ns) // 1000, 1))
        if self._last != operator:
            self.planning.counts.switched[0] += 1
            self.planning.counts.switched[1] += (begun_ns - started_ns + self._clock_ns() - ended_ns) // 1000
        self._last = operator

    def _applied(self, operator: int, chunk: Chunk) -> Chunk:
        return chunk.kept(self.operators[operator].mask(chunk))

    def _pass_on(self, position: int, chunk: Chunk) -> None:
        if not chunk.num_rows:
            return
        queue = int(self.network.wiring.into[position])
        if queue == NOWHERE:
            self._put_out(position, chunk)
        elif self.network.wiring.segment[queue // 2] != self.network.wiring.segment[position]:
            self._put(queue, chunk.entering())
        else:
            self._put(queue, chunk)

    def _put_out(self, position: int, chunk: Chunk) -> None:
        query, state = self.network.queries[self.network.wiring.query[position]], self._state(position)
        delay_us = self._clock_ns() // 1000 - chunk.since_us
        state.results += 1
        state.rows += chunk.num_rows
        state.delay_us += delay_us
        state.misses += delay_us > query.deadline_us
        state.worst_delay_us = max(state.worst_delay_us, delay_us)
        self._results.append(Result(query.name, chunk.number, chunk.rows(), delay_us))

    def _raised(self, position: int, chunk: Chunk, error: Exception) -> None:
        """Try the written order from the segment's entry, for all that is inside it; stop the query if that raises."""
        failed = int(self._order[position])
        segment = np.flatnonzero(self.network.wiring.segment == self.network.wiring.segment[position])
        if np.array_equal(self._order[segment], segment):
            self._stop(position, failed, chunk.number, error)
            return
        inside = [piece for queue in 2 * segment[1:] for piece in self._taken_from(int(queue))]
        for piece in sorted([chunk, *inside], key=lambda one: one.number):
            again = replace(piece, picked=piece.entered)
            try:
                for failed in segment.tolist():
                    again = self._applied(failed, again)
            except Exception as at_home:
                self._stop(position, failed, piece.number, at_home)
                break
            self._pass_on(int(segment[-1]), again)
        for piece in inside:
            self._drop(piece)
        self._is_pinned[segment] = True
        self._order[segment] = self._wanted[segment] = segment

    def _taken_from(self, queue: int, number: int = 0) -> Iterator[Chunk]:
        """Take out of a queue all batches from this number on, the newest first."""
        while self._waiting[queue] and self._waiting[queue][-1].number >= number:
            chunk = self._waiting[queue].pop()
            self._queues.waiting[queue] -= chunk.num_rows
            self._look(queue)
            yield chunk

    def _stop(self, position: int, operator: int, number: int, error: Exception) -> None:
        """Let a query read nothing more, and forget what it has of this batch and of later ones."""
        state = self._state(position)
        state.error, state.failed_at, state.failed_on = error, self.network.name_of(operator), number
        for own in np.flatnonzero(self.network.wiring.query == self.network.wiring.query[position]).tolist():
            for chunk in self._taken_from(2 * own, number):
                self._drop(chunk)

    def _replan(self, now_us: int) -> None:
        if now_us >= self.planning.due_us and self._advance(now_us):
            plan = self.planning.plan
            self._orders, self._turn = orders(plan), first_turn()
            self._wanted = np.where(self._is_pinned, np.arange(self.network.size), plan.order)
            self._is_settled = False
        if not self._is_settled:
            adopt_order(self.network.wiring, self._queues, self._order, self._wanted)
            self._is_settled = not self._queues.held.any()

    def _advance(self, now_us: int) -> bool:
        is_reached = self.planning.counts.taken[:, LEFT] > 0
        is_replanned = self.planning.advance(now_us)
        if is_replanned and self.planning.policy.reorders:
            self._sampling.begin(is_reached, self.planning.interval.length_us)
        return is_replanned

    def _count(self, operator: int, taken: int, passed: int, busy_us: float) -> None:
        counts = self.planning.counts
        counts.taken[operator, LEFT] += taken
        counts.passed[operator, LEFT] += passed
        counts.busy_us[operator, LEFT] += busy_us

    def _put(self, queue: int, chunk: Chunk) -> None:
        chunk.batch.use()
        self.memory.add(chunk.list_bytes)
        self._waiting[queue].append(chunk)
        self._queues.waiting[queue] += chunk.num_rows
        operator = self._order[queue // 2]
        self.peak_waiting[operator] = max(self.peak_waiting[operator], self._queues.waiting[queue])
        self._look(queue)

    def _take(self, queue: int) -> Chunk:
        """Remove the oldest chunk of a queue; it holds memory until it is dropped."""
        chunk = self._waiting[queue].popleft()
        self._queues.waiting[queue] -= chunk.num_rows
        self._look(queue)
        return chunk

    def _drop(self, chunk: Chunk) -> None:
        self.memory.add(-chunk.list_bytes)
        chunk.batch.release()

    def _look(self, queue: int) -> None:
        """Tell the compiled choice what is at the head of a queue."""
        waiting = self._waiting[queue]
        self._queues.head[queue] = waiting[0].number if waiting else EMPTY

    def _state(self, position: int) -> QueryState:
        return self.states[self.network.queries[self.network.wiring.query[position]].name]


def pool_of(operators: Sequence[Operator | Join]) -> Int64s:
    """Return a number by operator, the same for those that share their work."""
    first: dict[Any, int] = {}
    keys = [getattr(operator, "shared", None) for operator in operators]
    return np.array(
        [number if key is None else first.setdefault(key, number) for number, key in enumerate(keys)]
    )
