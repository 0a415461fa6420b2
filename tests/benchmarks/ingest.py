"""Raw files to all rollup levels, beside the plain Spark job that writes the same rows and one group-by.

    python -m tests.benchmarks.ingest [--quick] [--json]

Both read the same CSV files, a day of devices that report every second, in the same session and into tables that
already hold the minute before; each is warmed up first on one device. ``--quick`` takes half an hour of two devices and
warms up nothing. Ratios are what count: the machine moves both. ``ask_ms`` is the whole process of ``tidemark ask``.
``demo_s`` is what ``make demo`` takes once all is installed: a full run makes it, a quick one reads what the last one
took. Only full runs have figures with identity.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs import build_rollups, ingest, publish
from lakehouse.declare.settings import Settings, load_settings
from lakehouse.spark.session import build_session
from tests.benchmarks.parts import run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = """
home = "var"
[spark]
driver_memory = "4g"
java_options = ""
[streams.readings]
event_time = {{ column = "ts", unit = "us" }}
{identity}
keys = ["device"]
measures = ["temp", "humidity"]
groupings = [["device"], []]
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*.csv"
format = "csv"
settle = 0
[streams.readings.columns]
ts = "int"
device = "string"
temp = "double"
humidity = "double"
"""
SCHEMA = "ts bigint, device string, temp double, humidity double"
T0 = 1_600_000_000_000_000
DAY_S, QUICK_S = 86_400, 1800
FILES = 8


def write_files(folder: Path, devices: int, seconds: int = DAY_S) -> None:
    """Write CSV files of devices that report every second: a day or less, and the minute before it.

    The minute before is what tables already hold when the day comes: its file is in ``landing``, the others in ``day``.
    """
    _write(folder / "landing" / "before.csv", T0 - 60_000_000, 60, devices)
    each_s = seconds // FILES
    for part in range(FILES):
        _write(folder / "day" / f"{part}.csv", T0 + part * each_s * 1_000_000, each_s, devices)


def _write(path: Path, start_us: int, seconds: int, devices: int) -> None:
    import pyarrow as pa
    import pyarrow.csv as pacsv

    random = np.random.default_rng(start_us)
    count = seconds * devices
    columns = {
        "ts": start_us + np.arange(count) * 1_000_000 // devices,
        "device": np.char.add("device-", (np.arange(count) % devices).astype(str)),
        "temp": np.round(random.normal(20, 5, count), 3),
        "humidity": np.round(random.normal(50, 9, count), 2),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    pacsv.write_csv(pa.table(columns), path)


def land_the_day(folder: Path) -> None:
    """Put the day's files where both jobs look for them."""
    for file in (folder / "day").iterdir():
        os.link(file, folder / "landing" / file.name)


def back_to_before(folder: Path) -> None:
    """Take the day's files out again."""
    for file in (folder / "day").iterdir():
        (folder / "landing" / file.name).unlink(missing_ok=True)


def ours(spark: SparkSession, folder: Path, identity: str) -> float:
    """Seconds from the day's files to every rollup level, into tables that hold what came before."""
    settings = configured(folder, identity)
    shutil.rmtree(settings.home, ignore_errors=True)
    back_to_before(folder)
    for day in (False, True):
        if day:
            land_the_day(folder)
        started = time.perf_counter()
        ingest.run(settings, spark, "readings")
        build_rollups.run(settings, spark, "readings")
    return time.perf_counter() - started


def plain(spark: SparkSession, folder: Path) -> float:
    """Seconds of the job one would write by hand: files to a Delta table, then one group-by by minute."""
    target = folder / "plain"
    shutil.rmtree(target, ignore_errors=True)
    back_to_before(folder)
    for day in (False, True):
        if day:
            land_the_day(folder)
        started = time.perf_counter()
        _plain_job(spark, folder / "landing", target, T0 if day else T0 - 60_000_000)
    return time.perf_counter() - started


def _plain_job(spark: SparkSession, landing: Path, target: Path, from_us: int) -> None:
    stream = spark.readStream.schema(SCHEMA).option("header", "true").csv(str(landing))
    writer = stream.writeStream.format("delta").option("checkpointLocation", str(target / "checkpoint"))
    writer.trigger(availableNow=True).start(str(target / "raw")).awaitTermination()
    raw = spark.read.format("delta").load(str(target / "raw")).where(f"ts >= {from_us}")
    minutes = raw.selectExpr("*", "ts - ts % 60000000 as start_us").groupBy("device", "start_us")
    totals = ("count", "sum", "min", "max")
    rollup = minutes.agg(*(_total(total, name) for name in ("temp", "humidity") for total in totals))
    rollup.write.format("delta").mode("append").save(str(target / "rollup"))


def _total(total: str, measure: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(f"{total}({measure})").alias(f"{measure}_{total}")


def configured(folder: Path, identity: str = "") -> Settings:
    """Return the settings of the benchmark's stream."""
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format(identity=identity))
    return load_settings(config)


def ask_ms(settings: Settings, times: int = 5) -> float:
    """Milliseconds of a whole ``tidemark ask`` process, median."""
    command = [sys.executable, "-m", "lakehouse.cli", "--home", str(settings.home), "ask", "readings", "temp"]
    command += ["--agg", "sum", "--from", "2020-09-13T12:27:30", "--to", "2020-09-13T12:40:15", "--json"]
    taken = []
    for _ in range(times + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken[1:])


def demo_seconds(run_it: bool) -> float | None:
    """Seconds of `make demo` with everything installed: run now, or what the last one in this checkout took."""
    root = Path(__file__).parents[2]
    if run_it:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMARK_")}
        subprocess.run(
            [root / "infra" / "demo.sh"], check=True, capture_output=True, cwd=root, env=environment
        )
    taken = root / "demo" / "seconds"
    return float(taken.read_text()) if taken.is_file() else None


def figures(quick: bool) -> dict[str, float | None]:
    """Return every figure, medians over rounds in which all ways take turns."""
    devices, seconds, rounds = (2, QUICK_S, 1) if quick else (48, DAY_S, 3)
    with compared(devices, seconds, rounds, with_identity=not quick) as (settings, spark, found):
        publish.run(settings, spark, unchecked=True)
        asked = ask_ms(settings, 1 if quick else 5)
    return found | {"ask_ms": round(asked, 1), "demo_s": demo_seconds(run_it=not quick)}


@contextmanager
def compared(
    devices: int, day_s: int, rounds: int, with_identity: bool
) -> Iterator[tuple[Settings, SparkSession, dict[str, float | None]]]:
    """Time all ways; give the tables of the last one, while they last, and the figures."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        write_files(folder / "full", devices, day_s)
        spark = build_session(configured(folder / "full"))
        identity = 'identity = ["device", "ts"]'
        ways: dict[str, Callable[[Path], float]] = {
            "plain": lambda where: plain(spark, where),
            "ours": lambda where: ours(spark, where, ""),
            "ours_with_identity": lambda where: ours(spark, where, identity),
        }
        if not with_identity:
            del ways["ours_with_identity"]
        if day_s == DAY_S:
            write_files(folder / "warm", 1)
            for way in ways.values():
                way(folder / "warm")
        taken: dict[str, list[float]] = {key: [] for key in ways}
        for _ in range(rounds):
            for key, way in ways.items():
                taken[key].append(way(folder / "full"))
        seconds = {key: statistics.median(values) for key, values in taken.items()}
        settings = configured(folder / "full", identity if with_identity else "")
        yield settings, spark, rates(devices * day_s, seconds)
        spark.stop()


def rates(rows: int, seconds: dict[str, float]) -> dict[str, float | None]:
    """Rates and ratios of what was measured."""
    found: dict[str, float | None] = {
        "rows": rows,
        "plain_rows_per_s": round(rows / seconds["plain"]),
        "rows_per_s": round(rows / seconds["ours"]),
        "ratio_to_plain_spark": round(seconds["ours"] / seconds["plain"], 2),
    }
    if with_identity := seconds.get("ours_with_identity"):
        found["rows_per_s_with_identity"] = round(rows / with_identity)
        found["ratio_with_identity"] = round(with_identity / seconds["plain"], 2)
    return found


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("ingest",))
