"""What a batch of a thousand rows costs, job by job, when little or much has come before it.

    python -m tests.benchmarks.small_batch [--quick] [--json]

A thousand devices, each with a reading every ten seconds, one file of 1,012 rows a batch; 12 of them a minute late. The
``run`` functions of ``ingest``, ``build_rollups``, ``check_quality``, ``publish`` and ``maintain``, one after the other
in one warm session with the shipped settings. History: rows that came in before, in one file, through the same jobs:
none, a million and ten millions; ``--quick``: none and 20,000. The stream has an identity, and all of its history is
within ``duplicates_within``. Seconds of the clock, medians of three batches after two that warm up; ``cpu``: seconds of
processors of all jobs together.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs import build_rollups, check_quality, ingest, maintain, publish
from lakehouse.declare.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.parts import cpu_s, run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEVICES, EVERY_S, LATE = 1000, 10, 12
HISTORIES, QUICK_HISTORIES = (0, 1_000_000, 10_000_000), (0, 20_000)
WARM_UP, BATCHES = 2, 3
T0 = 1_600_000_000
CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
duplicates_within = "2d"
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*.csv"
format = "csv"
settle = 0
[streams.readings.columns]
ts = "int"
device = "string"
temp = "double"
"""
Job = Callable[[Settings, "SparkSession"], object]
JOBS: Mapping[str, Job] = {
    "ingest": lambda settings, spark: ingest.run(settings, spark, "readings"),
    "build_rollups": lambda settings, spark: build_rollups.run(settings, spark, "readings"),
    "check_quality": lambda settings, spark: check_quality.run(settings, spark, "readings"),
    "publish": lambda settings, spark: publish.run(settings, spark),
    "maintain": lambda settings, spark: maintain.run(settings, spark, "readings"),
}


def figures(quick: bool) -> dict[str, Any]:
    """Return the seconds of each job, by how many rows have come before."""
    found: dict[str, Any] = {}
    for history in QUICK_HISTORIES if quick else HISTORIES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            taken = _measured(Path(name), history, *((0, 1) if quick else (WARM_UP, BATCHES)))
        found |= {f"{job}_s_at_{history}": seconds for job, seconds in taken.items()}
    return found


def _measured(folder: Path, history: int, warm_up: int, batches: int) -> dict[str, float]:
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    spark = started_session(settings)
    start = T0 + _land(folder / "landing" / "0.csv", T0, history)
    if history:
        _run(settings, spark)
    taken: dict[str, list[float]] = {}
    for batch in range(1, warm_up + batches + 1):
        start += _land(folder / "landing" / f"{batch}.csv", start, DEVICES, LATE)
        for job, seconds in _run(settings, spark).items():
            taken.setdefault(job, []).append(seconds)
    spark.stop()
    return {job: round(statistics.median(seconds[warm_up:]), 2) for job, seconds in taken.items()}


def _run(settings: Settings, spark: SparkSession) -> dict[str, float]:
    """Run each job once; return their seconds, and those of processors."""
    found, before = {}, cpu_s()
    for name, job in JOBS.items():
        started = time.perf_counter()
        job(settings, spark)
        found[name] = time.perf_counter() - started
    return found | {"all": sum(found.values()), "cpu": cpu_s() - before}


def _land(path: Path, start_s: int, rows: int, late: int = 0) -> int:
    """Write readings of all devices in turns from a time on, some of them late; return the seconds they last."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    if not rows:
        return 0
    number = np.arange(rows)
    times = np.concatenate([start_s + number // DEVICES * EVERY_S, np.full(late, start_s - 60 + 1)])
    devices = np.concatenate([number % DEVICES, np.arange(late)])
    temp = np.round(np.random.default_rng(start_s).normal(20, 5, rows + late), 3)
    columns = {"ts": times, "device": np.char.add("device-", devices.astype(str)), "temp": temp}
    pacsv.write_csv(pa.table(columns), path)
    return -(-rows // DEVICES) * EVERY_S


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("small_batch",))
