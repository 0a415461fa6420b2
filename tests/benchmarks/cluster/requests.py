"""Requests of a batch to an object store that has landed files, tables and versions, and the cost of a day.

Counted in the log of moto's server. A day has a batch each minute; large uploads are one request more for each part.
Prices are those that Amazon publishes for S3 Standard in us-east-1: storage and traffic are in none of them.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs import build_rollups, ingest, publish
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from lakehouse.storage.stores.store_path import StorePath
from tests.benchmarks.cluster.model import EVERY_S
from tests.end_to_end.test_tables_on_store import begin, land
from tests.support.stores.s3 import BUCKET, S3, named

# Dollars for 1,000 requests: those that write or list, and all others. Deletions are free.
WRITE_USD, READ_USD = 0.005, 0.0004
# What the model sends a day, raw rows, nodes and published nodes, and the parts in which large files are written.
BYTES_A_DAY, PART_BYTES = (158 + 90 + 220) * 10**9, 10 * 10**6
_ASKED = re.compile(rb'"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP')
_BATCHES_A_DAY = 86_400 // EVERY_S


def figures(quick: bool) -> dict[str, Any]:
    """Return requests of each job for a batch, by kind, and what those of a day cost."""
    with named() as server, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        settings = _settings(Path(folder))
        counted = [_batch(settings, server, part) for part in range(4 if quick else 10)][2:]
    a_batch = {
        job: {kind: statistics.median(each[job][kind] for each in counted) for kind in ("writes", "reads")}
        for job in counted[0]
    }
    writes, reads = (sum(each[kind] for each in a_batch.values()) for kind in ("writes", "reads"))
    parts = BYTES_A_DAY / PART_BYTES
    usd = ((writes * _BATCHES_A_DAY + parts) * WRITE_USD + reads * _BATCHES_A_DAY * READ_USD) / 1000
    return {
        "a_batch": a_batch,
        "requests_a_day": round((writes + reads) * _BATCHES_A_DAY + parts),
        "parts_a_day": round(parts),
        "usd_a_day": round(usd, 2),
    }


def _settings(folder: Path) -> Settings:
    config = Path(str(begin(folder, f"s3://{BUCKET}/lake").config))
    config.write_text(config.read_text().replace("landing/*.csv", f"s3://{BUCKET}/landing/*.csv"))
    return load_settings(config)


def _batch(settings: Settings, server: S3, part: int) -> dict[str, Counter[str]]:
    """Land a file and process it; return the requests of each job."""
    folder = Path(str(settings.config)).parent / "landing"
    land(settings.model_copy(update={"streams": {"t": _landing_in(settings, folder)}}), part)
    (StorePath(f"s3://{BUCKET}/landing/{part:05}.csv")).write_new((folder / f"{part}.csv").read_bytes())
    spark = build_session(settings)
    jobs: dict[str, Callable[[], object]] = {
        "ingest": lambda: ingest.run(settings, spark, "t"),
        "rollup": lambda: build_rollups.run(settings, spark, "t"),
        "publish": lambda: publish.run(settings, spark, unchecked=True),
    }
    found = {}
    for name, job in jobs.items():
        before = _requests(server)
        job()
        found[name] = _requests(server) - before
    return found


def _landing_in(settings: Settings, folder: Path) -> Any:
    stream = settings.streams["t"]
    return stream.model_copy(
        update={"source": stream.source.model_copy(update={"path": f"{folder}/*.csv", "endpoint": None})}
    )


def _requests(server: S3) -> Counter[str]:
    """Return how many requests the server has answered, by what they cost."""
    return Counter(
        "deletions"
        if method == b"DELETE" or b"?delete" in path
        else "writes"
        if method in (b"PUT", b"POST") or b"list-type" in path
        else "reads"
        for method, path in _ASKED.findall((server.folder / "log").read_bytes())
    )
