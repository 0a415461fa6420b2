"""What it costs to find the next batch behind all those before, a day or two of a batch every ten seconds.

Ours reads every manifest once a process, and each new one after that. The peer lets Spark stream the folder of
manifests to a function that does nothing: what is left is listing, and its own records of what it has passed.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.catalog.settings import Settings
from lakehouse.spark.session import build_session
from lakehouse.spark.sources.landing import Landing
from lakehouse.spark.sources.manifest import LandedFile, Manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS, QUICK_COUNTS = (10, 8_640, 17_280), (10, 1_000)
FILES, TURNS = 10, 5
COLUMNS = ("ts", "device", "temp", "humidity")
FIRST = """
import sys, time
from pathlib import Path
from lakehouse.spark.sources.landing import Landing
started = time.perf_counter()
Landing(Path(sys.argv[1]))
print(time.perf_counter() - started)
"""


def figures(quick: bool) -> dict[str, Any]:
    """Return, by how many batches there were, seconds: ours in a new process, ours in a service, and the peer."""
    found: dict[str, Any] = {}
    for count in QUICK_COUNTS if quick else COUNTS:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            folder = Path(name) / "landing"
            folder.mkdir()
            for batch in range(1, count + 1):
                _write(folder, batch)
            first = subprocess.run(
                [sys.executable, "-c", FIRST, str(folder)], check=True, capture_output=True
            )
            spark = build_session(Settings(home=Path(name)))
            found |= {
                f"first_s_at_{count}": round(float(first.stdout), 3),
                f"next_s_at_{count}": round(_ours(folder, count), 3),
                f"stream_s_at_{count}": round(_streamed(spark, folder, Path(name) / "checkpoint", count), 3),
            }
    return found


def _write(folder: Path, batch: int) -> None:
    files = tuple(
        LandedFile(f"/data/{batch:06d}-{part}.csv", 12_345, 0, COLUMNS, None, dict.fromkeys(COLUMNS, "text"))
        for part in range(FILES)
    )
    (folder / f"{batch:08d}.json").write_text(Manifest(batch, "files", files).to_json())


def _ours(folder: Path, count: int) -> float:
    Landing(folder)
    taken = []
    for turn in range(1, TURNS + 1):
        _write(folder, count + turn)
        started = time.perf_counter()
        assert Landing(folder).last_batch == count + turn
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _streamed(spark: SparkSession, folder: Path, checkpoint: Path, count: int) -> float:
    """Let a stream pass all there are, then time it on one more at a time."""
    _drain(spark, folder, checkpoint, 1_000_000)
    taken = []
    for turn in range(TURNS + 1, 2 * TURNS + 1):
        _write(folder, count + turn)
        started = time.perf_counter()
        _drain(spark, folder, checkpoint, 1)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _drain(spark: SparkSession, folder: Path, checkpoint: Path, files_per_trigger: int) -> None:
    source = (
        spark.readStream.format("text")
        .option("wholetext", True)
        .option("maxFilesPerTrigger", files_per_trigger)
    )
    query = source.load(str(folder)).writeStream.foreachBatch(lambda rows, _: None)
    query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
