"""Cost of a tuple and of a window as the window grows a hundredfold, beside aggregators of one window.

COUNT(*) of two streams of 10 tuples a second each, keys drawn evenly from 100; windows of 18 seconds, 10 and 100 times
as long, which hold 360 to 36,000 rows. The methods of the paper have 20 hash buckets. PC keeps each pair, 3 million in
the longest window, and looks at all of them at each tick: it has no line there. Times are of a busy machine with two
cores: their ratios count. Bytes are those in use, without room for growth.

Aggregators of one window keep MAX of a single stream without a join. Two-Stacks is the usual one: two stacks of running
maxima, turned over when the front is empty, here in a compiled loop, answered after each row. Ours keeps MAX of a join
over as many rows of two streams, answered every ten seconds; it finds keys and times as well.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Shape
from tests.benchmarks import page
from tests.benchmarks.join_aggregate.run import (
    OURS,
    SECOND,
    Run,
    arrivals,
    by_tick,
    method,
    run,
    steady,
    warm_up,
)

RATE, WINDOW_S, TIMES, MORE_S = 10.0, 18, (1, 10, 100), 120
COUNT = Shape(attributes=((0,), (0,)), grouped=(False, False))
MAXIMUM = Shape(attributes=((0,), (0,)), grouped=(False, False), aggregates=(Aggregate("max", 1, 0),))
NAMES = ("PC", "IC", "TC", OURS)


def figures(quick: bool) -> dict[str, Any]:
    """Return microseconds per tuple and bytes by length of the window and method, and of MAX by each aggregator."""
    times = TIMES[:2] if quick else TIMES
    warm_up(NAMES, COUNT)
    warm_up((OURS,), MAXIMUM)
    counts = {each: _counts(each) for each in times}
    maxima = {each: _maxima(each) for each in times}
    if not quick:
        _write(counts, maxima)
    return {
        "windows_us_per_tuple": {
            f"{each}x": {name: _us(one.seconds_per_tuple) for name, one in found.items()}
            for each, found in counts.items()
        },
        "windows_bytes": {
            f"{each}x": {name: one.bytes for name, one in found.items()} for each, found in counts.items()
        },
        "maximum_us_per_tuple": {f"{each}x": found for each, found in maxima.items()},
    }


def _counts(times: int) -> dict[str, Run]:
    names = NAMES[1:] if times == TIMES[-1] else NAMES
    found = {name: _full(COUNT, times, name) for name in names}
    answers = {tuple(each.results) for each in found.values()}
    assert len(answers) == 1, f"methods that differ: window {times}x"
    return found


def _full(shape: Shape, times: int, name: str) -> Run:
    """Return a run over a window that is full for two minutes."""
    window_s = WINDOW_S * times
    rows = steady(shape, window_s * SECOND, *arrivals(RATE, window_s + MORE_S, shape.sides))
    since = window_s * SECOND
    return run(method(name, shape), by_tick(rows, 10 * SECOND, since), since)


def _maxima(times: int) -> dict[str, float]:
    """Return microseconds per tuple of MAX by Two-Stacks over one stream, and by ours over a join."""
    many = int(2 * RATE * WINDOW_S * times)
    values = np.random.default_rng(5).normal(20.0, 5.0, many + int(2 * RATE * MORE_S))
    two_stacks(values[:4], 2)
    started = time.process_time()
    found = two_stacks(values, many)
    spent = time.process_time() - started
    assert found == values[-many:].max()
    return {
        "two_stacks": _us(spent / len(values)),
        "ours_join": _us(_full(MAXIMUM, times, OURS).seconds_per_tuple),
    }


@njit(cache=True)
def two_stacks(values: Any, window: Any) -> Any:
    """Return the maximum of the last ``window`` values, kept after each value."""
    front, back = np.empty(window), np.empty(window)
    fronts, backs, highest, last = 0, 0, -np.inf, -np.inf
    for value in values:
        if fronts + backs == window:
            if fronts == 0:
                high = -np.inf
                for at in range(backs - 1, -1, -1):
                    high = max(high, back[at])
                    front[fronts] = high
                    fronts += 1
                backs, highest = 0, -np.inf
            fronts -= 1
        back[backs] = value
        backs += 1
        highest = max(highest, value)
        last = max(highest, front[fronts - 1]) if fronts else highest
    return last


def _us(seconds: float) -> float:
    return float(f"{1e6 * seconds:.3g}")


def _write(counts: dict[int, dict[str, Run]], maxima: dict[int, dict[str, float]]) -> None:
    lines = [
        [f"{WINDOW_S * each} s", name, _us(one.seconds_per_tuple), one.bytes]
        for each, found in counts.items()
        for name, one in found.items()
    ]
    maximum = [[f"{WINDOW_S * each} s", *found.values()] for each, found in maxima.items()]
    page.write(
        "join_aggregate",
        "windows",
        "Windows a hundred times as long",
        __doc__ or "",
        page.table(["window", "method", "us a tuple", "bytes"], lines),
        "## MAX",
        page.table(["window", "Two-Stacks, one stream, us", "ours, a join, us"], maximum),
    )
