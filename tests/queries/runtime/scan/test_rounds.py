"""Queries of every kind that share a predicate: each comes to what it would alone, no row is asked about twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from delta.tables import DeltaTable

from jobs import check_queries, maintain_queries, repair_late, run_queries
from lakehouse.engine.local import LocalEngine
from lakehouse.queries.runtime.checks import frames_of, measure_scans, rows_to_take
from lakehouse.queries.runtime.failure import QueryFailed, read_failure
from lakehouse.queries.runtime.recall.tables import open_tables
from lakehouse.queries.runtime.scan.readers import readers_of, scan_group
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_rows
from quality.rules import load_rules
from tests.support.readings import declared, write
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]
T0 = 1_600_000_000
QUERIES = {
    "chosen": "SELECT device, temp, count FROM readings WHERE temp > 20 AND fits(count)",
    "pairs": """
        SELECT a.temp AS one, b.temp AS other FROM readings [RANGE 5 SECONDS] a JOIN readings b
        ON a.device = b.device AND a.temp < b.temp WHERE fits(a.count) AND b.temp > 20
        RECALL 0.9 OVER 1 MINUTE SPARE 0 ROWS
    """,
    "totals": """
        SELECT a.device, COUNT(*) AS n, SUM(b.temp * 2) AS total
        FROM readings [8 SECONDS] a JOIN readings [5 SECONDS] b ON a.device = b.device
        WHERE fits(a.count) AND fits(b.count) AND a.temp > 20
        GROUP BY a.device EVERY 2 SECONDS SLACK 30 SECONDS
    """,
    "threes": """
        SELECT a.temp AS one, b.temp AS two, c.temp AS three
        FROM readings [5 SECONDS] a JOIN readings [8 SECONDS] b ON a.device = b.device
        JOIN readings [3 SECONDS] c ON b.device = c.device
        WHERE a.temp < 40 AND fits(b.count) AND c.temp >= 40 SLACK 10 SECONDS
    """,
}
# Each call of a row leaves a byte in a file.
FITS = """
import os


def fits(count) -> bool:
    file = os.open({path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b".")
    os.close(file)
    return count % 3 > 0
"""
YARDSTICKS = {
    "chosen": "SELECT us, temp FROM kept WHERE temp > 20 AND count % 3 > 0",
    "pairs": """
        SELECT a.us, b.us, a.temp, b.temp FROM kept a, kept b
        WHERE a.device = b.device AND a.temp < b.temp AND a.count % 3 > 0 AND b.temp > 20
        AND abs(a.us - b.us) <= 5000000
    """,
    "threes": """
        SELECT [a.us, b.us, c.us], a.temp, b.temp, c.temp FROM kept a, kept b, kept c
        WHERE a.device = b.device AND b.device = c.device AND a.temp < 40 AND b.count % 3 > 0 AND c.temp >= 40
        AND greatest(b.us, c.us) - a.us <= 5000000 AND greatest(a.us, c.us) - b.us <= 8000000
        AND greatest(a.us, b.us) - c.us <= 3000000
    """,
    "totals": """
        SELECT tick, a.device, count(*), sum(b.temp * 2) FROM ticks, kept a, kept b
        WHERE tick - a.us BETWEEN 0 AND 8000000 AND tick - b.us BETWEEN 0 AND 5000000 AND a.device = b.device
        AND a.count % 3 > 0 AND b.count % 3 > 0 AND a.temp > 20
        GROUP BY tick, a.device
    """,
}
FOUND = {
    "chosen": "SELECT event_us, temp FROM found",
    "pairs": "SELECT left_us, right_us, one, other FROM found",
    "threes": "SELECT times_us, one, two, three FROM found",
    "totals": """
        SELECT tick_us, device, n, total FROM (FROM found
        QUALIFY row_number() OVER (PARTITION BY tick_us, device ORDER BY revision DESC) = 1) WHERE holds
    """,
}


def land(settings: Settings, part: int, stream: str = "readings") -> list[dict[str, Any]]:
    """Land a minute of readings, a third of them late by up to a minute; of each stream others."""
    dice = np.random.default_rng([part, *stream.encode()])
    late = np.where(dice.random(60) < 0.3, dice.integers(0, 60, 60), 0)
    rows = [
        {
            "ts": T0 + 60 * part + n - int(late[n]) + n / 1000,
            "received": T0 + 60 * part + n,
            "device": "abc"[n % 3],
            "temp": float(dice.integers(0, 100)),
            "count": int(dice.integers(0, 90)),
        }
        for n in range(60)
    ]
    folder = Path(settings.streams[stream].source.path).parent
    folder.mkdir(exist_ok=True)
    (folder / f"{part}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def expected(rows: list[dict[str, Any]], name: str) -> Counter[tuple[Any, ...]]:
    """Return what a query comes to over all rows, as DuckDB finds it."""
    kept = pa.Table.from_pylist([row | {"us": round(row["ts"] * 10**6)} for row in rows])
    first, last = (edge(kept["us"].to_pylist()) // 2_000_000 * 2_000_000 for edge in (min, max))
    ticks = pa.table({"tick": list(range(first, last + 1, 2_000_000))})
    return answered(YARDSTICKS[name], kept=kept, ticks=ticks)


def content(settings: Settings, name: str) -> Counter[tuple[Any, ...]]:
    """Return what a query has come to."""
    layout = settings.layout
    tables = {"chosen": layout.selection, "totals": layout.answers, "threes": layout.multiway}
    table = tables.get(name, layout.pairs)
    return answered(FOUND[name], found=pa.Table.from_pylist(read_rows(table(name))))


def answered(statement: str, **tables: pa.Table) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows = connection.execute(statement).fetchall()
    return Counter(tuple(tuple(each) if isinstance(each, list) else each for each in row) for row in rows)


def deviations(settings: Settings, spark: SparkSession, name: str) -> dict[tuple[str, int, str], float]:
    """Return what a check of all batches of a query finds wrong: table, batch and metric, and by how much."""
    tables = open_tables(LocalEngine(), settings.layout, settings.query(name), 0, settings.queries.published)
    assert tables is not None
    frames = frames_of(tables, rows_to_take(tables, 0))
    return {
        (frame.table, row["batch"], rule.metric): row[rule.metric]
        for frame in (*frames, *measure_scans(tables, 0))
        for row in frame.rows
        for rule in load_rules()[frame.table]
        if row[rule.metric]
    }


def asked_about(calls: Path) -> int:
    """Return about how many rows the predicate was asked since the last time."""
    count = calls.stat().st_size if calls.exists() else 0
    calls.unlink(missing_ok=True)
    return count


def kernels_by_batch(settings: Settings) -> list[list[tuple[str, float]]]:
    """Return, batch by batch, whose kernel was run, in that order, with the priority that it has from then on."""
    rows = [
        row | {"query": name}
        for name in QUERIES
        if name != "chosen"
        for row in read_rows(settings.layout.operators(name))
        if row["side"] is None
    ]
    rows.sort(key=lambda row: row["committed_at"])
    return [[(row["query"], row["priority"]) for row in rows if row["batch"] == n] for n in (1, 2)]


def test_all_kinds_share_a_scan_and_come_to_what_they_mean_after_repair(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    calls = tmp_path / "calls"
    write(tmp_path, QUERIES, fits=FITS.format(path=str(calls)))
    settings = lakehouse_of(declared())
    rows, done = [], Counter[str]()
    for part, name in enumerate(("totals", "threes")):
        rows += land(settings, part)
        take_in(settings, spark, "readings")
        done[name] = run_queries.run(settings, spark, name)["batches"]
        # One row is asked about once, for four queries and five sides.
        assert asked_about(calls) == 60
        assert run_queries.run(settings, spark, "pairs")["batches"] == 0
    repairs = {name: repair_late.run(settings, spark, name) for name in QUERIES}

    assert done == {"totals": 1, "threes": 1}
    for name in QUERIES:
        assert content(settings, name) == expected(rows, name), name
        assert sum(expected(rows, name).values()) > 30
    assert repairs["pairs"]["found"] + repairs["threes"]["found"] > 0
    # A repair asks about rows around the late ones only, not about all that raw has.
    assert {name: figures["gone"] for name, figures in repairs.items()} == dict.fromkeys(QUERIES, 0)
    told = read_rows(settings.layout.operators("totals"))
    whole = [row for row in told if row["operator"] < 0]
    assert {(row["side"], row["together"], row["rows"]) for row in whole} == {(0, 5, 60), (1, 5, 60)}
    kernels = [row for row in told if row["side"] is None]
    assert sorted(row["batch"] for row in kernels) == [1, 2]
    assert all(row["handled_per_s"] > 0 for row in kernels)
    turns = kernels_by_batch(settings)
    for before, after in pairwise(turns):
        assert [query for query, _ in after] == [
            query for query, _ in sorted(before, key=lambda each: -each[1])
        ]
    figures = read_rows(settings.layout.queries("totals"))
    assert sum(row["selected"] for row in whole) == sum(row["rows"] for row in figures if row["bucket"] >= 0)
    maintain_queries.run(settings, spark, "totals")
    assert content(settings, "totals") == expected(rows, "totals")


def test_a_query_that_raises_stands_still_and_the_others_go_on(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    own = QUERIES["pairs"].replace("fits(a.count)", "fits(a.count) AND picky(a.temp)")
    good = "def picky(temp) -> bool:\n    return True\n"
    write(tmp_path, QUERIES | {"pairs": own}, fits=FITS.format(path=str(tmp_path / "calls")), picky=good)
    settings = lakehouse_of(declared())
    rows = land(settings, 0)
    take_in(settings, spark, "readings")
    run_queries.run(settings, spark, "chosen")
    write(tmp_path, {}, picky=good.replace("return", "assert temp < 90, temp\n    return"))
    for part in (1, 2):
        rows += land(settings, part)
        take_in(settings, spark, "readings")
        run_queries.run(settings, spark, "chosen")
    with pytest.raises(
        QueryFailed, match=r"query pairs is stopped: batch 2, at picky.temp. .picky.py:2.: Asser"
    ):
        run_queries.run(settings, spark, "pairs")
    stopped = read_failure(settings.layout, "pairs")
    write(tmp_path, {}, picky=good)
    caught_up = run_queries.run(settings, spark, "pairs")
    for name in QUERIES:
        repair_late.run(settings, spark, name)

    assert stopped is not None and stopped.batch == 2
    assert (caught_up["batches"], read_failure(settings.layout, "pairs")) == (2, None)
    for name in QUERIES:
        assert content(settings, name) == expected(rows, name), name


def test_what_is_tied_by_streams_is_found_and_what_is_left_to_spark_is_not(
    tmp_path: Path, lakehouse_of: Callable[[str], Settings]
) -> None:
    plain = QUERIES["pairs"].replace("fits(a.count) AND ", "")
    write(tmp_path, QUERIES | {"plain": plain}, fits=FITS.format(path=""))
    settings = lakehouse_of(declared())
    registered = settings.registered

    tied = scan_group(registered["pairs"], registered.values())

    assert [query.name for query in tied] == sorted(QUERIES)
    assert readers_of(registered["plain"]) == {}
    kept = {"arrival_us", "batch", "event_us", "source_file", "source_item", "source_line"}
    columns = [{*reader.columns} - kept for reader in readers_of(registered["totals"]).values()]
    # One side is grouped by, of the other a value is read; conditions' own columns are not handed on.
    assert sorted(columns, key=len) == [{"device"}, {"device", "temp"}]


def test_a_check_believes_what_scans_noted_and_sees_what_is_missing(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    write(tmp_path, QUERIES, fits=FITS.format(path=str(tmp_path / "calls")))
    settings = lakehouse_of(declared())
    for part in range(2):
        land(settings, part)
        take_in(settings, spark, "readings")
        run_queries.run(settings, spark, "chosen")
    layout = settings.layout
    # By now it says something else, and is not asked again.
    write(tmp_path, {}, fits="def fits(count) -> bool:\n    raise ValueError(count)\n")

    checked = {name: check_queries.run(settings, spark, name)["failed"] for name in QUERIES}
    right = {name: deviations(settings, spark, name) for name in QUERIES}
    noted = read_rows(layout.operators("pairs"))
    (selected,) = (
        row["selected"] for row in noted if (row["batch"], row["side"], row["operator"]) == (2, 0, -1)
    )
    told = [row for row in read_rows(layout.queries("totals")) if row["batch"] == 1 and row["bucket"] >= 0]
    for table, lost in (
        (layout.operators("pairs"), "batch = 2 AND side = 0 AND operator = -1"),
        (layout.queries("totals"), f"batch = 1 AND bucket = {told[0]['bucket']}"),
        (layout.operators("threes"), "batch = 1 AND side IS NULL"),
    ):
        DeltaTable.forPath(spark, str(table)).delete(lost)

    assert checked == dict.fromkeys(QUERIES, 0)
    assert right == {name: {} for name in QUERIES}
    assert selected > 0 and deviations(settings, spark, "pairs") == {
        **{("batches", 2, "rows_added"): selected, ("scans", 2, "rows_missing"): 60},
        ("scans", 2, "operators_gap"): 1,
    }
    assert deviations(settings, spark, "totals")["batches", 1, "rows_missing"] == told[0]["rows"] > 0
    assert deviations(settings, spark, "threes") == {("scans", 1, "operators_gap"): 1}
    DeltaTable.forPath(spark, str(layout.raw("readings"))).delete("batch = 1 AND count % 3 = 0")
    assert deviations(settings, spark, "threes")["scans", 1, "rows_added"] > 0
