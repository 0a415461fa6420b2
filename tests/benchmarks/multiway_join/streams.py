"""The paper's streams, and harder ones: join values by interval and site, and what ways cost then.

The paper: costs of 1 to 10 between any two sites, the same both ways; 5 rows per interval and site (Poisson); values 1
to 20, evenly; 30 intervals. The others change one thing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.multiway_join.contract import Query, Sites

INTERVALS, ROWS, VALUES, WINDOW = 30, 5.0, 20, 3
PLAIN = "even values"
Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """``values[interval][site]``: join values of the block; ``transfer[interval]``: costs between the sites."""

    values: list[list[Int64s]]
    transfer: list[Float64s]

    def query(self, window: int | None, asker: bool = False) -> Query:
        """Return the join of all its sites, a time unit per interval; asked by the first site, or by nobody."""
        names = [f"site {number}" for number in range(len(self.values[0]))]
        sites = Sites.of(names, self.transfer[0])
        return Query(sites, (window,) * len(sites), names[0] if asker else None)


def evenly(rng: np.random.Generator, sites: int) -> Stream:
    """The paper's."""
    return _stream(rng, sites, lambda interval, site, rows: rng.integers(1, VALUES + 1, rows))


def zipf(rng: np.random.Generator, sites: int) -> Stream:
    """Value v is drawn 1/v times as often as value 1, at all sites."""
    weights = 1 / np.arange(1, VALUES + 1)
    values = np.arange(1, VALUES + 1)
    return _stream(
        rng, sites, lambda interval, site, rows: rng.choice(values, rows, p=weights / weights.sum())
    )


def drifting(rng: np.random.Generator, sites: int) -> Stream:
    """Each site's 20 values wander away from the others' by up to 10 and come back, one site after the other."""

    def values(interval: int, site: int, rows: int) -> Int64s:
        away = 10 * max(0.0, np.sin(2 * np.pi * (interval / INTERVALS + site / sites)))
        drawn: Int64s = rng.integers(1, VALUES + 1, rows) + round(away)
        return drawn

    return _stream(rng, sites, values)


def rates(rng: np.random.Generator, sites: int) -> Stream:
    """Sites have from 1 to 9 rows per interval."""
    return _stream(
        rng, sites, lambda interval, site, rows: rng.integers(1, VALUES + 1, rows), rng.uniform(1, 9, sites)
    )


def moving(rng: np.random.Generator, sites: int) -> Stream:
    """All costs are drawn anew every 5 intervals."""
    stream = evenly(rng, sites)
    transfer = [costs(rng, sites) for _ in range(INTERVALS // 5)]
    return Stream(stream.values, [transfer[interval // 5] for interval in range(INTERVALS)])


STREAMS: dict[str, Callable[[np.random.Generator, int], Stream]] = {
    PLAIN: evenly,
    "zipf values": zipf,
    "drifting overlap": drifting,
    "unequal rates": rates,
    "changing costs": moving,
}


def costs(rng: np.random.Generator, sites: int) -> Float64s:
    """Return costs of 1 to 10 between any two sites."""
    one_way = np.triu(rng.integers(1, 11, (sites, sites)).astype(np.float64), 1)
    return one_way + one_way.T


def _stream(rng: np.random.Generator, sites: int, values: Any, rows: Any = ROWS) -> Stream:
    transfer = costs(rng, sites)
    counts = rng.poisson(rows, (INTERVALS, sites)).tolist()
    drawn = [
        [values(interval, site, count) for site, count in enumerate(line)]
        for interval, line in enumerate(counts)
    ]
    return Stream(drawn, [transfer] * INTERVALS)
