"""Random queries that can be run, batches for them, and a clock that goes on by what operators say they take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Chain, Operator, Query
from lakehouse.algorithms.scheduling.executor import Executor, Result
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.operators import Merge, Predicate, Transform
from lakehouse.algorithms.scheduling.policy import Policy
from tests.oracles.scheduling.columns import Columns

Source = list[tuple[str, Columns]]
SHORT = Interval(100, 50, 400, 2)


class VirtualClock:
    """Nanoseconds that pass only when somebody spends them."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns

    def spend(self, us: float) -> None:
        self.ns += round(us * 1000)


class Latest:
    """A join with a state: each row with the newest row of the other side, if there is one."""

    def __init__(self) -> None:
        self.newest: list[int | None] = [None, None]

    def __call__(self, side: int, rows: Columns) -> Columns:
        other = self.newest[1 - side]
        self.newest[side] = int(rows["x"][-1])
        if other is None:
            return rows.take(np.zeros(0, np.int64))
        return Columns({"x": rows["x"] * 31 + other, "y": rows["y"] + side})


def passing(clock: VirtualClock, modulus: int, rest: int, us_a_row: float) -> Callable[[Columns], Any]:
    """Return a predicate of one column that takes its time."""

    def run(rows: Columns) -> Any:
        clock.spend(us_a_row * rows.num_rows)
        return (rows["x"] + rows["y"]) % modulus != rest

    return run


def doubled(clock: VirtualClock) -> Callable[[Columns], Columns]:
    """Return a transform that gives every row twice."""

    def run(rows: Columns) -> Columns:
        clock.spend(rows.num_rows)
        twice = rows.take(np.repeat(np.arange(rows.num_rows), 2))
        return Columns({"x": twice["x"] + np.arange(twice.num_rows) % 2, "y": twice["y"]})

    return run


@st.composite
def operators(draw: Any, name: str, clock: VirtualClock) -> Operator:
    """A predicate, shared or not, free to move or not, or a transform."""
    kind = draw(st.sampled_from(["own", "own", "shared", "placed", "transform"]))
    if kind == "transform":
        return Transform(name, run=doubled(clock), shared=draw(st.sampled_from([None, "twice"])))
    modulus, us = draw(st.integers(2, 5)), draw(st.sampled_from([0.0, 1.0, 20.0]))
    rest = draw(st.integers(0, 2))
    return Predicate(
        name,
        commutes=kind != "placed",
        run=passing(clock, modulus, rest, us),
        shared=(modulus, rest) if kind == "shared" else None,
    )


@st.composite
def chains(draw: Any, name: str, clock: VirtualClock, depth: int = 1) -> Chain:
    """A chain over one of two streams or over a join."""
    source: Any = draw(st.sampled_from(["R", "S"]))
    if depth and draw(st.booleans()):
        left, right = (draw(chains(f"{name}{side}", clock, depth - 1)) for side in "lr")
        source = Merge(f"{name}-join", left, right, Latest())
    least = 1 if isinstance(source, str) else 0
    count = draw(st.integers(least, 4))
    return Chain(source, tuple(draw(operators(f"{name}{i}", clock)) for i in range(count)))


@st.composite
def queries(draw: Any, clock: VirtualClock, most: int = 4) -> list[Query]:
    """Some queries; joins keep a state, so they are made anew for every run: see ``fresh``."""
    count = draw(st.integers(1, most))
    return [
        Query(f"q{i}", draw(chains(f"o{i}", clock)), draw(st.sampled_from([50, 10_000])))
        for i in range(count)
    ]


@st.composite
def sources(draw: Any, streams: Sequence[str] = ("R", "S"), max_size: int = 12) -> Source:
    """Batches of small numbers, some empty."""
    sizes = draw(st.lists(st.integers(0, 12), max_size=max_size))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [
        (
            str(rng.choice(list(streams))),
            Columns({"x": rng.integers(0, 50, size), "y": rng.integers(0, 3, size)}),
        )
        for size in sizes
    ]


def fresh(chain: Chain) -> Chain:
    """Return the chain with joins that remember nothing."""
    source = chain.source
    if isinstance(source, Merge):
        source = Merge(source.name, fresh(source.left), fresh(source.right), Latest())
    return Chain(source, chain.operators)


def anew(asked: Iterable[Query]) -> list[Query]:
    """Return the queries with joins that remember nothing."""
    return [Query(query.name, fresh(query.chain), query.deadline_us) for query in asked]


def fed(
    asked: Sequence[Query],
    source: Source,
    policy: Policy,
    clock: VirtualClock,
    limit_bytes: int,
    ahead: int = 0,
) -> tuple[Executor, list[Result]]:
    """Offer batches as early as they are taken, run ``ahead`` steps after each, then all; return what came out."""
    executor = Executor(anew(asked), policy, clock, limit_bytes, SHORT)
    read = {stream for stream in executor.network.streams}
    for stream, rows in source:
        while stream in read and not executor.offer(stream, rows):
            assert executor.step()
        for _ in range(ahead):
            executor.step()
    while executor.step():
        clock.spend(1)
    return executor, executor.results()


def plain(rows: Columns) -> list[tuple[int, ...]]:
    """Return rows as tuples."""
    return list(zip(*(column.tolist() for column in rows.arrays.values()), strict=True))
