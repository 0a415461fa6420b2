"""Cost of a batch of a thousand rows, job by job, when little or much has come before it.

    python -m tests.benchmarks.small_batch [--quick] [--json]

A thousand devices, each with a reading every ten seconds, one file of 1,012 rows a batch; 12 of them a minute late. The
``run`` functions of ``ingest``, ``build_rollups``, ``check_quality``, ``publish`` and ``maintain``, one after the other
in one warm session with the shipped settings. History: rows that came in before, a million a file, through the same
jobs: none, a million and ten millions of those devices, and 15 millions of 5,200 devices that tell once a minute, which
are 30 million published nodes; ``--quick``: none and 20,000. The stream has an identity, and all of its history is
within ``duplicates_within``. Seconds of the clock, medians of three batches after two that warm up; ``cpu``: seconds of
processors of all jobs together; ``nodes``: how many are published in the end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import build_rollups, check_quality, ingest, maintain, publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.history import PIECE, take_in
from tests.benchmarks.parts import cpu_s, run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEVICES, EVERY_S, LATE = 1000, 10, 12
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


@dataclass(frozen=True)
class History:
    """Rows that came before: of so many devices in turns, each with a reading every so many seconds."""

    rows: int
    devices: int = DEVICES
    every_s: int = EVERY_S

    @property
    def end_s(self) -> int:
        """Return when the next reading comes."""
        return T0 + -(-self.rows // self.devices) * self.every_s

    def pieces(self) -> Iterator[pa.Table]:
        """Yield the rows."""
        for first in range(0, self.rows, PIECE):
            number = np.arange(first, min(first + PIECE, self.rows))
            yield readings_of(T0 + number // self.devices * self.every_s, number % self.devices)


HISTORIES = (History(0), History(1_000_000), History(10_000_000), History(15_000_000, 5_200, 60))
QUICK_HISTORIES = (History(0), History(20_000))
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
            taken, nodes = _measured(Path(name), history, *((0, 1) if quick else (WARM_UP, BATCHES)))
        found |= {f"{job}_s_at_{history.rows}": seconds for job, seconds in taken.items()}
        found |= {f"nodes_at_{history.rows}": nodes}
    return found


def _measured(folder: Path, history: History, warm_up: int, batches: int) -> tuple[dict[str, float], int]:
    (folder / "tidemark.toml").write_text(CONFIG)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    spark = started_session(settings)
    take_in(settings, spark, "readings", history.pieces())
    if history.rows:
        _run(settings, spark)
    taken: dict[str, list[float]] = {}
    for batch in range(warm_up + batches):
        start = history.end_s + batch * EVERY_S
        times = np.concatenate([np.full(DEVICES, start), np.full(LATE, start - 60 + 1)])
        rows = readings_of(times, np.concatenate([np.arange(DEVICES), np.arange(LATE)]))
        pacsv.write_csv(rows, folder / "landing" / f"{batch}.csv")
        for job, seconds in _run(settings, spark).items():
            taken.setdefault(job, []).append(seconds)
    spark.stop()
    with open_published(settings.layout) as published:
        nodes = published.connection.execute("SELECT sum(nodes)::BIGINT FROM streams").fetchall()[0][0]
    return {job: round(statistics.median(seconds[warm_up:]), 2) for job, seconds in taken.items()}, nodes


def _run(settings: Settings, spark: SparkSession) -> dict[str, float]:
    """Run each job once; return their seconds, and those of processors."""
    found, before = {}, cpu_s()
    for name, job in JOBS.items():
        started = time.perf_counter()
        job(settings, spark)
        found[name] = time.perf_counter() - started
    return found | {"all": sum(found.values()), "cpu": cpu_s() - before}


def readings_of(times: npt.NDArray[np.int64], devices: npt.NDArray[np.int64]) -> pa.Table:
    """Return a reading of each device at its time."""
    temp = np.round(np.random.default_rng(int(times[0])).normal(20, 5, len(times)), 3)
    return pa.table({"ts": times, "device": np.char.add("device-", devices.astype(str)), "temp": temp})


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("small_batch",))
