"""Costs of a batch of a registered query on each runner: in Spark's tasks, warm, and in the process of the job.

The streams and queries of ``query_batch``: batches of 1,000 and 10,000 rows behind 20,000, medians of five after three
that warm up; then one batch of two million rows of the join. Seconds of the clock, seconds of processors of the process
and all its children, and jobs of Spark.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jobs import run_queries
from lakehouse.config.spark_settings import EngineSettings
from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.query_batch import QUERIES, Home
from tests.benchmarks.stopwatch import jobs_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNNERS: tuple[Literal["local", "spark"], ...] = ("local", "spark")
SIZES, QUICK_SIZES = (1_000, 10_000), (1_000,)
HELD, LARGE = 20_000, 2_000_000
WARM_UP, BATCHES = 3, 5


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds and jobs of a batch by runner, query and rows."""
    found: dict[str, Any] = {}
    for runner in RUNNERS:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            home = Home(Path(name) / runner, QUERIES, quick)
            home.settings = home.settings.model_copy(update={"engine": EngineSettings(runner=runner)})
            session = build_session(home.settings)
            found |= {f"{runner}_{key}": value for key, value in _measured(home, session, quick).items()}
            end_session(session)
            end_session(home.spark)
    return found


def _measured(home: Home, session: SparkSession, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    home.land(HELD)
    _run(home, session, "pairs"), _run(home, session, "count")
    for rows in QUICK_SIZES if quick else SIZES:
        taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in QUERIES}
        for _ in range(1 if quick else WARM_UP + BATCHES):
            home.land(rows)
            for name, own in taken.items():
                own.append(_run(home, session, name))
        for name, own in taken.items():
            found |= _named(
                f"{name}_{rows}", [statistics.median(each) for each in zip(*own[-BATCHES:], strict=True)]
            )
    if not quick:
        home.land(LARGE)
        found |= _named(f"pairs_{LARGE}", list(_run(home, session, "pairs")))
    return found


def _run(home: Home, session: SparkSession, query: str) -> tuple[float, float, int]:
    """Run a query; return seconds of the clock and of processors, and jobs of Spark."""
    known = _last_job(home)
    started, before = time.perf_counter(), cpu_s()
    run_queries.run(home.settings, session, query)
    return time.perf_counter() - started, cpu_s() - before, _last_job(home) - known


def _last_job(home: Home) -> int:
    return max((job.number for job in jobs_since(home.spark, 0)), default=-1)


def _named(name: str, measured: list[float]) -> dict[str, float]:
    units = ("wall_s", "cpu_s", "jobs")
    return {f"{name}_{unit}": round(value, 2) for unit, value in zip(units, measured, strict=True)}
