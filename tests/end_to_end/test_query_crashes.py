"""A join and its repair, killed at every step and run again, have every pair once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import ingest, repair_late, run_queries
from lakehouse.catalog.crashpoint import QUERY_POINTS
from lakehouse.catalog.settings import Settings
from lakehouse.spark import tables
from tests.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
T0 = 1_600_000_000
QUERY = """
SELECT a.temp AS one, b.temp AS other FROM readings [RANGE 5 SECONDS] a JOIN readings b
ON a.device = b.device AND a.temp < b.temp
RECALL 0.9 OVER 1 MINUTE
"""
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


def kill(settings: Settings, point: str) -> None:
    """Run the job that passes this point in a process of its own, which dies there."""
    command = [sys.executable, "-m", JOBS[point.partition(".")[0]], "--config", str(settings.config), "pairs"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"TIDEMARK_CRASH_AT": point}
    ended = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, f"{point} was not passed: {ended.stderr[-3000:]}"


def test_killed_at_every_step_and_run_again_every_pair_is_there_once(
    tmp_path: Path, spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> None:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "pairs.sql").write_text(QUERY)
    settings = lakehouse_of(declared())
    rows: list[dict[str, Any]] = []
    for part, point in enumerate(QUERY_POINTS):
        rows += land(settings, part)
        ingest.run(settings, spark, "readings")
        if point.startswith("repair"):
            run_queries.run(settings, spark, "pairs")
        kill(settings, point)
    for _ in range(2):
        run_queries.run(settings, spark, "pairs")
        repair_late.run(settings, spark, "pairs")

    found = tables.read(spark, settings.layout.joins("pairs")).select(
        "left_us", "right_us", "one", "other", "found"
    )
    pairs = [tuple(row) for row in found.collect()]
    # Of two readings with one identity the first stays.
    kept = {(row["device"], row["ts"]): row for row in reversed(rows)}.values()
    expected = Counter(
        (round(a["ts"] * 10**6), round(b["ts"] * 10**6), a["temp"], b["temp"])
        for a in kept
        for b in kept
        if a["device"] == b["device"] and abs(a["ts"] - b["ts"]) <= 5 and a["temp"] < b["temp"]
    )
    assert Counter(pair[:4] for pair in pairs) == expected
    assert {pair[4] for pair in pairs} == {"online", "repair"}
