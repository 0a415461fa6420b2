"""Cost of finding the next batch behind all those before, a day or two of a batch every ten seconds.

Ours reads the last manifest, a row of the control store. The peer lets Spark stream a folder with a file for each batch
to a function that does nothing: what is left is listing, and its own records of what it has passed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.ingest.sources.landed_content import digest
from lakehouse.ingest.sources.manifest import LandedFile, Manifest
from lakehouse.ingest.sources.manifest_rows import Known, ManifestRows
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import Settings
from lakehouse.spark.session import started_session
from lakehouse.storage.control.store import FILE
from lakehouse.storage.layout import Home, Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS, QUICK_COUNTS = (10, 8_640, 17_280), (10, 100)
FILES, TURNS, QUICK_TURNS = 10, 5, 1
BYTES, QUICK_BYTES = 256 * 1024 * 1024, 1024 * 1024
COLUMNS = ("ts", "device", "temp", "humidity")
FIRST = """
import sys, time
from pathlib import Path
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
folder = Path(sys.argv[1])
started = time.perf_counter()
ManifestStore(Home(folder.parent.parent).manifests(folder.name))
print(time.perf_counter() - started)
"""


def figures(quick: bool) -> dict[str, Any]:
    """Return, by how many batches there were, seconds: ours in a new process, ours in a service, and the peer.

    With the bytes on disk. And what the digest of a new file costs.
    """
    found: dict[str, Any] = {}
    for count in QUICK_COUNTS if quick else COUNTS:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            folder = Path(name) / "manifests" / "readings"
            folder.mkdir(parents=True)
            for batch in range(1, count + 1):
                _write(folder, batch)
            spark = started_session(Settings(home=Path(name)))
            turns = QUICK_TURNS if quick else TURNS
            found |= _told(folder, count, turns)
            streamed = _streamed(spark, folder, Path(name) / "checkpoint", count, turns)
            found[f"stream_s_at_{count}"] = round(streamed, 3)
    return found | {"digest_cpu_s_per_gb": _digest_s(QUICK_BYTES if quick else BYTES)}


def _digest_s(size: int) -> float:
    """Return the processor time that the digest of a new file takes, by the gigabyte."""
    with tempfile.NamedTemporaryFile(prefix="tidemark-bench-") as file:
        file.write(os.urandom(size))
        file.flush()
        started = time.process_time()
        digest(file.name)
        return round((time.process_time() - started) * 1e9 / size, 2)


def _told(folder: Path, count: int, turns: int) -> dict[str, float]:
    disk = (folder.parent.parent / FILE).stat().st_size
    first = subprocess.run([sys.executable, "-c", FIRST, str(folder)], check=True, capture_output=True)
    return {
        f"first_s_at_{count}": round(float(first.stdout), 3),
        f"next_s_at_{count}": round(_ours(folder, count, turns), 3),
        f"mb_at_{count}": round(disk / 1e6, 1),
    }


def _write(folder: Path, batch: int) -> None:
    files = tuple(
        LandedFile(f"/data/{batch:06d}-{part}.csv", 12_345, 0, COLUMNS, None, dict.fromkeys(COLUMNS, "text"))
        for part in range(FILES)
    )
    manifest = Manifest(batch, "files", files)
    (folder / f"{batch:08d}.json").write_text(json.dumps(asdict(manifest)))
    ManifestRows(_part(folder)).add(manifest, Known().after(manifest))


def _part(folder: Path) -> Part:
    return Home(folder.parent.parent).manifests(folder.name)


def _ours(folder: Path, last: int, turns: int) -> float:
    ManifestStore(_part(folder))
    taken = []
    for turn in range(1, turns + 1):
        _write(folder, last + turn)
        started = time.perf_counter()
        assert ManifestStore(_part(folder)).last_batch == last + turn
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _streamed(spark: SparkSession, folder: Path, checkpoint: Path, count: int, turns: int) -> float:
    """Let a stream pass all there are, then time it on one more at a time."""
    _drain(spark, folder, checkpoint, 1_000_000)
    taken = []
    for turn in range(turns + 1, 2 * turns + 1):
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
