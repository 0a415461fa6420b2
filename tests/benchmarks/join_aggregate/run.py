"""Generated streams, and one run of a method over them: seconds of the processor per row, bytes, answers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.choice import build
from lakehouse.algorithms.join_aggregate.contract import JoinAggregate, Rows, Shape
from tests.oracles.join_aggregate.as_paper import (
    IncrementalAsPaper,
    MaterialisedAsPaper,
    MultiwayAsPaper,
    TupleCountAsPaper,
)
from tests.oracles.join_aggregate.contents import bytes_used

SECOND = 1_000_000
# As many hash buckets as the paper has.
BUCKETS = 20
PAPER = {
    "PC": MaterialisedAsPaper,
    "IC": IncrementalAsPaper,
    "TC": TupleCountAsPaper,
    "MTC": MultiwayAsPaper,
}
OURS = "ours"
# Calls of ``advance``, each with its rows and ticks.
Calls = Iterable[tuple[Rows, Any]]


@dataclass(frozen=True)
class Run:
    """What came of a run: per row measured, and at its end."""

    seconds_per_tuple: float
    bytes: int
    rows: int
    results: list[int]


def method(name: str, shape: Shape) -> JoinAggregate:
    """Return ours, or a method of the paper as the paper runs it."""
    return build("factorised", shape) if name == OURS else PAPER[name](shape, buckets=BUCKETS)


def run(made: JoinAggregate, calls: Calls, since_us: int = 0) -> Run:
    """Run calls; those whose first row is before ``since_us`` only fill the windows."""
    seconds, rows, results = 0.0, 0, list[int]()
    for given, ticks in calls:
        started = time.process_time()
        answers = made.advance(given, ticks)
        took = time.process_time() - started
        if len(given) and given.enter_us[0] >= since_us:
            seconds, rows = seconds + took, rows + len(given)
            results += answers.results.tolist()
    return Run(seconds / max(rows, 1), bytes_used(made), rows, results)


def warm_up(names: Iterable[str], shape: Shape) -> None:
    """Compile what the methods run, so that no run is measured while its loops are compiled."""
    rows = steady(shape, SECOND, np.arange(4 * shape.sides), np.arange(4 * shape.sides) % shape.sides)
    for name in names:
        made = method(name, shape)
        for given, tick in ((rows, SECOND // 2), (rows[:0], 2 * SECOND)):
            made.advance(given, np.array([tick]))


def steady(shape: Shape, window_us: int, enter_us: Any, side: Any, keys: int = 100, seed: int = 6) -> Rows:
    """Return rows with random keys, in groups of their keys, and with random values."""
    rng = np.random.default_rng(seed)
    enter = np.asarray(enter_us, np.int64)
    key = rng.integers(0, keys, len(side))
    return Rows.of(
        side,
        enter,
        enter + window_us,
        np.repeat(key[:, None], shape.width, axis=1),
        group=key,
        values=rng.normal(20.0, 5.0, (len(side), shape.columns)),
    )


def arrivals(per_s: float, seconds: float, sides: int) -> tuple[Any, Any]:
    """Return when rows enter and their sides: each side at that rate, evenly, sides one after the other."""
    number = np.arange(int(per_s * sides * seconds))
    return (number / (per_s * sides) * SECOND).astype(np.int64), number % sides


def by_tick(rows: Rows, every_us: int, since_us: int) -> Calls:
    """Return a call with all rows up to ``since_us``, then calls of one tick with the rows up to it; rows ascend."""
    ticks = np.arange(since_us, int(rows.enter_us[-1]) + every_us, every_us)
    ends = np.searchsorted(rows.enter_us, ticks, side="right")
    begins = np.concatenate([[0], ends[:-1]])
    for begin, end, tick in zip(begins.tolist(), ends.tolist(), ticks.tolist(), strict=True):
        yield rows[begin:end], np.array([tick])
