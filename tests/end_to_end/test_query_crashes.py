"""Queries of all kinds that run in one round, killed anywhere in it or run by two jobs at once, do everything once.

Kinds that are killed by themselves: ``tests/queries/test_laws.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs import repair_late, run_queries
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import is_held, lease
from lakehouse.storage.tables.table_log import read_rows
from tests.support import killing
from tests.support.crash_points import ROUND_POINTS
from tests.support.readings import declared
from tests.support.table_rows import arrow_rows, named_rows, table_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]
T0 = 1_600_000_000
JOIN = """
SELECT a.temp AS one, b.temp AS other FROM readings [RANGE 5 SECONDS] a JOIN readings b
ON a.device = b.device AND a.temp < b.temp
RECALL 0.9 OVER 1 MINUTE SPARE 0 ROWS
"""
AGGREGATE = """
SELECT a.device, COUNT(*) AS n, SUM(b.temp) AS total FROM readings [8 SECONDS] a JOIN readings [5 SECONDS] b
ON a.device = b.device GROUP BY a.device HAVING MAX(a.temp) > 70
EVERY 2 SECONDS SLACK 30 SECONDS ALARM
"""
THREE = """
SELECT a.temp AS one, b.temp AS two, c.temp AS three
FROM readings [5 SECONDS] a JOIN readings [8 SECONDS] b ON a.device = b.device
JOIN readings [3 SECONDS] c ON b.device = c.device
WHERE a.temp < 40 AND c.temp >= 40
SLACK 10 SECONDS
"""
ALL_THREE = """
SELECT [a.us, b.us, c.us], a.temp, b.temp, c.temp FROM kept a, kept b, kept c
WHERE a.device = b.device AND b.device = c.device AND a.temp < 40 AND c.temp >= 40
AND greatest(b.us, c.us) - a.us <= 5000000 AND greatest(a.us, c.us) - b.us <= 8000000
AND greatest(a.us, b.us) - c.us <= 3000000 AND {where}
"""
YARDSTICK = """
SELECT tick, a.device, count(*), sum(b.temp) FROM ticks, kept a, kept b
WHERE tick - a.us BETWEEN 0 AND 8000000 AND tick - b.us BETWEEN 0 AND 5000000 AND a.device = b.device AND {where}
GROUP BY tick, a.device HAVING max(a.temp) > 70 ORDER BY ALL
"""
WARM = "SELECT device, temp, count FROM readings WHERE is_even(count) AND temp > 30"
IS_EVEN = """
def is_even(count) -> bool:
    return count % 2 == 0
"""
# All ask the same predicate, so they share scans.
TIED = {
    "hot": AGGREGATE.replace("GROUP BY", "WHERE is_even(b.count) GROUP BY"),
    "pairs": JOIN.replace("RECALL", "WHERE is_even(a.count) RECALL"),
    "three": THREE.replace("AND c.temp", "AND is_even(b.count) AND c.temp"),
    "warm": WARM,
}
JOBS = {"queries": "jobs.run_queries", "repair": "jobs.repair_late"}


def land(settings: Settings, part: int) -> list[dict[str, Any]]:
    """Land a minute of readings, a third of them late by up to two minutes."""
    dice = np.random.default_rng(part)
    late = np.where(dice.random(60) < 0.3, dice.integers(0, 120, 60), 0)
    rows = [
        {
            "ts": T0 + 60 * part + n - int(late[n]) + n / 1000,
            "received": T0 + 60 * part + n,
            "device": "abc"[n % 3],
        }
        for n in range(60)
    ]
    rows = [row | {"temp": float(dice.integers(0, 100)), "count": n} for n, row in enumerate(rows)]
    folder = Path(settings.streams["readings"].source.path).parent
    folder.mkdir(exist_ok=True)
    (folder / f"{part}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


def kept_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that raw has: of two readings with one identity the first stays."""
    return list({(row["device"], row["ts"]): row for row in reversed(rows)}.values())


def started(settings: Settings, job: str, query: str, **environment: str) -> subprocess.Popen[str]:
    """Start a job in a process of its own."""
    command = [sys.executable, "-m", job, "--config", str(settings.config), query]
    return subprocess.Popen(
        command,
        env=os.environ | environment,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill(spark: SparkSession, settings: Settings, point: str, query: str) -> None:
    """Run the job that passes this point in a process that dies there."""
    job, words = JOBS[point.partition(".")[0]], ("--config", str(settings.config), query)
    killing.kill(spark, point, job, *words)


def require_pairs(
    settings: Settings,
    rows: list[dict[str, Any]],
    is_let_through: Callable[[dict[str, Any]], bool] = lambda row: True,
) -> None:
    """Require every pair once; ``is_let_through``: what WHERE says of the left row."""
    pairs = table_rows(settings.layout.pairs("pairs"), "left_us", "right_us", "one", "other", "found")
    kept = kept_of(rows)
    expected = Counter(
        (round(a["ts"] * 10**6), round(b["ts"] * 10**6), a["temp"], b["temp"])
        for a in filter(is_let_through, kept)
        for b in kept
        if a["device"] == b["device"] and abs(a["ts"] - b["ts"]) <= 5 and a["temp"] < b["temp"]
    )
    assert len(expected) > 100
    assert Counter(pair[:4] for pair in pairs) == expected
    assert {pair[4] for pair in pairs} == {"online", "repair"}


def require_results(settings: Settings, rows: list[dict[str, Any]], where: str = "true") -> None:
    """Require every result of three once; ``where``: what the query says besides."""
    found = named_rows(settings.layout.multiway("three"))
    kept = pa.Table.from_pylist([row | {"us": round(row["ts"] * 10**6)} for row in kept_of(rows)])
    with duckdb.connect() as connection:
        connection.register("kept", kept)
        expected = Counter(
            (tuple(times), *temps)
            for times, *temps in connection.execute(ALL_THREE.format(where=where)).fetchall()
        )
    assert len(expected) > 100
    assert (
        Counter((tuple(row["times_us"]), row["one"], row["two"], row["three"]) for row in found) == expected
    )


def require_answers(settings: Settings, rows: list[dict[str, Any]], where: str = "true") -> None:
    """Require the answers of all rows, and an alarm where each spell begins; ``where``: what the query says."""
    answers = arrow_rows(settings.layout.answers("hot"))
    alarms = arrow_rows(settings.layout.alarms("hot"))
    with duckdb.connect() as connection:
        kept = pa.Table.from_pylist([row | {"us": round(row["ts"] * 10**6)} for row in kept_of(rows)])
        last = max(pc.max(kept["us"]).as_py() // 2_000_000, 0) * 2_000_000
        ticks = pa.table(
            {"tick": list(range(pc.min(kept["us"]).as_py() // 2_000_000 * 2_000_000, last + 1, 2_000_000))}
        )
        for name, table in {"kept": kept, "ticks": ticks, "answers": answers, "alarms": alarms}.items():
            connection.register(name, table)
        expected = connection.execute(YARDSTICK.format(where=where)).fetchall()
        found = connection.execute(
            "SELECT tick_us, device, n, total FROM (FROM answers "
            "QUALIFY row_number() OVER (PARTITION BY tick_us, device ORDER BY revision DESC) = 1) "
            "WHERE holds ORDER BY ALL"
        ).fetchall()
        standing = connection.execute(
            "SELECT device, raised_us FROM (FROM alarms "
            "QUALIFY row_number() OVER (PARTITION BY alarm ORDER BY change DESC) = 1) WHERE state <> 'withdrawn'"
        ).fetchall()
    assert len(expected) > 100
    assert found == expected
    held = {(device, tick) for tick, device, *_ in expected}
    assert sorted(standing) == sorted(each for each in held if (each[0], each[1] - 2_000_000) not in held)


def test_a_round_killed_at_every_step_and_run_again_does_everything_once(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    """A kill leaves some queries of a round planned, half done or finished, and others not."""
    settings = register_tied(tmp_path, lakehouse_of)
    rows: list[dict[str, Any]] = []
    for part, point in enumerate(ROUND_POINTS):
        rows += land(settings, part)
        take_in(settings, spark, "readings")
        kill(spark, settings, point, list(TIED)[part % len(TIED)])
    for name in TIED:
        run_queries.run(settings, spark, name)
        repair_late.run(settings, spark, name)
    again = [run_queries.run(settings, spark, name)["batches"] for name in TIED]

    assert again == [0] * len(TIED)
    require_all(settings, rows)


def test_jobs_of_two_tied_queries_at_once_do_everything_once(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    settings = register_tied(tmp_path, lakehouse_of)
    rows: list[dict[str, Any]] = []
    for part in range(4):
        rows += land(settings, part)
        take_in(settings, spark, "readings")
    # The first job holds all queries but the last one, and waits for it; the second waits for the first.
    with lease(settings.layout, settings.layout.queries("warm")):
        jobs = [started(settings, JOBS["queries"], name) for name in ("pairs", "warm")]
        while not is_held(settings.layout, settings.layout.queries("hot")) and all(
            job.poll() is None for job in jobs
        ):
            time.sleep(0.2)
        time.sleep(2)
    told = [job.communicate(timeout=600) for job in jobs]
    for name in TIED:
        repair_late.run(settings, spark, name)

    assert [job.returncode for job in jobs] == [0, 0], told
    # One of the two did all, also for the other.
    assert sorted(json.loads(figures)["batches"] for figures, _ in told) == [0, 1]
    require_all(settings, rows)


def register_tied(tmp_path: Path, lakehouse_of: Callable[[str], Settings]) -> Settings:
    """Return a lakehouse of readings with the queries that share a predicate."""
    for folder in ("queries", "predicates"):
        (tmp_path / folder).mkdir()
    (tmp_path / "predicates" / "is_even.py").write_text(IS_EVEN)
    for name, text in TIED.items():
        (tmp_path / "queries" / f"{name}.sql").write_text(text)
    return lakehouse_of(declared())


def require_all(settings: Settings, rows: list[dict[str, Any]]) -> None:
    """Require of all tied queries that they are complete, and that each operator of each batch is told of once."""
    require_pairs(settings, rows, lambda left: left["count"] % 2 == 0)
    require_results(settings, rows, "b.count % 2 = 0")
    require_answers(settings, rows, "b.count % 2 = 0")
    found = named_rows(settings.layout.selection("warm"))
    assert Counter((row["event_us"], row["temp"]) for row in found) == Counter(
        (round(row["ts"] * 10**6), row["temp"])
        for row in kept_of(rows)
        if row["count"] % 2 == 0 and row["temp"] > 30
    )
    places: dict[str, tuple[tuple[int | None, int], ...]] = {
        # Of each side the whole batch, then its conditions; last the kernel. The sides of hot are in an order of ours.
        "hot": ((0, -1), (0, 0), (None, 0)),
        "pairs": ((0, -1), (0, 0), (None, 0)),
        "three": ((1, -1), (1, 0), (None, 0)),
        "warm": ((None, -1), (None, 0), (None, 1)),
    }
    for name, wanted in places.items():
        layout = settings.layout
        told = read_rows(
            layout.queries(name) if name in settings.of_kind(SelectionQuery) else layout.operators(name)
        )
        batches = range(1, finished(layout, name) + 1)
        assert Counter((row["batch"], row.get("side"), row["operator"]) for row in told) == Counter(
            (batch, *place) for batch in batches for place in wanted
        ), name
