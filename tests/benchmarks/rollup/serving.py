"""A range's sum from the published nodes, beside a scan of the raw rows and a ClickHouse rollup, as history grows.

100 devices, ten readings a second together; nodes as the levels below keep them, published by the real build. Every way
answers the same random ranges of one device, in turns of fifty, in one process:

    ours        the macro's fold through the Python way, planned once per connection, as `tidemark ask` does
    typed       SELECT FROM range_sum(...) as an analyst types it, which DuckDB binds and plans for every question
    raw scan    DuckDB over the raw rows as Parquet sorted by time, with the same filter
    clickhouse  an AggregatingMergeTree per device and minute, read with sumMerge, by chdb; its ranges fall on minutes

Ratios are what count.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.algorithms.rollup.levels import Level, horizons
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Question
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import PublishedMeasure, StreamSnapshot
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.layout import Home
from tests.benchmarks import page

SECOND_US, MINUTE_US, HOUR_US, DAY_US = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
LEVELS = (
    Level(SECOND_US, HOUR_US),
    Level(MINUTE_US, 2 * DAY_US),
    Level(HOUR_US, 365 * DAY_US),
    Level(DAY_US, None),
)
TURN = 50
START_US, STEP_US, DEVICES = 1_599_955_200_000_000, 100_000, 100
ROWS = f"""
    SELECT {START_US} + i * {STEP_US} AS event_us, (i * 7919 % {DEVICES})::INTEGER AS device,
        20 + 5 * sin(i / 1000.0) + (hash(i) % 1000) / 100.0 AS temp
    FROM range({{first}}, {{rows}}) AS t(i)
"""


@dataclass(frozen=True)
class Range:
    """One question: the sum of a device's readings over ``[start_us, end_us)``."""

    device: int
    start_us: int
    end_us: int


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of the largest history measured."""
    sizes = [measure(rows, 10 if quick else 200) for rows in ((10**5,) if quick else (10**6, 10**7, 10**8))]
    if not quick:
        _write(sizes)
    renamed = {"rows": "serving_rows", "nodes": "serving_nodes"}
    return {renamed.get(name, name): value for name, value in sizes[-1].items()}


def measure(rows: int, questions: int) -> dict[str, Any]:
    """Return one row of figures, times in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        raw = write_rows(folder, rows)
        facts = write_nodes(folder / "nodes", rows)
        seconds, nodes = published_in(folder, facts)
        asked = ranges(rows * STEP_US, questions)
        found: dict[str, Any] = {"rows": rows, "nodes": nodes, "publish_nodes_per_s": round(nodes / seconds)}
        with open_published(folder / "home") as reader, duckdb.connect(config={"threads": 2}) as scan:
            ways = [ours(reader.connection), _typed(reader.connection), _raw_scan(scan, raw)]
            taken, used, read = timed(ways, asked)
        for way, times in zip(("range_sum", "typed", "raw_scan"), taken, strict=True):
            found |= quantiles(way, times)
        found |= quantiles("range_sum_cpu", used[0])
        found["nodes_read_p95"] = int(quantile(read, 0.95))
        found["raw_scan_over_range_sum"] = round(statistics.median(taken[2]) / statistics.median(taken[0]), 1)
        return found | clickhouse(folder, raw, asked)


def ranges(span_us: int, count: int, devices: int = DEVICES) -> list[Range]:
    """Return random ranges of a history of this length, from a thousandth to all of it, their ends anywhere."""
    dice = random.Random(7)
    found = []
    for _ in range(count):
        length = int(span_us * 10 ** dice.uniform(-3, 0))
        start = START_US + dice.randrange(span_us - length + 1)
        found.append(Range(dice.randrange(devices), start, start + max(length, 1)))
    return found


def write_rows(folder: Path, rows: int) -> str:
    """Write the raw rows as Parquet, ten million a file; return the pattern that reads them."""
    with duckdb.connect() as connection:
        for part, first in enumerate(range(0, rows, 10**7)):
            query = ROWS.format(first=first, rows=min(rows, first + 10**7))
            connection.execute(f"COPY ({query}) TO '{folder}/raw-{part:03d}.parquet'")
    return f"{folder}/raw-*.parquet"


def write_nodes(folder: Path, rows: int) -> StreamSnapshot:
    """Write the nodes that the levels keep after so many rows; return what a publisher is told."""

    def since(horizon_us: int) -> str:
        return ROWS.format(first=max(0, -((START_US - horizon_us) // STEP_US)), rows=rows)

    return write_levels(folder, LEVELS, (START_US, START_US + (rows - 1) * STEP_US), since)


def write_levels(
    folder: Path, levels: Sequence[Level], times: tuple[int, int], since: Callable[[int], str]
) -> StreamSnapshot:
    """Write the nodes by device and of all rows.

    ``times``: of the first and the last row; ``since``: what returns SQL for the rows since a time.
    """
    folder.mkdir()
    earliest, newest = times
    kept = horizons(levels, newest)
    with duckdb.connect() as connection:
        for number, level in enumerate(levels):
            for grouping, device in enumerate(("'device-' || device", "NULL::VARCHAR")):
                query = _node_query(number + 1, level.width_us, grouping, device, since(kept[number]))
                connection.execute(f"COPY ({query}) TO '{folder}/{number}-{grouping}.parquet'")
    return StreamSnapshot(
        name="readings",
        definition="benchmark",
        groupings=(("device",), ()),
        measures=(PublishedMeasure("temp", "double"),),
        levels=levels,
        horizons=kept,
        newest_us=newest,
        confirmed_us=newest,
        earliest_us=earliest,
        batch=1,
        latest_us=DAY_US,
        raw_path="raw",
        nodes=folder,
    )


def _node_query(level: int, width: int, grouping: int, device: str, source: str) -> str:
    return f"""
        SELECT {level} AS level, {grouping} AS grouping, {device} AS device, event_us - event_us % {width} AS start_us,
            count(*) AS rows, min(event_us) AS first_us, max(event_us) AS last_us, count(temp) AS temp__n,
            fsum(temp) AS temp__sum, 0.0 AS temp__carry, min(temp) AS temp__min, max(temp) AS temp__max,
            min(event_us) AS temp__first_us, max(event_us) AS temp__last_us
        FROM ({source}) GROUP BY ALL
    """


def published_in(folder: Path, facts: StreamSnapshot) -> tuple[float, int]:
    """Publish; return the seconds it took and the nodes it holds."""
    started = time.perf_counter()
    done = publish(Home(folder / "home"), [facts])
    return time.perf_counter() - started, done.nodes


Way = Callable[[Range], int]


def timed(
    ways: Sequence[Way], asked: Sequence[Range], turn: int = TURN
) -> tuple[list[list[float]], list[list[float]], list[float]]:
    """Return milliseconds per way and question, by the clock and of processors, and the nodes the first way read.

    Ways take turns of ``turn`` questions, so that nearly each follows one of its own way, as where a process asks many.
    A question of another way in between leaves the processor's caches to that one: right after a typed macro, whose
    planning takes long, a prepared question takes longer.
    """
    for way in ways:
        way(asked[0])
    taken: list[list[float]] = [[] for _ in ways]
    used: list[list[float]] = [[] for _ in ways]
    read = []
    for first in range(0, len(asked), turn):
        for place, way in enumerate(ways):
            for one in asked[first : first + turn]:
                started, used_before = time.perf_counter(), time.process_time()
                nodes = way(one)
                taken[place].append((time.perf_counter() - started) * 1000)
                used[place].append((time.process_time() - used_before) * 1000)
                if place == 0:
                    read.append(float(nodes))
    return taken, used, read


def ours(connection: duckdb.DuckDBPyConnection) -> Way:
    """Return the way that `tidemark ask` answers."""

    def ask(one: Range) -> int:
        where: dict[str, str | None] = {"device": f"device-{one.device}"}
        question = Question("readings", "temp", "sum", one.start_us, one.end_us, where, ())
        return answer(connection, question)[0].nodes_read

    return ask


def _typed(connection: duckdb.DuckDBPyConnection) -> Way:
    def ask(one: Range) -> int:
        start, end = (f"make_timestamp({at_us})" for at_us in (one.start_us, one.end_us))
        asked = f"'readings', 'temp', {start}, {end}, keys := {{device: 'device-{one.device}'}}"
        row = connection.execute(f"SELECT nodes_read FROM range_sum({asked})").fetchone()
        return int(row[0]) if row else 0

    return ask


def _raw_scan(connection: duckdb.DuckDBPyConnection, raw: str) -> Way:
    def ask(one: Range) -> int:
        connection.execute(
            f"SELECT sum(temp) FROM read_parquet('{raw}') WHERE device = {one.device} "
            f"AND event_us >= {one.start_us} AND event_us < {one.end_us}"
        ).fetchall()
        return 0

    return ask


def clickhouse(folder: Path, raw: str, asked: Sequence[Range]) -> dict[str, Any]:
    """Return the figures of the ClickHouse rollup, or that chdb is not installed."""
    if find_spec("chdb") is None:
        missing = "chdb is not installed; `make bench` installs it"
        return {"clickhouse_p50_ms": None, "clickhouse_p95_ms": None, "clickhouse": missing}
    # Untyped, and not there on every machine.
    session: Any = import_module("chdb.session").Session(str(folder / "chdb"))
    session.query("CREATE DATABASE b ENGINE = Atomic")
    session.query(
        "CREATE TABLE b.minutes (device Int32, start_us Int64, total AggregateFunction(sum, Float64)) "
        "ENGINE = AggregatingMergeTree ORDER BY (device, start_us)"
    )
    session.query(
        f"INSERT INTO b.minutes SELECT device, intDiv(event_us, {MINUTE_US}) * {MINUTE_US} AS start_us, "
        f"sumState(assumeNotNull(temp)) FROM file('{raw}', Parquet) GROUP BY device, start_us "
        "SETTINGS max_memory_usage = 4000000000"
    )
    session.query("OPTIMIZE TABLE b.minutes FINAL")

    def ask(one: Range) -> int:
        session.query(
            f"SELECT sumMerge(total) FROM b.minutes WHERE device = {one.device} AND "
            f"start_us >= {one.start_us - one.start_us % MINUTE_US} AND start_us < {one.end_us}"
        )
        return 0

    taken, _, _ = timed([ask], asked)
    session.close()
    return quantiles("clickhouse", taken[0])


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def quantiles(name: str, taken: Sequence[float]) -> dict[str, float]:
    """Return p50 and p95 of milliseconds as figures of this name."""
    return {f"{name}_p{n}_ms": round(quantile(taken, n / 100), 2) for n in (50, 95)}


def _write(sizes: Sequence[dict[str, Any]]) -> None:
    figure, axes = page.picture("serving")
    for name, label in (
        ("raw_scan", "DuckDB over raw Parquet"),
        ("clickhouse", "ClickHouse rollup by minute"),
        ("range_sum", "Tidemark range_sum"),
    ):
        points = [(s["rows"], s[f"{name}_p95_ms"]) for s in sizes if s[f"{name}_p95_ms"] is not None]
        axes.loglog([x for x, _ in points], [y for _, y in points], "o-", label=label)
    axes.set(xlabel="raw rows", ylabel="p95, milliseconds")
    axes.legend()
    columns = (
        *(
            "rows",
            "nodes",
            "nodes_read_p95",
            "range_sum_p50_ms",
            "range_sum_p95_ms",
            "range_sum_cpu_p50_ms",
            "range_sum_cpu_p95_ms",
            "typed_p50_ms",
            "typed_p95_ms",
        ),
        *(
            "raw_scan_p50_ms",
            "raw_scan_p95_ms",
            "clickhouse_p50_ms",
            "clickhouse_p95_ms",
            "publish_nodes_per_s",
        ),
    )
    page.write(
        "rollup",
        "serving",
        "A range's sum as history grows",
        f"{DEVICES} devices, ten readings a second together; each way answers the same ranges, in turns of fifty.",
        page.table(
            columns, [["-" if size[name] is None else size[name] for name in columns] for size in sizes]
        ),
        page.save(figure, "rollup", "serving"),
    )
