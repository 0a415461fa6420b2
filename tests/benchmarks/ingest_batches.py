"""Cost of one ingest batch by its size, on each runner: seconds, processor seconds and Spark's jobs.

    python -m tests.benchmarks.ingest_batches [--quick] [--json]

JSON lines of fifty devices, one file a batch, with and without an identity, in one warm process: the median of three
batches after one that warms up; of a million rows, one batch. *cpu*: of the process and all that it started. *peak_mb*:
the most memory that the driver's process has had by then; Spark's JVM is another one. ``--quick``: 100 and 1,000 rows.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jobs import ingest
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import LazySession, started_session
from tests.benchmarks.parts import cpu_s, run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_600_000_000
SIZES, QUICK_SIZES, LARGE = (1_000, 10_000, 1_000_000), (100, 1_000), 1_000_000
CONFIG = """
home = "{home}"
engine = {{ runner = "{runner}" }}
[streams.readings]
event_time = {{ column = "ts", unit = "s" }}
{identity}
keys = ["device"]
measures = ["temp"]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "{home}-landing/*.ndjson"
format = "ndjson"
settle = 0
[streams.readings.columns]
ts = "int"
device = "string"
temp = "double"
"""
IDENTITIES = {"": "", "_with_identity": 'identity = ["device", "ts"]\nduplicates_within = "2d"'}


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of each runner, identity and size."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        first = Path(name) / "tidemark.toml"
        first.write_text(CONFIG.format(home="none", runner="spark", identity=""))
        spark = started_session(load_settings(first))
        # The driver of tasks first, as memory that was used stays.
        for runner in ("spark", "local"):
            for suffix, identity in IDENTITIES.items():
                config = Path(name) / f"{runner}{suffix}.toml"
                config.write_text(CONFIG.format(home=f"{runner}{suffix}", runner=runner, identity=identity))
                settings = load_settings(config)
                session = cast("SparkSession", LazySession(settings)) if runner == "local" else spark
                for key, value in _measured(settings, session, QUICK_SIZES if quick else SIZES).items():
                    found[f"{runner}{suffix}_{key}"] = value
        spark.stop()
    return found


def _measured(settings: Settings, spark: SparkSession, sizes: tuple[int, ...]) -> dict[str, Any]:
    landing = Path(settings.streams["readings"].source.path).parent
    landing.mkdir()
    found, start = dict[str, Any](), 0
    for size in sizes:
        rounds = []
        for number in range(1 if size == LARGE else 4):
            _write(landing / f"{size}-{number}.ndjson", start, size)
            start += size
            rounds.append(_batch(settings, spark))
        seconds, cpu, jobs = (statistics.median(each) for each in zip(*rounds[-3:], strict=True))
        found |= {f"s_at_{size}": round(seconds, 3), f"cpu_s_at_{size}": round(cpu, 3)}
        found |= {f"jobs_at_{size}": jobs, f"peak_mb_at_{size}": _peak_mb()}
    return found


def _write(path: Path, start: int, size: int) -> None:
    """Write rows, some at a time."""
    with path.open("w") as file:
        for n in range(start, start + size):
            file.write(f'{{"ts": {T0 + n}, "device": "d{n % 50}", "temp": {20 + n % 7 / 10}}}\n')


def _batch(settings: Settings, spark: SparkSession) -> tuple[float, float, int]:
    jobs, cpu, started = _jobs(spark), cpu_s(), time.perf_counter()
    ingest.run(settings, spark, "readings")
    return time.perf_counter() - started, cpu_s() - cpu, _jobs(spark) - jobs


def _jobs(spark: SparkSession) -> int:
    """Return how many jobs Spark has run."""
    if isinstance(spark, LazySession):
        return 0
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1) + 1


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("ingest_batches",))
