"""Random small networks and workloads, and what must come out of them, worked out tuple by tuple."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lakehouse.algorithms.scheduling.chain import ChainScheduling
from lakehouse.algorithms.scheduling.contract import Chain, Join, Operator, Query, Statistics
from lakehouse.algorithms.scheduling.interval import Interval
from lakehouse.algorithms.scheduling.multifactor import MultiFactor
from lakehouse.algorithms.scheduling.network import NOWHERE, Network
from lakehouse.algorithms.scheduling.policies import Fifo, Greedy
from lakehouse.algorithms.scheduling.policy import Policy
from tests.oracles.scheduling.deadline_rounds import DeadlineRounds
from tests.oracles.scheduling.simulate import Workload
from tests.oracles.scheduling.simulate_kernels import copies, draw_of, draw_of_copy

POLICIES: dict[str, Callable[[], Policy]] = {
    "fifo": Fifo,
    "greedy": Greedy,
    "chain": ChainScheduling,
    "multifactor": MultiFactor,
    "deadline_rounds": DeadlineRounds,
    "short_rounds": lambda: DeadlineRounds(sheds=False),
}
SHORT = Interval(100, 50, 400, 2)
SELECTIVITY = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])


@st.composite
def chains(draw: Any, name: str, depth: int = 2) -> Chain:
    """A chain of up to four operators over one of two streams, or over a join of such chains."""
    source: str | Join = draw(st.sampled_from(["R", "S"]))
    if depth and draw(st.booleans()):
        left, right = draw(chains(f"{name}l", depth - 1)), draw(chains(f"{name}r", depth - 1))
        source = Join(f"{name}-join", left, right)
    least = 1 if isinstance(source, str) else 0
    commutes = draw(st.lists(st.booleans(), min_size=least, max_size=4))
    return Chain(source, tuple(Operator(f"{name}{i}", each) for i, each in enumerate(commutes)))


@st.composite
def networks(draw: Any) -> Network:
    """One or two queries."""
    names = draw(st.sampled_from([["a"], ["a", "b"]]))
    deadlines = st.sampled_from([300, 2000, 100_000])
    return Network.of([Query(name, draw(chains("o")), draw(deadlines)) for name in names])


@st.composite
def fixed_cases(draw: Any) -> tuple[Network, Workload]:
    """One query that reads each stream once and in which nothing may change places, and a workload for it."""

    def chain(name: str, source: str | Join, least: int = 1) -> Chain:
        count = draw(st.integers(least, 4))
        return Chain(source, tuple(Operator(f"{name}{number}") for number in range(count)))

    whole = chain("r", "R")
    if draw(st.booleans()):
        whole = chain("o", Join("join", whole, chain("s", "S", 0)), 0)
    network = Network.of([Query("a", whole, draw(st.sampled_from([300, 2000, 100_000])))])
    return network, draw(workloads(network))


@st.composite
def workloads(draw: Any, network: Network, max_size: int = 60) -> Workload:
    """Arrivals close together or far apart, in two phases of costs and selectivities."""
    gaps = draw(st.lists(st.sampled_from([0, 1, 20, 300]), max_size=max_size))
    n, shape = len(gaps), (2, network.size, 2)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    passing = rng.choice([0.0, 0.1, 0.5, 0.9, 1.0], shape)
    passing[:, network.wiring.is_join] *= 2.2
    return Workload(
        at_us=np.cumsum(np.array(gaps, np.int64)),
        stream=rng.integers(0, len(network.streams), n),
        phase=(np.arange(n) > n // 2).astype(np.int64),
        cost_us=rng.choice([1, 7, 30], shape),
        selectivity=passing,
        switch_us=draw(st.sampled_from([0, 3])),
        seed=draw(st.integers(0, 1000)),
    )


@st.composite
def cases(draw: Any) -> tuple[Network, Workload]:
    """A network and a workload for it."""
    network = draw(networks())
    return network, draw(workloads(network))


def expected(network: Network, workload: Workload) -> list[list[tuple[int, int]]]:
    """Return by query the arrival and draw of every result, in the order of the written query."""
    found: list[list[tuple[int, int]]] = [[] for _ in network.queries]
    for number, stream in enumerate(workload.stream.tolist()):
        for queue in np.flatnonzero(network.wiring.stream == stream).tolist():
            _follow(network, workload, number, draw_of(workload.seed, number), queue, found)
    return found


def _follow(
    network: Network,
    workload: Workload,
    number: int,
    draw: int,
    queue: int,
    found: list[list[tuple[int, int]]],
) -> None:
    position, side = divmod(queue, 2)
    passing = workload.selectivity[workload.phase[number], position, side]
    for copy in range(copies(draw, position, passing)):
        own = draw
        if network.wiring.is_join[position]:
            own = draw_of_copy(draw, position, copy)
        if network.wiring.into[position] == NOWHERE:
            found[network.wiring.query[position]].append((number, own))
        else:
            _follow(network, workload, number, own, int(network.wiring.into[position]), found)


def one_stream(*commutes: bool, deadline_us: int = 600_000) -> Network:
    """Return a query of one chain over one stream."""
    operators = tuple(Operator(f"op{i}", each) for i, each in enumerate(commutes))
    return Network.of([Query("q", Chain("s", operators), deadline_us)])


def filters(count: int) -> Network:
    """Return a query of filters that may change places."""
    return one_stream(*[True] * count)


def measured(
    network: Network, arrived: list[float], handled: list[Any], passed: list[Any], switch_us: float = 0.0
) -> Statistics:
    """Return statistics from one number an operator, or from a pair for a join."""
    n, s = (
        np.array([each if isinstance(each, tuple) else (each, each) for each in values], np.float64)
        for values in (handled, passed)
    )
    return Statistics(np.array(arrived, np.float64), n, s, switch_us)


def workload_of(
    at_us: list[int], cost_us: list[int], passing: list[float], switch_us: int = 0, seed: int = 0
) -> Workload:
    """Return a workload of one stream and one phase."""
    n = len(at_us)
    cost = np.repeat(np.array(cost_us, np.int64)[None, :, None], 2, axis=2)
    selectivity = np.repeat(np.array(passing, np.float64)[None, :, None], 2, axis=2)
    zeros = np.zeros(n, np.int64)
    return Workload(np.array(at_us, np.int64), zeros, zeros, cost, selectivity, switch_us, seed)
