"""Do tables stay small and jobs fast however many batches come? Hourly batches through the real jobs.

    python -m tests.benchmarks.maintenance [--quick] [--json]

A batch is a small file with readings of one event-time hour. After each one, all tables age by an hour (the times of
their files are set back), so that 500 batches are three weeks for everything that looks at a clock: vacuum, the
retention of the log, old versions. Every 10 batches ``maintain`` and ``publish`` run. Bounded means: the most files and
log entries of any table in the last third of the run are no more than a tenth above those of the third before.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.catalog.settings import Settings, load_settings
from lakehouse.catalog.table_log import read_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR = 3600
T0 = 1_600_000_000
CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
duplicates_within = "1h"
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m for 2h", "1h for 2d", "1d forever"]
keep_raw = "2d"
[streams.readings.source]
path = "landing/*"
format = "ndjson"
settle = 0
[streams.readings.columns]
device = "string"
ts = "int"
temp = "double"
"""


def land(folder: Path, batch: int) -> None:
    """Write the readings of one hour, one of them late by two days and one of them malformed."""
    seconds = [*range(0, HOUR, 30), -48 * HOUR + 7]
    lines = [
        json.dumps({"ts": T0 + batch * HOUR + second, "device": f"d{second % 7}", "temp": second % 100 / 10})
        for second in seconds
    ]
    (folder / "landing" / f"{batch:06d}.ndjson").write_text("\n".join([*lines, "{"]) + "\n")


def age(home: Path) -> None:
    """Set all files of all tables back by an hour."""
    for folder in ("raw", "quarantine", "ledger", "rollup", "corrections"):
        for path in (home / folder).rglob("*"):
            if path.is_file():
                then = path.stat().st_mtime - HOUR
                os.utime(path, (then, then))


def table_sizes(settings: Settings) -> dict[str, dict[str, int]]:
    """Return files in use, files on disk and log entries of each table."""
    layout, found = settings.layout, {}
    for name in ("raw", "quarantine", "ledger", "rollup", "corrections"):
        table = getattr(layout, name)("readings")
        log = read_log(table)
        if log is not None:
            on_disk = sum(1 for _ in table.glob("*.parquet"))
            found[name] = {"files": len(log.files), "on_disk": on_disk, "log_entries": log.log_entries}
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long work took, and what it gave."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def measure(batches: int, every: int, told: Callable[[str], None]) -> list[dict[str, Any]]:
    """Run batches; return one sample per maintenance, which comes ``every`` so many batches."""
    from lakehouse.spark.session import build_session

    samples = []
    with tempfile.TemporaryDirectory(prefix="tidemark-maintenance-") as scratch:
        folder = Path(scratch)
        (folder / "landing").mkdir()
        (folder / "tidemark.toml").write_text(CONFIG)
        settings = load_settings(folder / "tidemark.toml")
        spark = build_session(settings)
        spent = 0.0
        for batch in range(1, batches + 1):
            land(folder, batch)
            spent += timed(lambda: ingest.run(settings, spark, "readings"))[0]
            spent += timed(lambda: build_rollups.run(settings, spark, "readings"))[0]
            age(settings.home)
            if batch % every == 0:
                samples.append(_sample(settings, spark, batch, spent / every))
                spent = 0.0
                told(json.dumps(samples[-1]))
        spark.stop()
    return samples


def _sample(settings: Settings, spark: SparkSession, batch: int, batch_s: float) -> dict[str, Any]:
    maintain_s, _ = timed(lambda: maintain.run(settings, spark, "readings"))
    publish_s, done = timed(lambda: publish.run(settings, spark, unchecked=True))
    raw = read_log(settings.layout.raw("readings"))
    seconds = {"batch_s": batch_s, "maintain_s": maintain_s, "publish_s": publish_s}
    return {
        "batch": batch,
        **{name: round(value, 2) for name, value in seconds.items()},
        "nodes": done["nodes"],
        "raw_rows": raw.rows if raw else 0,
        "tables": table_sizes(settings),
    }


def figures(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Return first and last times, most files and entries, and whether these are bounded."""
    third = max(1, len(samples) // 3)
    before, last = samples[-2 * third : -third] or samples[:1], samples[-third:]
    found: dict[str, Any] = {"batches": samples[-1]["batch"]}
    for name in ("batch_s", "maintain_s", "publish_s", "nodes", "raw_rows"):
        found |= {f"{name}_first": samples[0][name], f"{name}_last": samples[-1][name]}
    for what in ("files", "on_disk", "log_entries"):
        found[f"{what}_most"] = most(samples, what)
        found[f"{what}_bounded"] = most(last, what) <= 1.1 * most(before, what)
    return found


def most(samples: list[dict[str, Any]], what: str) -> int:
    """Return the largest count of any table."""
    return max(int(table[what]) for sample in samples for table in sample["tables"].values())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 batches instead of 500")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args()
    batches, every = (2, 1) if asked.quick else (500, 10)
    samples = measure(batches, every, lambda line: print(line, file=sys.stderr, flush=True))
    found = figures(samples)
    if asked.json:
        print(json.dumps(found))
    else:
        print("\n".join(f"{name:22} {value!s:>12}" for name, value in found.items()))


if __name__ == "__main__":
    main()
