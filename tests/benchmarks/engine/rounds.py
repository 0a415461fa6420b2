"""A landing through all steps on each runner: two ingests, rollups of both streams, two queries, their repairs.

The streams and queries of ``query_batch``, of which one row in a hundred is late; a process for each runner. Rounds of
1,000 and 10,000 rows of both streams together, medians of five after three that warm up, then one of a million rows of
each stream, whose join gives as many pairs as its two sides have partners. Seconds of the clock; seconds of processors
of the job's process, its JVM and Python's workers; jobs of Spark.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import build_rollups, ingest, repair_late, run_queries
from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.query_batch import QUERIES, Home
from tests.benchmarks.stopwatch import jobs_since

SIZES, QUICK_SIZES = {1_000: 5, 10_000: 5, 2_000_000: 1}, {1_000: 1}
WARM_UP = 3
STREAMS = ("asks", "replies")
STEPS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "ingest": (ingest.run, STREAMS),
    "rollup": (build_rollups.run, STREAMS),
    "queries": (run_queries.run, tuple(QUERIES)),
    "repairs": (repair_late.run, tuple(QUERIES)),
}
Taken = dict[str, list[float]]


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of both runners; a full run writes them to a page."""
    found: dict[str, dict[str, Taken]] = {}
    for runner in ("spark", "local"):
        called = [sys.executable, "-m", __spec__.name, "quick" if quick else "full"]
        environment = os.environ | {"TIDEMARK_ENGINE__RUNNER": runner}
        printed = subprocess.run(called, check=True, env=environment, capture_output=True, text=True).stdout
        found[runner] = json.loads(printed.splitlines()[-1])
    if not quick:
        write("engine", "rounds", "A landing through all steps", __doc__ or "", *_tables(found))
    return {
        f"{runner}_{size}_{step}": taken
        for runner, sizes in found.items()
        for size, steps in sizes.items()
        for step, taken in steps.items()
    }


def _tables(found: dict[str, dict[str, Taken]]) -> list[str]:
    heads = ["rows", "step", "spark: s", "CPU s", "jobs", "local: s", "CPU s"]
    rows = [
        [int(size), step, *found["spark"][size][step], *found["local"][size][step][:2]]
        for size in found["spark"]
        for step in (*STEPS, "all")
    ]
    return ["Other work ran on the same two cores: compare processor seconds and ratios.", table(heads, rows)]


def _measured(folder: Path, sizes: dict[int, int], warm_up: int) -> dict[int, Taken]:
    home, found = Home(folder, QUERIES, False, session_of=build_session), dict[int, Taken]()
    for size, count in sizes.items():
        rounds = [_round(home, size) for _ in range((warm_up if count > 1 else 0) + count)][-count:]
        found[size] = {
            step: [
                round(statistics.median(each), 3) for each in zip(*(one[step] for one in rounds), strict=True)
            ]
            for step in rounds[0]
        }
    end_session(home.spark)
    return found


def _round(home: Home, rows: int) -> Taken:
    """Take in rows by each step; return seconds, seconds of processors and jobs of each, and of all."""
    home.write(rows)
    found = {}
    for step, (job, names) in STEPS.items():
        known, before, started = _jobs(home), cpu_s(), time.perf_counter()
        for name in names:
            job(home.settings, home.spark, name)
        found[step] = [time.perf_counter() - started, cpu_s() - before, _jobs(home) - known]
    return found | {"all": [sum(each) for each in zip(*found.values(), strict=True)]}


def _jobs(home: Home) -> int:
    present = home.spark.present()  # type: ignore[attr-defined]
    return len(jobs_since(present, 0)) if present else 0


if __name__ == "__main__":
    is_quick = sys.argv[1] == "quick"
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        print(
            json.dumps(
                _measured(Path(name) / "home", QUICK_SIZES if is_quick else SIZES, 1 if is_quick else WARM_UP)
            )
        )
