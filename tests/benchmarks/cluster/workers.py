"""The same rows on one, two and four workers of one core: seconds, and bytes that come to the driver.

Ingest without and with an identity, which sends the driver what the verdict on repeats needs, and a rollup. On a
machine of two cores four workers cannot be faster than two, and the driver has one of them. What counts is that the
bytes to the driver do not grow with workers.
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

from infra.loopback_cluster import loopback_cluster
from jobs import build_rollups, ingest
from lakehouse.settings import load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.cluster.steps import CONFIG, ROOT, land
from tests.support.shuffle_metrics import Meter

WORKERS = (1, 2, 4)
KEYS, QUICK_KEYS, FILES, MINUTES = 1_000, 10, 8, 125


def figures(quick: bool) -> dict[str, Any]:
    """Return, by number of workers, seconds of each job and bytes to the driver for each row, behind a warm-up."""
    keys = QUICK_KEYS if quick else KEYS
    found: dict[str, Any] = {"rows": FILES * MINUTES * keys}
    for workers in WORKERS:
        with (
            tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
            loopback_cluster(Path(folder) / "cluster", workers) as cluster,
        ):
            command = [sys.executable, "-m", __spec__.name, folder, str(keys)]
            environment = {**os.environ, **cluster.environment}
            ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
        found[f"workers_{workers}"] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main(folder: Path, keys: int) -> None:
    """Run the jobs once over a file of its own, then measure them over the others."""
    (folder / "landing").mkdir()
    repeated = CONFIG.format().partition("[streams.readings]")[2]
    (folder / "tidemark.toml").write_text(
        f'{CONFIG.format()}\n[streams.unique]\nidentity = ["device", "ts"]{repeated}'
    )
    settings = load_settings(folder / "tidemark.toml")
    spark, told = started_session(settings), dict[str, float]()
    jobs = (
        ("ingest", ingest, "readings"),
        ("ingest_identity", ingest, "unique"),
        ("rollup", build_rollups, "readings"),
    )
    for number in range(FILES + 1):
        land(folder / "landing" / f"{number}.csv", keys, MINUTES, 60 * MINUTES * number)
        if number == 0:
            for _, job, stream in jobs:
                job.run(settings, spark, stream)
    for name, job, stream in jobs:
        meter, started = Meter(spark), time.perf_counter()
        job.run(settings, spark, stream)
        told[f"{name}_s"] = round(time.perf_counter() - started, 1)
        told[f"{name}_driver_bytes_a_row"] = round(meter.read().collected / (FILES * MINUTES * keys), 2)
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
