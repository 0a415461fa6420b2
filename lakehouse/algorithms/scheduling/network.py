"""Queries laid out as arrays: positions from the streams downwards, what feeds what, which operators may change places.

Queue ``2 p + side`` is in front of position p; a position that is no join has only its left queue. A *segment* is a
run of neighbouring filters that commute: a plan may permute the operators inside it, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lakehouse.algorithms.scheduling.contract import LEFT, RIGHT, Bools, Chain, Int64s, Join, Operator, Query

NOWHERE = -1


class Wiring(NamedTuple):
    """The network as the compiled loops read it.

    By position: ``query``; ``into``, the queue that its output goes to, ``NOWHERE`` for results; ``is_join``;
    ``segment``. By queue: ``stream``, the stream that it takes from, or ``NOWHERE``; and in ``below[below_from[q] :
    below_from[q + 1]]`` all queues that a tuple can still come to queue q from.
    """

    query: Int64s
    into: Int64s
    is_join: Bools
    segment: Int64s
    stream: Int64s
    below_from: Int64s
    below: Int64s


@dataclass(frozen=True)
class Network:
    """All registered queries, checked; made by ``Network.of``.

    ``operators`` are in the order of positions: operator i is the one written at position i. ``segments``: the
    positions of each segment in which there is something to permute.
    """

    queries: tuple[Query, ...]
    operators: tuple[Operator | Join, ...]
    streams: tuple[str, ...]
    wiring: Wiring
    segments: tuple[Int64s, ...]

    @property
    def size(self) -> int:
        """Return the number of positions."""
        return len(self.operators)

    @property
    def deadline_us(self) -> int:
        """Return the least deadline of all queries."""
        return min(query.deadline_us for query in self.queries)

    @classmethod
    def of(cls, queries: Sequence[Query]) -> Network:
        """Return the network of these queries.

        Raises ValueError when there is no query, a name is empty or comes twice, a query has no operator, or a deadline
        is below 1 us.
        """
        _refuse(queries)
        laid = _Layout()
        for number, query in enumerate(queries):
            laid.add(number, query.chain)
        return laid.network(tuple(queries))

    def is_permuted(self, order: Int64s) -> bool:
        """Return whether an order only permutes the operators inside segments."""
        segment = self.wiring.segment
        whole = np.array_equal(np.sort(order), np.arange(self.size))
        return whole and np.array_equal(segment[order], segment)

    def name_of(self, operator: int) -> str:
        """Return an operator's name."""
        return self.operators[operator].name

    def leaves(self, query: int) -> Int64s:
        """Return the queues that a query's streams flow into."""
        positions = np.flatnonzero(self.wiring.query == query)
        queues = np.stack([2 * positions, 2 * positions + 1], axis=1).ravel()
        fed: Int64s = queues[self.wiring.stream[queues] != NOWHERE]
        return fed


@dataclass
class _Layout:
    """Positions as they are laid out, one list per column."""

    operators: list[Operator | Join] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    query: list[int] = field(default_factory=list)
    into: list[int] = field(default_factory=list)
    is_join: list[bool] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    stream: list[int] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)

    def network(self, queries: tuple[Query, ...]) -> Network:
        lengths = [len(queues) for queues in self.below]
        wiring = Wiring(
            np.array(self.query, np.int64),
            np.array(self.into, np.int64),
            np.array(self.is_join, np.bool_),
            np.array(self.segment, np.int64),
            np.array(self.stream, np.int64),
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            np.array([queue for queues in self.below for queue in queues], np.int64),
        )
        segments = (np.flatnonzero(wiring.segment == one) for one in np.unique(wiring.segment))
        wide = tuple(segment for segment in segments if len(segment) > 1)
        return Network(queries, tuple(self.operators), tuple(self.streams), wiring, wide)

    def add(self, query: int, chain: Chain) -> list[int]:
        """Lay a chain out; return every queue in it, the last position's first."""
        queues: list[int] = []
        if isinstance(chain.source, Join):
            left, right = (self.add(query, side) for side in (chain.source.left, chain.source.right))
            queues = self._append(query, chain.source, False, left, right)
            self._feed(queues[LEFT], chain.source.left, left)
            self._feed(queues[RIGHT], chain.source.right, right)
        commuted = False
        for number, operator in enumerate(chain.operators):
            joined = commuted and operator.commutes
            before, queues = queues, self._append(query, operator, joined, queues)
            if number or before:
                self.into[before[0] // 2] = queues[0]
            else:
                self._read(queues[0], chain)
            commuted = operator.commutes
        return queues

    def _feed(self, queue: int, chain: Chain, laid: list[int]) -> None:
        if laid:
            self.into[laid[0] // 2] = queue
        else:
            self._read(queue, chain)

    def _read(self, queue: int, chain: Chain) -> None:
        assert isinstance(chain.source, str)
        if chain.source not in self.streams:
            self.streams.append(chain.source)
        self.stream[queue] = self.streams.index(chain.source)

    def _append(
        self, query: int, operator: Operator | Join, joined: bool, left: list[int], right: Sequence[int] = ()
    ) -> list[int]:
        position, is_join = len(self.operators), isinstance(operator, Join)
        self.operators.append(operator)
        self.query.append(query)
        self.into.append(NOWHERE)
        self.is_join.append(is_join)
        self.segment.append(self.segment[-1] if joined else position)
        self.stream += [NOWHERE, NOWHERE]
        self.below += [list(left), list(right)]
        own = [2 * position, 2 * position + 1] if is_join else [2 * position]
        return [*own, *left, *right]


def _refuse(queries: Sequence[Query]) -> None:
    if not queries:
        raise ValueError("expected at least one query, found none")
    _refuse_names("queries", [query.name for query in queries])
    for query in queries:
        names = list(_names(query.chain))
        if not names:
            raise ValueError(f"query {query.name}: expected at least one operator, found none")
        _refuse_names(f"query {query.name}: operators", names)
        if query.deadline_us < 1:
            raise ValueError(f"query {query.name}: expected a deadline from 1 us, found {query.deadline_us}")


def _refuse_names(what: str, names: list[str]) -> None:
    if not all(names):
        raise ValueError(f"{what}: expected names, found an empty one")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: expected each name once, found twice: {', '.join(twice)}")


def _names(chain: Chain) -> Iterator[str]:
    if isinstance(chain.source, Join):
        yield chain.source.name
        yield from _names(chain.source.left)
        yield from _names(chain.source.right)
    elif not chain.source:
        raise ValueError("expected the name of a stream, found an empty one")
    yield from (operator.name for operator in chain.operators)
