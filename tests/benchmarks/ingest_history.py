"""A small batch of a stream with an identity, as history grows: 1,000 rows after up to ten million within reach.

    python -m tests.benchmarks.ingest_history [--quick] [--json]

The stream of ``tests.benchmarks.ingest`` with an identity; all rows are within ``duplicates_within`` of each other.
A batch holds 950 new rows, 40 copies of rows from all of history and 10 that contradict one. ``seconds``, ``cpu_s``
(of Python and the JVM) and ``jobs`` of Spark are medians over some batches; ``clean_s`` is that of batches without any
repeat. ``join_s`` is one batch's part of what ingest did before it had an index: identities of the batch and of all
rows in reach, hashed, grouped, and those joined that occur twice. ``reindex_s`` is a batch that finds no index.
``--quick``: after ten thousand alone.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs import ingest
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.spark.session import started_session
from tests.benchmarks import page
from tests.benchmarks.ingest import T0, configured
from tests.benchmarks.parts import cpu_s, run_parts
from tests.benchmarks.stopwatch import jobs_since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEVICES = 100
IDENTITY = 'identity = ["device", "ts"]'
SIZES, QUICK_SIZES = (0, 100_000, 1_000_000, 10_000_000), (10_000,)
FILE_ROWS = 1_000_000
NEW, COPIES, CONFLICTS = 950, 40, 10
ROUNDS = 5
FIGURES = ("seconds", "cpu_s", "jobs", "clean_s", "join_s", "reindex_s")


def figures(quick: bool) -> dict[str, Any]:
    """Return by rows of history what a batch took."""
    found: dict[str, Any] = {}
    for size in QUICK_SIZES if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            settings = configured(Path(name), IDENTITY)
            spark = started_session(settings)
            found[str(size)] = _measured(
                spark, settings, Path(name) / "landing", size, 1 if quick else ROUNDS
            )
    spark.stop()
    if not quick:
        heads = ["rows of history", *FIGURES]
        rows = [[int(size), *(each[name] for name in FIGURES)] for size, each in found.items()]
        title = "A small batch as history grows"
        page.write("ingest_history", "ingest_history", title, __doc__ or "", page.table(heads, rows))
    return {"history": found}


def _measured(
    spark: SparkSession, settings: Settings, landing: Path, size: int, rounds: int
) -> dict[str, Any]:
    landing.mkdir()
    for part, start in enumerate(range(0, size, FILE_ROWS)):
        _write(landing / f"a{part:03}.csv", np.arange(start, min(size, start + FILE_ROWS)))
    if size:
        ingest.run(settings, spark, "readings")

    def timed(place: int, repeats: bool) -> dict[str, float]:
        _write_batch(landing / f"b{place:03}.csv", size, place, repeats)
        return _timed(spark, lambda: ingest.run(settings, spark, "readings"))

    timed(0, True)
    dirty = [timed(1 + n, True) for n in range(rounds)]
    clean = [timed(1 + rounds + n, False) for n in range(rounds)]
    shutil.rmtree(settings.layout.identities("readings"))
    found = {name: statistics.median(each[name] for each in dirty) for name in ("seconds", "cpu_s", "jobs")}
    found["clean_s"] = statistics.median(each["seconds"] for each in clean)
    found["reindex_s"] = timed(1 + 2 * rounds, False)["seconds"]
    _join(spark, settings)
    found["join_s"] = _timed(spark, lambda: _join(spark, settings))["seconds"]
    return {name: round(value, 2) for name, value in found.items()}


def _timed(spark: SparkSession, run: Callable[[], object]) -> dict[str, float]:
    jobs = len(jobs_since(spark, 0))
    cpu, started = cpu_s(), time.perf_counter()
    run()
    taken = time.perf_counter() - started
    # Spark notes the last job's end a little later.
    time.sleep(0.2)
    return {
        "seconds": taken,
        "cpu_s": cpu_s() - cpu,
        "jobs": len(jobs_since(spark, 0)) - jobs,
    }


def _join(spark: SparkSession, settings: Settings) -> int:
    """Return how many rows of the last batch or of raw have an identity that occurs twice, by reading all."""
    from pyspark.sql import functions as F

    raw = tables.read(spark, settings.layout.raw("readings"))
    last = raw.agg(F.max("batch")).collect()[0][0]
    hashed = raw.select(F.xxhash64("device", "ts").alias("id"), (F.col("batch") < last).alias("known"))
    again = hashed.unionByName(hashed.where(~F.col("known")))
    repeated = again.groupBy("id").agg(F.count("*").alias("times"), F.min("known").alias("known"))
    return again.join(repeated.where("times > 1 and not known"), "id", "left_semi").count()


def _write_batch(path: Path, size: int, place: int, repeats: bool) -> None:
    """Write a batch that goes on where the one before it ended; with repeats some are of rows from all of history."""
    count = NEW + (0 if repeats else COPIES + CONFLICTS)
    numbers = np.arange(count) + size + place * (NEW + COPIES + CONFLICTS)
    again = np.random.default_rng(place).integers(0, max(1, size), COPIES + CONFLICTS if repeats else 0)
    _write(path, np.concatenate([numbers, again]), len(again) and CONFLICTS)


def _write(path: Path, numbers: np.ndarray[Any, Any], contradicted: int = 0) -> None:
    """Write rows by their number, the last ones with another content: ten thousand rows a second."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    temp = np.round(20 + np.sin(numbers), 3)
    temp[len(numbers) - contradicted :] += 1
    columns = {
        "ts": T0 + numbers * 100,
        "device": np.char.add("device-", (numbers % DEVICES).astype(str)),
        "temp": temp,
        "humidity": np.round(50 + np.cos(numbers), 2),
    }
    pacsv.write_csv(pa.table(columns), path)


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("ingest_history",))
