"""Arrivals and their costs, per scenario; every policy sees the same tuples and the same verdicts.

Turning to another operator takes 20 us more than the tuple. T = 600 ms. Arrivals are Poisson; bursts come every 2 s for
0.3 s, on the second stream every 3 s. Load is the share of the machine's time that an order needs without switching.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lakehouse.algorithms.scheduling.contract import (
    MILLISECOND,
    SECOND,
    Chain,
    Join,
    Operator,
    Query,
    Statistics,
)
from lakehouse.algorithms.scheduling.flow import by_filtered, flow
from lakehouse.algorithms.scheduling.network import Network
from tests.oracles.scheduling.simulate import Workload

DEADLINE_US = 600 * MILLISECOND
SWITCH_US = 20
LENGTH_S = 20.0


@dataclass(frozen=True)
class Scenario:
    """A network and its workload; ``told`` says in words what it is."""

    name: str
    told: str
    network: Network
    workload: Workload

    def loads(self) -> tuple[float, float]:
        """Return the mean load of the written order and of the best one, over all phases."""
        arrived = np.bincount(self.workload.stream, minlength=len(self.network.streams))
        arrived_per_s = arrived / float(self.workload.at_us[-1]) * SECOND
        written, best = [], []
        for cost_us, passing in zip(self.workload.cost_us, self.workload.selectivity, strict=True):
            known = Statistics(arrived_per_s, SECOND / cost_us, passing)
            order = np.arange(self.network.size)
            written.append(flow(self.network, known, order).load.sum())
            best.append(flow(self.network, known, by_filtered(self.network, known, order)).load.sum())
        return float(np.mean(written)), float(np.mean(best))

    def switching(self, switch_us: int) -> Scenario:
        """Return the scenario on a machine whose switches take this long."""
        return replace(self, workload=replace(self.workload, switch_us=switch_us))


Made = Callable[[int, float], Scenario]


def steady(seed: int, length_s: float) -> Scenario:
    """Three filters in a poor order, arrivals even."""
    at_us = _poisson(np.random.default_rng(seed), 1020, 0.0, length_s)
    told = "one stream, three filters: 0.4, 0.8, 0.2 ms; S = 0.5, 0.9, 0.2; 1020/s"
    return _filters("one stream", told, at_us, [400, 800, 200], [0.5, 0.9, 0.2], seed)


def bursts(seed: int, length_s: float) -> Scenario:
    """The same filters; now and then ten times as much comes."""
    at_us = _bursts(np.random.default_rng(seed), 500, 3500, length_s)
    told = "the same filters; 500/s, in bursts 3500/s"
    return _filters("one stream, bursts", told, at_us, [400, 800, 200], [0.5, 0.9, 0.2], seed)


def swaps(seed: int, length_s: float) -> Scenario:
    """Every five seconds the first filter's selectivity and the last one's change places."""
    rng = np.random.default_rng(seed)
    at_us = _poisson(rng, 1300, 0.0, length_s)
    told = "three filters of 0.3 ms; S = 0.9, 0.6, 0.2, after 5 s the other way round, and so on; 1300/s"
    scenario = _filters("one stream, swaps", told, at_us, [300, 300, 300], [0.9, 0.6, 0.2], seed)
    there = scenario.workload.selectivity
    both = np.concatenate([there, there[:, ::-1]])
    workload = replace(
        scenario.workload,
        phase=at_us // (5 * SECOND) % 2,
        cost_us=np.repeat(scenario.workload.cost_us, 2, axis=0),
        selectivity=both,
    )
    return replace(scenario, workload=workload)


def joined(seed: int, length_s: float) -> Scenario:
    """Two streams, two filters each, a window join, a filter over its results; arrivals even."""
    rng = np.random.default_rng(seed)
    told = "two streams, two filters each, a join (0.6 and 0.5 ms), a filter; 620/s and 560/s"
    streams = [_poisson(rng, rate, 0.0, length_s) for rate in (620, 560)]
    return _two_streams("two streams", told, streams, seed)


def joined_bursts(seed: int, length_s: float) -> Scenario:
    """The same query; each stream has bursts of its own."""
    rng = np.random.default_rng(seed)
    told = "the same query; 150/s and 200/s, in bursts 1200/s and 1000/s"
    streams = [_bursts(rng, 150, 1200, length_s), _bursts(rng, 200, 1000, length_s, every_s=3.0)]
    return _two_streams("two streams, bursts", told, streams, seed)


def best_already(seed: int, length_s: float) -> Scenario:
    """Bursts over filters that are written in the best order: there is nothing to reorder."""
    at_us = _bursts(np.random.default_rng(seed), 300, 3000, length_s)
    told = "three filters in the best order: 0.2, 0.8, 0.4 ms; S = 0.2, 0.6, 0.9; 300/s, in bursts 3000/s"
    return _filters("best order already, bursts", told, at_us, [200, 800, 400], [0.2, 0.6, 0.9], seed)


def fixed(seed: int, length_s: float) -> Scenario:
    """Operators that may not change places, near the machine's capacity."""
    at_us = _poisson(np.random.default_rng(seed), 1600, 0.0, length_s)
    told = "three operators that do not commute: 0.2, 0.6, 0.4 ms; S = 0.6, 0.2, 0.9; 1600/s"
    return _filters("fixed order", told, at_us, [200, 600, 400], [0.6, 0.2, 0.9], seed, commutes=False)


def fixed_bursts(seed: int, length_s: float) -> Scenario:
    """The same operators, with bursts."""
    at_us = _bursts(np.random.default_rng(seed), 300, 2500, length_s)
    told = "the same operators; 300/s, in bursts 2500/s"
    return _filters(
        "fixed order, bursts", told, at_us, [200, 600, 400], [0.6, 0.2, 0.9], seed, commutes=False
    )


SCENARIOS: tuple[Made, ...] = (steady, bursts, swaps, joined, joined_bursts)
# Here ordering cannot help, and no policy can be best in both: see the page on order and turns.
NOTHING_TO_REORDER: tuple[Made, ...] = (best_already, fixed, fixed_bursts)


def _filters(
    name: str,
    told: str,
    at_us: Any,
    cost_us: Sequence[int],
    selectivity: Sequence[float],
    seed: int,
    commutes: bool = True,
) -> Scenario:
    operators = tuple(Operator(f"filter{number}", commutes) for number in range(1, len(cost_us) + 1))
    network = Network.of([Query("query", Chain("stream", operators), DEADLINE_US)])
    costs, passing = ([[[each, each] for each in values]] for values in (cost_us, selectivity))
    zeros = np.zeros(len(at_us), np.int64)
    return Scenario(name, told, network, _workload(at_us, zeros, costs, passing, seed))


def _two_streams(name: str, told: str, streams: Sequence[Any], seed: int) -> Scenario:
    """Costs and selectivities: R 0.3 ms, 0.8 and 0.3 ms, 0.3; S 0.5 ms, 0.7 and 0.2 ms, 0.4; see ``told``."""
    left, right = (
        Chain(stream, tuple(Operator(f"{stream}{number}", True) for number in (1, 2))) for stream in "RS"
    )
    chain = Chain(Join("join", left, right), (Operator("last"),))
    network = Network.of([Query("query", chain, DEADLINE_US)])
    costs = [[[300, 300], [300, 300], [500, 500], [200, 200], [600, 500], [200, 200]]]
    passing = [[[0.8, 0.8], [0.3, 0.3], [0.7, 0.7], [0.4, 0.4], [0.8, 1.3], [0.5, 0.5]]]
    at_us = np.concatenate(streams)
    of = np.repeat(np.arange(2), [len(each) for each in streams])
    order = np.argsort(at_us, kind="stable")
    return Scenario(name, told, network, _workload(at_us[order], of[order], costs, passing, seed))


def _workload(at_us: Any, stream: Any, cost_us: Any, selectivity: Any, seed: int) -> Workload:
    return Workload(
        at_us,
        stream,
        np.zeros(len(at_us), np.int64),
        np.array(cost_us, np.int64),
        np.array(selectivity, np.float64),
        SWITCH_US,
        seed,
    )


def _poisson(rng: np.random.Generator, per_s: float, from_s: float, to_s: float) -> Any:
    count = rng.poisson(per_s * (to_s - from_s))
    return np.sort(rng.integers(round(from_s * SECOND), round(to_s * SECOND), count))


def _bursts(
    rng: np.random.Generator, per_s: float, in_burst: float, length_s: float, every_s: float = 2.0
) -> Any:
    parts = []
    for start in np.arange(0.0, length_s, every_s):
        parts += [
            _poisson(rng, in_burst, start, start + 0.3),
            _poisson(rng, per_s, start + 0.3, start + every_s),
        ]
    return np.concatenate(parts)
