"""Chain joins, A.x = B.x AND B.y = C.y: seconds of a batch with late rows, by view trees and by MTC.

COUNT(*) beside SUM(B.v), or beside MIN(A.v) and MAX(C.v), of three streams in turn, windows of 60 ticks, a slack of a
tenth of them, keys drawn evenly, and as many rows held as said. A batch brings a tick of rows; of its rows one in a
hundred is late, by half the slack. MTC lets rows meet. Its late rows are answered by computing the ticks of the slack
twice, with them and without, from the rows that are connected with them, or, as a yardstick, from all rows held.
Seconds are of the processor's time of this process, the median of some batches once the windows are full; all methods
give equal answers. MTC is left out where a batch would take it minutes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.choice import build
from lakehouse.algorithms.join_aggregate.contract import Aggregate, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online
from lakehouse.algorithms.join_aggregate.revision import merged, ticks_in
from tests.benchmarks import page

TICK, TICKS, SLACK = 1_000_000, 60, 6
ASKED = {
    "sum": (Aggregate("sum", 1, 0),),
    "extremes": (Aggregate("min", 0, 0), Aggregate("max", 2, 0)),
}
SHAPES = {name: Shape(((0,), (0, 1), (1,)), (False,) * 3, asked) for name, asked in ASKED.items()}
# Rows held, keys, and by which methods.
CASES: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (10_000, 1_000, ("view_tree", "multiway")),
    (100_000, 10_000, ("view_tree", "multiway")),
    (100_000, 3_000, ("view_tree", "multiway")),
    (100_000, 300, ("view_tree",)),
)


def figures(quick: bool) -> dict[str, Any]:
    """Return milliseconds of a batch without late rows and with them, by rows held, keys and method."""
    measured = {
        (asked, *case[:2]): _measured(SHAPES[asked], *case, 2 if quick else 5)
        for case in CASES[: 1 if quick else None]
        for asked in SHAPES
    }
    if not quick:
        heads = (
            "asked",
            "rows held",
            "keys",
            "rows of a key",
            "method",
            "batch, ms",
            "late rows, ms",
            "of all rows, ms",
        )
        lines = [
            [asked, held, keys, held / 3 / keys, method, *("-" if each is None else each for each in ms)]
            for (asked, held, keys), by_method in measured.items()
            for method, ms in by_method.items()
        ]
        page.write(
            "join_aggregate", "chains", "Chain joins by view trees", __doc__ or "", page.table(heads, lines)
        )
    return {
        f"chain_{asked}_ms_{held}_rows_{keys}_keys": {
            method: dict(zip(("batch", "late", "late_of_all"), ms, strict=True))
            for method, ms in by_method.items()
        }
        for (asked, held, keys), by_method in measured.items()
    }


def _measured(
    shape: Shape, held: int, keys: int, methods: tuple[str, ...], batches: int
) -> dict[str, tuple[float, float, float | None]]:
    runs = {method: _run(shape, method, held, keys, batches) for method in methods}
    answers = [partials for _, partials in runs.values()]
    for one in answers[1:]:
        assert one.results.tolist() == answers[0].results.tolist()
        assert np.array_equal(one.high, answers[0].high)
        assert np.array_equal(one.extreme, answers[0].extreme, equal_nan=True)
    return {method: ms for method, (ms, _) in runs.items()}


def _run(
    shape: Shape, method: str, held: int, keys: int, batches: int
) -> tuple[tuple[float, float, float | None], Partials]:
    """Return milliseconds of a batch's rows in order and of its late ones, and all answers since windows are full."""
    a_tick = held // (TICKS + SLACK)
    rows = _rows(a_tick, TICKS + SLACK + batches, keys)
    _warm_up(shape, method)
    online, spent, answers = Online(shape, method, TICK, SLACK * TICK), [], list[Partials]()
    full = (TICKS + SLACK) * TICK
    online.process(rows[rows.enter_us < full], full - 1)
    for batch in range(batches):
        start = full + batch * TICK
        own = rows[(rows.enter_us >= start) & (rows.enter_us < start + TICK)]
        late = replace(own[::100], enter_us=own.enter_us[::100] - SLACK // 2 * TICK)
        begun = time.process_time()
        fresh = online.process(own[np.arange(len(own)) % 100 > 0], start + TICK - 1)
        between = time.process_time()
        unchanged = online.rows()
        copied = time.process_time()
        revised = online.process(late, start + TICK - 1)
        spent.append((between - begun, time.process_time() - copied))
        answers += [fresh.answered, revised.revised]
    ms = (np.median(np.array(spent), axis=0) * 1000).round(2).tolist()
    of_all = None if method == "view_tree" else _of_all(shape, method, unchanged, late, online.last_us)
    whole = merged(shape, answers)
    return (ms[0], ms[1], of_all), whole[whole.tick_us >= full]


def _of_all(shape: Shape, method: str, unchanged: Rows, late: Rows, last_us: int) -> float:
    """Return milliseconds of computing the ticks of late rows twice, from all rows held."""
    begun = time.process_time()
    ticks = ticks_in(late.enter_us, np.minimum(late.leave_us, last_us), TICK)
    for rows in (unchanged, Rows.joined([unchanged, late])):
        build(method, shape).advance(rows, ticks)
    return round((time.process_time() - begun) * 1000, 2)


def _rows(a_tick: int, ticks: int, keys: int) -> Rows:
    rng, many = np.random.default_rng(4), a_tick * ticks
    enter = np.arange(many) * TICK // a_tick
    values = rng.integers(-1000, 1000, (many, 1)).astype(np.float64)
    return Rows.of(
        np.arange(many) % 3, enter, enter + TICKS * TICK, rng.integers(0, keys, (many, 2)), values=values
    )


def _warm_up(shape: Shape, method: str) -> None:
    """Compile what the method runs."""
    online, rows = Online(shape, method, TICK, SLACK * TICK), _rows(30, 3, 2)
    online.process(rows, 2 * TICK)
    online.process(rows[:9], 2 * TICK)
