"""One stream through the centre with each method, by counts alone; and means over seeds with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from lakehouse.algorithms.multiway_join.centre import Centre
from lakehouse.algorithms.multiway_join.contract import Cost, Ordering, Sending
from lakehouse.algorithms.multiway_join.exhaustive import Smje
from lakehouse.algorithms.multiway_join.heuristic import Smjh
from tests.benchmarks.multiway_join.streams import STREAMS, Stream
from tests.oracles.multiway_join.dense_synopsis import DenseSynopsis
from tests.oracles.multiway_join.fixed_order import FixedOrder
from tests.oracles.multiway_join.lottery import Lottery
from tests.oracles.multiway_join.vectors import vector_in

Method = tuple[Callable[[int], Ordering], Sending]

LOTTERY, SMJH, SMJE, OURS = "Lottery", "SMJH", "SMJE", "ours"
METHODS: dict[str, Method] = {
    LOTTERY: (Lottery, Sending(filters=False)),
    SMJH: (lambda sites: Smjh(), Sending()),
    SMJE: (lambda sites: Smje(), Sending()),
    "best order, no filter": (lambda sites: Smje(), Sending(filters=False)),
    "filter, fixed order": (lambda sites: FixedOrder(), Sending()),
    OURS: (lambda sites: Smje(), Sending(is_factorised=True, is_compact=True)),
}


class Estimate(NamedTuple):
    """A mean over seeds, and half the width of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{_short(self.mean)} ± {_short(self.half)}"


def estimate(values: Any) -> Estimate:
    """Return the mean of one value per seed."""
    values = np.asarray(values, np.float64)
    return Estimate(float(values.mean()), float(1.96 * values.std(ddof=1) / np.sqrt(len(values))))


def costs_over_time(
    stream: Stream, window: int | None, methods: dict[str, Method] = METHODS, asker: bool = False
) -> dict[str, list[Cost]]:
    """Return the cost of each interval by method; every method sees the same blocks and the same costs of ways."""
    query = stream.query(window, asker)
    synopsis = DenseSynopsis(len(query.sites))
    vectors = [[vector_in(synopsis, values) for values in line] for line in stream.values]
    found = {}
    for name, (ordering, sending) in methods.items():
        sites = len(query.sites)
        centre = Centre(query, DenseSynopsis(sites), ordering(sites), sending)
        found[name] = [
            _interval(centre, interval, stream.transfer[interval], line)
            for interval, line in enumerate(vectors)
        ]
    return found


@cache
def runs(
    stream: str, sites: int, window: int | None, seeds: int, asker: bool = False
) -> dict[str, list[list[Cost]]]:
    """Return the cost of each seed's intervals by method; parts that ask for the same share it."""
    found: dict[str, list[list[Cost]]] = {name: [] for name in METHODS}
    for seed in range(seeds):
        made = STREAMS[stream](np.random.default_rng([sites, seed]), sites)
        for name, costs in costs_over_time(made, window, asker=asker).items():
            found[name].append(costs)
    return found


def total(costs: Sequence[Cost]) -> Cost:
    """Return the sum of costs."""
    return sum(costs, Cost())


def _interval(centre: Centre, interval: int, transfer: Any, vectors: Any) -> Cost:
    if transfer is not centre.query.sites.transfer and not np.array_equal(
        transfer, centre.query.sites.transfer
    ):
        centre.measure(transfer)
    cost = centre.advance(interval)
    for name, vector in zip(centre.query.sites.names, vectors, strict=True):
        cost += centre.apply(name, vector).cost
    return cost


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
