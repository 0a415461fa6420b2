"""A backfill of many rows as one batch: what the driver's process holds at most, whatever the rows and keys.

Rows of a stream with an identity, rolled up by device: a million and ten million rows, of a thousand devices and of a
million. Each in a process of its own, on Spark's runner: ingest, then the rollup. Megabytes that the job's Python
process has at most in each step, and at the end of it those of its JVM; seconds of processors of all.
``--quick``: 20,000 rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import build_rollups, ingest
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session, end_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.rollup_job import watched

CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
duplicates_within = "1y"
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
source = { path = "landing/*.csv", format = "csv", settle = 0, batch_bytes = 17179869184 }
columns = { ts = "int", device = "string", temp = "double" }
"""
T0, PIECE = 1_600_000_000, 1_000_000
SIZES, QUICK_SIZES = (
    ((1_000_000, 1000), (1_000_000, 1_000_000), (10_000_000, 1000), (10_000_000, 1_000_000)),
    ((20_000, 1000),),
)
HEADS = ("rows", "devices", "step", "driver MB at most", "JVM MB", "seconds", "processor seconds")


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of each size; a full run writes them to a page."""
    found: dict[str, Any] = {}
    for rows, devices in QUICK_SIZES if quick else SIZES:
        called = [sys.executable, "-m", __spec__.name, str(rows), str(devices)]
        environment = os.environ | {"TIDEMARK_ENGINE__RUNNER": "spark"}
        printed = subprocess.run(called, check=True, env=environment, capture_output=True, text=True).stdout
        found[f"{rows}_of_{devices}"] = json.loads(printed.splitlines()[-1])
        if not quick:
            lines = [[*map(int, key.split("_of_")), *step] for key, steps in found.items() for step in steps]
            about = "Other work ran on the same two cores, so seconds say little."
            write(
                "engine",
                "backfill",
                "Memory of the driver in a backfill",
                __doc__ or "",
                about,
                table(HEADS, lines),
            )
    return found


def _measured(folder: Path, rows: int, devices: int) -> list[list[Any]]:
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    for first in range(0, rows, PIECE):
        number = np.arange(first, min(first + PIECE, rows))
        columns = {
            "ts": T0 + number // devices,
            "device": np.char.add("device-", (number % devices).astype(str)),
            "temp": np.round(np.random.default_rng(first).normal(20, 5, len(number)), 2),
        }
        pacsv.write_csv(pa.table(columns), folder / "landing" / f"{first:09}.csv")
    settings, found, process = load_settings(folder / "tidemark.toml"), [], psutil.Process()
    spark = build_session(settings)
    for name, job in (("ingest", ingest.run), ("rollup", build_rollups.run)):
        held, before, started = process.memory_info().rss / 2**20, cpu_s(), time.perf_counter()
        with watched() as grown:
            job(settings, spark, "readings")
        java = sum(child.memory_info().rss for child in process.children() if child.name() == "java") / 2**20
        seconds = [round(time.perf_counter() - started, 1), round(cpu_s() - before, 1)]
        found.append([name, round(held + max(grown)), round(java), *seconds])
    end_session(spark)
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        print(json.dumps(_measured(Path(name), int(sys.argv[1]), int(sys.argv[2]))))
