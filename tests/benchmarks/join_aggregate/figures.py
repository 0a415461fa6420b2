"""The paper's four figures, its methods as it runs them and ours, all in one run.

Tuples have 18 bytes, so 100 bytes/s are 5.6 tuples/s of each stream; keys are drawn evenly from 100, which makes the
selectivity 0.01. The paper's methods have 20 hash buckets, which they scan, and let rows leave whenever a row enters.
PC keeps all results and aggregates them at each tick. Seconds are of the processor's time that this process used, per
arrival of either stream, after the windows were filled; a call brings ten seconds of the streams, or one of the burst,
and asks for one tick. Beside the rates of the paper, where a machine of today spends most of a call around the methods,
there is a higher one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Rows, Shape
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

ORDER = """\
## Where the paper's order appears

Times are of a busy machine with two cores: their ratios within a figure count. Bytes are those in use, without room for
growth.

- Windows: PC takes most time and bytes, and TC more time than IC, at each window of both rates, as in the paper. In
  bytes TC is above IC from some 1,700 rows in a window on, and up to 7 % below it before: a row carries a credit only
  once a later one has met it, which of 333 rows some seven in ten have, and of 1,700 nearly all.
- Burst: the paper has TC overtake IC after two seconds. At its 500 bytes/s, 28 tuples a second and fewer, the methods
  differ less than what a call costs, and no order is clear. At 2,000 bytes/s TC overtakes IC in the third second.
- GROUP BY: PC, whose results lie in a heap by the time they leave, stays below TC while there are few results to
  aggregate at a tick. With windows of 20 s both are about equal, at 40 s PC takes twice as long.
- Many windows: a further stream multiplies the results by its rows in a window times the selectivity. At 100 bytes/s
  that is 0.56, so results become fewer and MPC cannot explode; above 180 bytes/s it is more than 1. At 500 bytes/s MPC
  takes 40 times as long for six streams as for two, and MTC 6 times."""
TUPLES_PER_S = 100 / 18
TWO = Shape(attributes=((0,), (0,)), grouped=(False, False))
GROUPED = Shape(attributes=((0,), (0,)), grouped=(True, False))
BURST_WINDOW_S, BURST_S = 20, 5
Points = dict[tuple[str, float], Run]


@dataclass(frozen=True)
class Figure:
    """What is varied, by which methods it is run, and one point of it."""

    title: str
    axis: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    few: tuple[float, ...]
    point: Callable[[str, float], Run]


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds per tuple and bytes by figure, point and method.

    Raises:
        AssertionError: two methods differ in an answer.
    """
    for shape, names in ((TWO, ("PC", "IC", "TC")), (GROUPED, ("PC", "IC", "TC")), (_many(3), ("PC", "MTC"))):
        warm_up((*names, OURS), shape)
    seconds, size = dict[str, Any](), dict[str, Any]()
    pages = list[tuple[str, Figure, Points]]()
    for name, figure in FIGURES.items():
        points = _points(figure, figure.few if quick else figure.values)
        seconds[name] = _by_point(points, _short)
        size[name] = _by_point(points, lambda run: run.bytes)
        pages.append((name, figure, points))
    if not quick:
        _write(pages)
    return {"seconds_per_tuple": seconds, "bytes": size}


def _points(figure: Figure, values: tuple[float, ...]) -> Points:
    points = {(name, value): figure.point(name, value) for value in values for name in figure.names}
    for value in values:
        answers = {tuple(points[name, value].results) for name in figure.names}
        assert len(answers) == 1, f"methods that differ: {figure.title}, {value}"
    return points


def _by_point(points: Points, what: Callable[[Run], Any]) -> dict[str, dict[str, Any]]:
    found = dict[str, dict[str, Any]]()
    for (name, value), each in points.items():
        found.setdefault(f"{value:g}", {})[name] = what(each)
    return found


def _short(found: Run) -> float:
    return float(f"{found.seconds_per_tuple:.3g}")


def _window(rate: float, name: str, window_s: float) -> Run:
    """Return a run over a window that is full for 20 seconds."""
    return _full(TWO, rate, window_s, name)


def _groups(name: str, window_s: float) -> Run:
    return _full(GROUPED, 100.0, window_s, name)


def _streams(rate: float, name: str, many: float) -> Run:
    return _full(_many(int(many)), rate, 10.0, "PC" if name == "MPC" else name)


def _full(shape: Shape, rate: float, window_s: float, name: str) -> Run:
    rows = steady(shape, int(window_s * SECOND), *arrivals(rate, window_s + 20, shape.sides))
    since = int(window_s * SECOND)
    return run(method(name, shape), by_tick(rows, 10 * SECOND, since), since)


def _burst(rate: float, name: str, second: float) -> Run:
    """Return a run over one second of the burst's end; the best of three, so few are the rows."""
    runs = [_burst_once(rate, name, int(second)) for _ in range(3)]
    return min(runs, key=lambda each: each.seconds_per_tuple)


def _burst_once(rate: float, name: str, second: int) -> Run:
    rows = burst(rate)
    until = (BURST_WINDOW_S + second) * SECOND
    calls = by_tick(rows[rows.enter_us < until], SECOND, until - SECOND)
    return run(method(name, TWO), calls, until - SECOND)


def burst(rate: float) -> Rows:
    """Return 20 seconds of a rate of tuples a second and stream, then in second i = 1..5 the rate by i^2."""
    counts = [int(rate)] * BURST_WINDOW_S + [max(1, int(rate / i**2)) for i in range(1, BURST_S + 1)]
    times = [second + (np.arange(2 * many) + 0.5) / (2 * many) for second, many in enumerate(counts)]
    enter = (np.concatenate(times) * SECOND).astype(np.int64)
    return steady(TWO, BURST_WINDOW_S * SECOND, enter, np.arange(len(enter)) % 2)


def _many(sides: int) -> Shape:
    return Shape(attributes=((0,),) * sides, grouped=(False,) * sides)


def _figure(
    title: str,
    axis: str,
    names: tuple[str, ...],
    values: tuple[float, ...],
    few: tuple[float, ...],
    point: Any,
) -> Figure:
    return Figure(title, axis, (*names, OURS), values, few, point)


def _at(rate: float, point: Any) -> Callable[[str, float], Run]:
    def made(name: str, value: float) -> Run:
        found: Run = point(rate, name, value)
        return found

    return made


_ICTC, _MANY, _SECONDS = ("PC", "IC", "TC"), (2.0, 3.0, 4.0, 5.0, 6.0), (1.0, 2.0, 3.0, 4.0, 5.0)
FIGURES = {
    "window": _figure(
        "Windows of two streams, 100 bytes/s",
        "window, s",
        _ICTC,
        (60, 120, 300, 600),
        (60, 300),
        _at(TUPLES_PER_S, _window),
    ),
    "window_x10": _figure(
        "Windows of two streams, 1,000 bytes/s",
        "window, s",
        _ICTC,
        (20, 60),
        (20,),
        _at(10 * TUPLES_PER_S, _window),
    ),
    "burst": _figure(
        "After a burst of 500 bytes/s", "second", _ICTC, _SECONDS, (1.0, 4.0), _at(5 * TUPLES_PER_S, _burst)
    ),
    "burst_x4": _figure(
        "After a burst of 2,000 bytes/s", "second", _ICTC, _SECONDS, (4.0,), _at(20 * TUPLES_PER_S, _burst)
    ),
    "group_by": _figure("GROUP BY, 100 tuples/s", "window, s", _ICTC, (10, 20, 40), (10,), _groups),
    "streams": _figure(
        "Many windows of 10 s, 100 bytes/s",
        "streams",
        ("MPC", "MTC"),
        _MANY,
        (2.0, 4.0),
        _at(TUPLES_PER_S, _streams),
    ),
    "streams_x5": _figure(
        "Many windows of 10 s, 500 bytes/s",
        "streams",
        ("MPC", "MTC"),
        _MANY,
        (4.0,),
        _at(5 * TUPLES_PER_S, _streams),
    ),
}


def _write(pages: list[tuple[str, Figure, Points]]) -> None:
    parts = [__doc__ or ""]
    for name, figure, points in pages:
        parts += [
            f"## {figure.title}",
            page.table(
                [figure.axis, "method", "us a tuple", "bytes"],
                [
                    [value, method_name, 1e6 * _short(each), each.bytes]
                    for (method_name, value), each in points.items()
                ],
            ),
        ]
        parts += [_picture(name, figure, points, what) for what in ("seconds_per_tuple", "bytes")]
    page.write("join_aggregate", "figures", "The paper's figures, and ours in them", *parts, ORDER)


def _picture(name: str, figure: Figure, points: Points, what: str) -> str:
    shown, axes = page.picture(f"{name}-{what}")
    for method_name in figure.names:
        line = [
            (value, getattr(each, what)) for (other, value), each in points.items() if other == method_name
        ]
        axes.plot(*zip(*line, strict=True), "o-", label=method_name)
    axes.set(xlabel=figure.axis, ylabel=what.replace("_", " "), title=figure.title, yscale="log")
    axes.legend()
    return page.save(shown, "join_aggregate", f"{name}-{what}")
