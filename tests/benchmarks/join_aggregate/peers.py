"""The same query by DuckDB, once more for each tick, and by Bytewax; and the ticks that late rows leave wrong.

COUNT(*) and SUM(B.v) by key of two streams joined on the key, windows of a minute, answers every 5 seconds. A tick is
answered when a row 5 seconds after it has come. Of 100 rows 4 are late by up to 4 seconds, which harms nobody, and one
by up to 30. Ours revises ticks within a minute. DuckDB has all rows that came so far in a table and runs the plain
join for each tick. Bytewax has no join that keeps aggregates, so it gets a flow that a careful user would write: both
streams in one, by key, each row folded into numbers and a sum in every sliding window that it is in. Seconds are of
the processor's time; what is wrong is counted against DuckDB over all rows.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import duckdb
import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Aggregate, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.online import Online
from lakehouse.algorithms.join_aggregate.revision import merged
from tests.benchmarks import page
from tests.benchmarks.join_aggregate.run import OURS, SECOND, warm_up

SHAPE = Shape(attributes=((0,), (0,)), grouped=(True, False), aggregates=(Aggregate("sum", 1, 0),))
WINDOW, EVERY, WAIT, SLACK = 60 * SECOND, 5 * SECOND, 5 * SECOND, 60 * SECOND
RATE, KEYS = 100, 50
NOT_THERE = "bytewax is not installed; `make bench` installs it"
# Per tick and key the count and the sum.
Answers = dict[tuple[int, int], tuple[int, float]]

_JOIN = """
    SELECT a.key, count(*), sum(b.v) FROM arrived a JOIN arrived b ON a.key = b.key
    WHERE a.side = 0 AND b.side = 1 AND a.number < $come AND b.number < $come
        AND a.ts BETWEEN $tick - $span AND $tick AND b.ts BETWEEN $tick - $span AND $tick
    GROUP BY a.key
"""


def figures(quick: bool) -> dict[str, Any]:
    """Return each peer's seconds and wrong ticks, beside ours with and without revisions."""
    rows = stream(60 if quick else 600)
    warm_up((OURS,), SHAPE)
    ticks, come = ticks_of(rows)
    truth, _ = by_duckdb(rows, ticks, np.full(len(ticks), len(rows)))
    found: dict[str, tuple[Answers, float]] = dict(
        zip((OURS, "ours_first"), by_ours(rows, ticks, come), strict=True)
    )
    found["duckdb"] = by_duckdb(rows, ticks, come)
    if find_spec("bytewax"):
        found["bytewax"] = _bytewax(rows, ticks)
    wrong = {name: wrong_answers(answers, truth) for name, (answers, _) in found.items()}
    seconds = {name: round(spent, 3) for name, (_, spent) in found.items() if name != "ours_first"}
    peers: dict[str, Any] = {
        "rows": len(rows),
        "ticks": len(ticks),
        "answers": len(truth),
        "seconds": seconds,
    }
    peers |= {
        "wrong_ticks": {name: len({tick for tick, _ in each}) for name, each in wrong.items()},
        "wrong_answers": {name: len(each) for name, each in wrong.items()},
    }
    if "bytewax" not in found:
        peers["bytewax_skipped"] = NOT_THERE
    if not quick:
        table = page.table(
            ["method", "seconds", "wrong ticks", "wrong answers"],
            [
                [name, seconds.get(name, ""), peers["wrong_ticks"][name], peers["wrong_answers"][name]]
                for name in wrong
            ],
        )
        shown = f"{len(rows):,} rows, {len(ticks)} ticks, {len(truth):,} answers; `ours_first` is before any revision."
        page.write("join_aggregate", "peers", "Beside DuckDB and Bytewax", __doc__ or "", shown, table)
    return {"peers": peers}


def stream(seconds: int) -> Rows:
    """Return rows in order of arrival; their times are odd, so that none is on the edge of a window."""
    rng = np.random.default_rng(4)
    count = 2 * RATE * seconds
    times = WINDOW + np.sort(rng.integers(0, seconds * SECOND // 2, count)) * 2 + 1
    kind = rng.random(count)
    late = np.where(kind < 0.04, rng.random(count) * 4, np.where(kind < 0.05, rng.random(count) * 30, 0.0))
    order = np.argsort(times + late * SECOND, kind="stable")
    key, side = rng.integers(0, KEYS, count), rng.integers(0, 2, count)
    # Halves add up exactly in any order.
    values = rng.integers(-100, 100, (count, 1)) / 2
    rows = Rows.of(side, times, times + WINDOW, key[:, None], group=key, values=values)
    return rows[order]


def ticks_of(rows: Rows) -> tuple[Any, Any]:
    """Return all ticks up to the last row, and how many rows have come when each is answered."""
    newest = np.maximum.accumulate(rows.enter_us)
    ticks = np.arange(rows.enter_us.min() // EVERY + 1, newest[-1] // EVERY + 1) * EVERY
    come = np.searchsorted(newest, ticks + WAIT) + 1
    return ticks, np.minimum(come, len(rows))


def by_ours(rows: Rows, ticks: Any, come: Any) -> tuple[tuple[Answers, float], tuple[Answers, float]]:
    """Return our answers with all revisions, and those given first."""
    query = Online(SHAPE, "factorised", EVERY, SLACK)
    first, later = list[Partials](), list[Partials]()
    started, begin = time.process_time(), 0
    for tick, end in zip(ticks.tolist(), come.tolist(), strict=True):
        outcome = query.process(rows[begin:end], tick)
        first, later, begin = [*first, outcome.answered], [*later, outcome.revised], end
    later.append(query.process(rows[begin:], None).revised)
    whole = merged(SHAPE, [*first, *later])
    spent = time.process_time() - started
    return (_named(whole), spent), (_named(Partials.joined(first)), spent)


def _named(found: Partials) -> Answers:
    columns = found.tick_us, found.group[:, 0], found.results, found.high[:, 0]
    return {
        (tick, key): (count, total)
        for tick, key, count, total in zip(*(column.tolist() for column in columns), strict=True)
    }


def by_duckdb(rows: Rows, ticks: Any, come: Any) -> tuple[Answers, float]:
    import pyarrow as pa

    columns = {"side": rows.side, "ts": rows.enter_us, "key": rows.keys[:, 0], "v": rows.values[:, 0]}
    given = pa.table({"number": np.arange(len(rows)), **columns})
    found: Answers = {}
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        connection.register("given", given)
        connection.execute("CREATE TABLE arrived AS FROM given")
        started = time.process_time()
        for tick, end in zip(ticks.tolist(), come.tolist(), strict=True):
            asked = {"tick": tick, "come": end, "span": WINDOW}
            for key, count, total in connection.execute(_JOIN, asked).fetchall():
                found[tick, key] = count, total
        spent = time.process_time() - started
    return found, spent


def _bytewax(rows: Rows, ticks: Any) -> tuple[Answers, float]:
    op, windowing, testing = (
        import_module(f"bytewax.{name}") for name in ("operators", "operators.windowing", "testing")
    )
    origin = datetime(2020, 1, 1, tzinfo=UTC)
    columns = rows.keys[:, 0], rows.side, rows.enter_us, rows.values[:, 0]
    items = [
        (str(key), (side, origin + timedelta(microseconds=at), value))
        for key, side, at, value in zip(*(column.tolist() for column in columns), strict=True)
    ]
    out: list[Any] = []
    # Only rows move its time, as they do ours; it has a time for each key.
    clock = windowing.EventClock(
        lambda item: item[1], timedelta(microseconds=WAIT), now_getter=lambda: origin, to_system_utc=_never
    )
    windows = windowing.SlidingWindower(timedelta(microseconds=WINDOW), timedelta(microseconds=EVERY), origin)
    flow = import_module("bytewax.dataflow").Dataflow("join_aggregate")
    given = op.input("given", flow, testing.TestingSource(items, batch_size=1000))
    folded = windowing.fold_window("fold", given, clock, windows, _nothing, _fold, _both)
    op.output("out", folded.down, testing.TestingSink(out))
    started = time.process_time()
    testing.run_main(flow)
    spent = time.process_time() - started
    wanted = set(ticks.tolist())
    answers = {
        (number * EVERY + WINDOW, int(key)): (left * right, left * total)
        for key, (number, (left, right, total)) in out
        if left and right
    }
    return {name: answer for name, answer in answers.items() if name[0] in wanted}, spent


def _never(at: datetime) -> None:
    return None


def _nothing() -> tuple[int, int, float]:
    return 0, 0, 0.0


def _fold(known: tuple[int, int, float], item: tuple[int, datetime, float]) -> tuple[int, int, float]:
    left, right, total = known
    side, _, value = item
    return (left, right + 1, total + value) if side else (left + 1, right, total)


def _both(one: tuple[int, int, float], other: tuple[int, int, float]) -> tuple[int, int, float]:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def wrong_answers(answers: Answers, truth: Answers) -> set[tuple[int, int]]:
    """Return ticks and keys whose answer differs, is missing, or should not be there."""
    return {name for name in answers.keys() | truth.keys() if answers.get(name) != truth.get(name)}
