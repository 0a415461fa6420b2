"""Random queries that can be run, batches for them, and a clock that goes on by what operators say they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.contract import Chain, Operator, Query
from lakehouse.algorithms.scheduling.executor import Executor, Result
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.operators import Predicate
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


def passing(clock: VirtualClock, modulus: int, rest: int, us_a_row: float) -> Callable[[Columns], Any]:
    """Return a predicate of one column that takes its time."""

    def run(rows: Columns) -> Any:
        clock.spend(us_a_row * rows.num_rows)
        return (rows["x"] + rows["y"]) % modulus != rest

    return run


@st.composite
def operators(draw: Any, name: str, clock: VirtualClock) -> Operator:
    """A predicate, shared or not, free to move or not."""
    kind = draw(st.sampled_from(["own", "own", "shared", "placed"]))
    modulus, us = draw(st.integers(2, 5)), draw(st.sampled_from([0.0, 1.0, 20.0]))
    rest = draw(st.integers(0, 2))
    return Predicate(
        name,
        commutes=kind != "placed",
        run=passing(clock, modulus, rest, us),
        shared=(modulus, rest) if kind == "shared" else None,
    )


@st.composite
def chains(draw: Any, name: str, clock: VirtualClock) -> Chain:
    """A chain over one of two streams."""
    count = draw(st.integers(1, 4))
    filters = tuple(draw(operators(f"{name}{i}", clock)) for i in range(count))
    return Chain(draw(st.sampled_from(["R", "S"])), filters)


@st.composite
def queries(draw: Any, clock: VirtualClock, most: int = 4) -> list[Query]:
    """Some queries."""
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


def fed(
    asked: Sequence[Query],
    source: Source,
    policy: Policy,
    clock: VirtualClock,
    limit_bytes: int,
    ahead: int = 0,
) -> tuple[Executor, list[Result]]:
    """Offer batches as early as they are taken, run ``ahead`` steps after each, then all; return what came out."""
    executor = Executor(asked, policy, clock, limit_bytes, SHORT)
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
