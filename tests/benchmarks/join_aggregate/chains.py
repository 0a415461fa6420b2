"""Joins on different attributes: seconds of a batch with late rows, by view trees, by MTC and by DuckDB.

In a chain, A.x = B.x AND B.y = C.y, or a circle, with A.z = C.z too: COUNT(*) beside SUM(B.v), or beside MIN(A.v) and
MAX(C.v), of three streams in turn, windows of 60 ticks, a slack of a tenth of them, keys drawn evenly, and as many rows
held as said. A batch brings a tick of rows; of its rows one in a hundred is late, by half the slack. MTC lets rows
meet. Its late rows are answered by computing the ticks of the slack twice, with them and without, from the rows that
are connected with them, or, as a yardstick, from all rows held. DuckDB joins all rows held, in memory, and groups the
results by these ticks, once. Seconds are of the processor's time of this process, the median of some batches once the
windows are full; all give equal answers. MTC and DuckDB are left out where a batch would take minutes.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

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
BOTH = "view_tree", "multiway"
JOINED = {"chain": ((0,), (0, 1), (1,)), "circle": ((0, 2), (0, 1), (1, 2))}
SHAPES = {
    (joined, name): Shape(attributes, (False,) * 3, asked)
    for joined, attributes in JOINED.items()
    for name, asked in ASKED.items()
}
# How they are joined, rows held, keys, and by which methods.
CASES: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("chain", 10_000, 1_000, BOTH),
    ("circle", 10_000, 100, BOTH),
    ("chain", 100_000, 10_000, BOTH),
    ("chain", 100_000, 3_000, BOTH),
    ("chain", 100_000, 300, ("view_tree",)),
    ("circle", 100_000, 3_000, BOTH),
    ("circle", 100_000, 1_000, BOTH),
)
SQL = """SELECT tick, count(*) AS results, sum(v)::BIGINT AS v FROM ticks, (
    SELECT greatest(a.enter_us, b.enter_us, c.enter_us) AS first, least(a.leave_us, b.leave_us, c.leave_us) AS last, b.v
    FROM a JOIN b ON a.k0 = b.k0 JOIN c ON b.k1 = c.k1{tie})
WHERE tick BETWEEN first AND last GROUP BY tick ORDER BY tick"""


# Milliseconds of a batch, of its late rows, and of these from all rows held by the method and by DuckDB.
Times = tuple[float, float, float | None, float | None]


def figures(quick: bool) -> dict[str, Any]:
    """Return milliseconds of a batch without late rows and with them, by rows held, keys and method."""
    measured = {
        (joined, asked, held, keys): _measured(SHAPES[joined, asked], held, keys, methods, 2 if quick else 5)
        for joined, held, keys, methods in CASES[: 2 if quick else None]
        for asked in ASKED
    }
    if not quick:
        heads = (
            "joined",
            "asked",
            "rows held",
            "keys",
            "rows of a key",
            "method",
            "batch, ms",
            "late rows, ms",
            "of all rows, ms",
            "DuckDB, ms",
        )
        lines = [
            [*names, held, keys, held / 3 / keys, method, *("-" if each is None else each for each in ms)]
            for (*names, held, keys), by_method in measured.items()
            for method, ms in by_method.items()
        ]
        page.write(
            "join_aggregate",
            "chains",
            "Chains and circles by view trees",
            __doc__ or "",
            page.table(heads, lines),
        )
    return {
        f"{joined}_{asked}_ms_{held}_rows_{keys}_keys": {
            method: dict(zip(("batch", "late", "late_of_all", "duckdb_of_all"), ms, strict=True))
            for method, ms in by_method.items()
        }
        for (joined, asked, held, keys), by_method in measured.items()
    }


def _measured(shape: Shape, held: int, keys: int, methods: tuple[str, ...], batches: int) -> dict[str, Times]:
    runs = {method: _run(shape, method, held, keys, batches) for method in methods}
    answers = [partials for _, partials in runs.values()]
    for one in answers[1:]:
        assert one.results.tolist() == answers[0].results.tolist()
        assert np.array_equal(one.high, answers[0].high)
        assert np.array_equal(one.extreme, answers[0].extreme, equal_nan=True)
    return {method: ms for method, (ms, _) in runs.items()}


def _run(shape: Shape, method: str, held: int, keys: int, batches: int) -> tuple[Times, Partials]:
    """Return milliseconds of a batch's rows in order and of its late ones, and all answers since windows are full."""
    a_tick = held // (TICKS + SLACK)
    rows = _rows(a_tick, TICKS + SLACK + batches, keys, shape.width)
    _warm_up(shape, method)
    online, spent = Online(shape, method, TICK, SLACK * TICK), []
    full = (TICKS + SLACK) * TICK
    answers = [online.process(rows[rows.enter_us < full], full - 1).answered]
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
    whole, by_duckdb, of_all = merged(shape, answers), None, None
    if method != "view_tree":
        of_all = _of_all(shape, method, unchanged, late, online.last_us)
        by_duckdb = _of_duckdb(shape, Rows.joined([unchanged, late]), late, online.last_us, whole)
    return (ms[0], ms[1], of_all, by_duckdb), whole[whole.tick_us >= full]


def _of_all(shape: Shape, method: str, unchanged: Rows, late: Rows, last_us: int) -> float:
    """Return milliseconds of computing the ticks of late rows twice, from all rows held."""
    begun = time.process_time()
    ticks = ticks_in(late.enter_us, np.minimum(late.leave_us, last_us), TICK)
    for rows in (unchanged, Rows.joined([unchanged, late])):
        build(method, shape).advance(rows, ticks)
    return round((time.process_time() - begun) * 1000, 2)


def _of_duckdb(shape: Shape, rows: Rows, late: Rows, last_us: int, answers: Partials) -> float:
    """Return milliseconds of the same by DuckDB, whose counts are those of the answers."""
    ticks = ticks_in(late.enter_us, np.minimum(late.leave_us, last_us), TICK)
    with duckdb.connect() as connection:
        for side, name in enumerate("abc"):
            own = rows[rows.side == side]
            columns: dict[str, Any] = {f"k{number}": own.keys[:, number] for number in range(shape.width)}
            columns |= {"enter_us": own.enter_us, "leave_us": own.leave_us, "v": own.values[:, 0]}
            connection.register(f"of_{name}", pa.table(columns))
            connection.execute(f"CREATE TABLE {name} AS FROM of_{name}")
        connection.register("ticks", pa.table({"tick": ticks}))
        begun = time.process_time()
        tie = " AND c.k2 = a.k2" if len(shape.attributes[0]) > 1 else ""
        found = connection.execute(SQL.format(tie=tie)).fetch_arrow_table()
        spent = time.process_time() - begun
    given = answers.results[np.isin(answers.tick_us, ticks)]
    assert found["results"].to_pylist() == given.tolist()
    return round(spent * 1000, 2)


def _rows(a_tick: int, ticks: int, keys: int, width: int) -> Rows:
    rng, many = np.random.default_rng(4), a_tick * ticks
    enter = np.arange(many) * TICK // a_tick
    values = rng.integers(-1000, 1000, (many, 1)).astype(np.float64)
    return Rows.of(
        np.arange(many) % 3,
        enter,
        enter + TICKS * TICK,
        rng.integers(0, keys, (many, 3))[:, :width],
        values=values,
    )


def _warm_up(shape: Shape, method: str) -> None:
    """Compile what the method runs."""
    online, rows = Online(shape, method, TICK, SLACK * TICK), _rows(30, 3, 2, shape.width)
    online.process(rows, 2 * TICK)
    online.process(rows[:9], 2 * TICK)
