"""Cost of a rollup of new rows on the engine, by runner: seconds of the clock and of processors, Spark jobs, memory.

    python -m tests.benchmarks.start rollup_job [--json]

A process for each runner, warm: batches of 1,000 and 10,000 rows of a thousand devices, medians of five after three
that warm up, and one of a million and of four million rows. The rows are in raw before, a file a batch of up to a
million rows. ``driver_mb``: by how much the job's process, without its JVM, grew at most during a rollup.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pyarrow.csv as pacsv

from jobs import build_rollups, ingest
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.parts import cpu_s, sampling
from tests.benchmarks.small_batch import CONFIG, DEVICES, T0, readings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SIZES = {1_000: 5, 10_000: 5, 1_000_000: 1, 4_000_000: 1}
QUICK_SIZES = {1_000: 1, 10_000: 1}
WARM_UP, PIECE = 3, 1_000_000


def figures(quick: bool) -> dict[str, float]:
    """Return the figures of both runners."""
    found: dict[str, float] = {}
    for runner in ("spark", "local"):
        called = [sys.executable, "-m", __spec__.name, "quick" if quick else "full"]
        environment = os.environ | {"TIDEMARK_ENGINE__RUNNER": runner}
        printed = subprocess.run(called, check=True, env=environment, capture_output=True, text=True).stdout
        own = json.loads(printed.splitlines()[-1])
        found |= {f"{runner}_{name}": value for name, value in own.items()}
    return found


def _measured(folder: Path, sizes: dict[int, int], warm_up: int) -> dict[str, float]:
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    spark, number, found = build_session(settings), 0, dict[str, float]()
    for size, batches in sizes.items():
        runs = []
        for _ in range((warm_up if batches > 1 else 0) + batches):
            number += 1
            for first in range(0, size, PIECE):
                _land(folder, number * 4 * PIECE + first, min(PIECE, size - first))
                ingest.run(settings, spark, "readings")
            runs.append(_rollup(settings, spark))
        for name in runs[0]:
            found[f"{name}_at_{size}"] = round(statistics.median(run[name] for run in runs[-batches:]), 3)
    end_session(spark)
    return found


def _land(folder: Path, first: int, rows: int) -> None:
    number = np.arange(first, first + rows)
    pacsv.write_csv(
        readings_of(T0 + number // DEVICES, number % DEVICES), folder / "landing" / f"{first}.csv"
    )


def _rollup(settings: Any, spark: SparkSession) -> dict[str, float]:
    jobs, started, before = _jobs(spark), time.perf_counter(), cpu_s()
    with watched() as grown:
        build_rollups.run(settings, spark, "readings")
    taken = {"s": time.perf_counter() - started, "cpu_s": cpu_s() - before, "driver_mb": max(grown)}
    return taken | {"jobs": len(_jobs(spark) - jobs)}


def _jobs(spark: SparkSession) -> set[int]:
    present = spark.present()  # type: ignore[attr-defined]
    return set(present.sparkContext.statusTracker().getJobIdsForGroup(None)) if present else set()


@contextmanager
def watched() -> Iterator[list[float]]:
    """Yield what this process grows by, in megabytes, measured every few milliseconds."""
    process = psutil.Process()
    before, grown = process.memory_info().rss, [0.0]
    with sampling(lambda: grown.append((process.memory_info().rss - before) / 2**20), 0.01):
        yield grown


if __name__ == "__main__":
    is_quick = sys.argv[1] == "quick"
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        asked = (QUICK_SIZES, 1) if is_quick else (SIZES, WARM_UP)
        print(json.dumps(_measured(Path(name), *asked)))
