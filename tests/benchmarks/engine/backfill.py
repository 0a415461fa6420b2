"""A backfill of many rows as one batch: what the driver's process holds at most, whatever the rows and keys.

Rows of a stream with an identity, rolled up by device: a million, ten million and a hundred million rows, of a thousand
devices and of a million, in files of a million. Each in a process of its own, on Spark's runner: ingest, then the
rollup. Megabytes that the job's Python process has before the first step and at most in each, and that its JVM has at
most; seconds of processors of all. A hundred million rows take 12 GB of disk.
``--quick``: 20,000 rows. ``python -m tests.benchmarks.engine.backfill ROWS DEVICES`` measures one size.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from tests.benchmarks.parts import cpu_s, sampling

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
THOUSAND, MILLION = 1_000, 1_000_000
SIZES, QUICK_SIZES = (
    (
        (MILLION, THOUSAND),
        (MILLION, MILLION),
        (10 * MILLION, THOUSAND),
        (10 * MILLION, MILLION),
        (100 * MILLION, MILLION),
    ),
    ((20 * THOUSAND, THOUSAND),),
)
HEADS = ("rows", "devices", "step", "before MB", "driver MB", "JVM MB", "seconds", "CPU s")


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of each size; a full run writes them to a page."""
    found: dict[str, Any] = {}
    for rows, devices in QUICK_SIZES if quick else SIZES:
        found[f"{rows}_of_{devices}"] = measured(rows, devices)
        if not quick:
            lines = [[*map(int, key.split("_of_")), *step] for key, steps in found.items() for step in steps]
            about = "Other work ran on the same two cores, so seconds say little."
            title = "Memory of the driver in a backfill"
            write("engine", "backfill", title, __doc__ or "", about, table(HEADS, lines))
    return found


def measured(rows: int, devices: int) -> list[list[Any]]:
    """Return the figures of each step of a size, in a process of its own."""
    environment = os.environ | {"TIDEMARK_ENGINE__RUNNER": "spark"}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        _land(Path(folder), rows, devices)
        called = [sys.executable, "-m", __spec__.name, folder]
        printed = subprocess.run(
            called, check=True, env=environment, stdout=subprocess.PIPE, text=True
        ).stdout
    found: list[list[Any]] = json.loads(printed.splitlines()[-1])
    return found


def _land(folder: Path, rows: int, devices: int) -> None:
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    names = pa.array(np.char.add("device-", np.arange(devices).astype(str)))
    for first in range(0, rows, PIECE):
        number = np.arange(first, min(first + PIECE, rows))
        columns = {
            "ts": T0 + number // devices,
            "device": names.take(pa.array(number % devices)),
            "temp": np.round(np.random.default_rng(first).normal(20, 5, len(number)), 2),
        }
        pacsv.write_csv(pa.table(columns), folder / "landing" / f"{first:09}.csv")


def _measured(folder: Path) -> list[list[Any]]:
    settings, found = load_settings(folder / "tidemark.toml"), []
    spark = build_session(settings)
    before_mb = round(psutil.Process().memory_info().rss / 2**20)
    for name, job in (("ingest", ingest.run), ("rollup", build_rollups.run)):
        before, started = cpu_s(), time.perf_counter()
        with _watched() as most:
            job(settings, spark, "readings")
        seconds = [round(time.perf_counter() - started, 1), round(cpu_s() - before, 1)]
        found.append([name, before_mb, round(most["python"]), round(most["java"]), *seconds])
    end_session(spark)
    return found


@contextmanager
def _watched() -> Iterator[dict[str, float]]:
    """Yield the megabytes that this process and its JVM hold at most, measured every few milliseconds."""
    own, most = psutil.Process(), {"python": 0.0, "java": 0.0}

    def look() -> None:
        held = [("python", own), *(("java", child) for child in own.children())]
        for name, process in held:
            with suppress(psutil.Error):
                if process is own or process.name() == "java":
                    most[name] = max(most[name], process.memory_info().rss / 2**20)

    with sampling(look, 0.02):
        yield most


if __name__ == "__main__":
    print(
        json.dumps(_measured(Path(sys.argv[1])) if len(sys.argv) == 2 else measured(*map(int, sys.argv[1:])))
    )
