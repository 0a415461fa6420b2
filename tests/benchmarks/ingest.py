"""Raw files to all rollup levels, beside the plain Spark job that writes the same rows and one group-by.

    python -m tests.benchmarks.ingest [--quick] [--json]

Sets of files. *A day*: CSV of devices that report every second, in order, taken in without and with an identity, into
tables that hold the minute before. *Dirty*: a thousand devices in three groupings, rows of two hours in any order, so
that most are late; one line in a hundred is no record, one value in a hundred is missing. *Parquet*: the day as such
files. *Large*: four days, more than 128 MB, as one batch, whose rows are spilled to disk.

Ours and the plain job take turns in one session whose JVM compiles fully; each way is warmed up first. The plain job
reads the same files as one batch, writes a Delta table, and groups that by device and minute into another; it checks
nothing. ``ratio`` is of seconds, ``cpu_ratio`` of seconds of processors, in Python and the JVM: medians over rounds.
``--quick`` takes a few rows, once and without warming up, so its ratios say nothing. ``ask_ms`` is the whole process
of ``tidemark ask``; ``demo_s`` is what the last ``make demo`` in this checkout took.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import functions as F

from jobs import build_rollups, ingest, publish
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s, run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Numbers = npt.NDArray[np.int64]
# Seconds, and seconds of processors.
Taken = tuple[float, float]
CONFIG = """
home = "var"
[spark]
driver_memory = "4g"
java_options = ""
[streams.readings]
event_time = {{ column = "ts", unit = "us" }}
{identity}
keys = {keys}
measures = ["temp", "humidity"]
groupings = {groupings}
levels = ["1s for 1h", "1m for 2d", "1h for 1y", "1d forever"]
[streams.readings.source]
path = "landing/*.{format}"
format = "{format}"
settle = 0
batch_bytes = 1073741824
[streams.readings.columns]
ts = "int"
device = "string"
temp = "double"
humidity = "double"
{more}
"""
DAY = {"keys": '["device"]', "groupings": '[["device"], []]', "more": "", "format": "csv"}
DIRTY = {
    "keys": '["device", "site"]',
    "groupings": '[["device"], ["site"], []]',
    "more": 'site = "string"',
    "format": "csv",
}
PARQUET = DAY | {"format": "parquet"}
DECLARED = {"dirty": DIRTY, "parquet": PARQUET}
SCHEMA = "ts bigint, device string, temp double, humidity double"
T0 = 1_600_000_000_000_000
DAY_S, QUICK_S = 86_400, 1800
LARGE_DAYS = 4
FILES = 8
DIRTY_DEVICES, DIRTY_ROWS, QUICK_DIRTY_ROWS = 1000, 1_700_000, 20_000
ODD_SHARE = 0.01
IDENTITY = 'identity = ["device", "ts"]'


def write_files(folder: Path, devices: int, seconds: int = DAY_S) -> None:
    """Write files of devices that report every second: a day or another time, and the minute before it.

    The minute before is what tables already hold when the day comes: its file is in ``landing``, the others in ``day``.
    """
    kind = declared(folder)["format"]
    _write(folder / "landing" / f"before.{kind}", T0 - 60_000_000, 60, devices)
    each_s = seconds // FILES
    for part in range(FILES):
        _write(folder / "day" / f"{part}.{kind}", T0 + part * each_s * 1_000_000, each_s, devices)


def _write(path: Path, start_us: int, seconds: int, devices: int) -> None:
    count = seconds * devices
    times = start_us + np.arange(count) * 1_000_000 // devices
    _write_columns(path, _readings(times, np.arange(count) % devices, np.random.default_rng(start_us)))


def write_dirty_files(folder: Path, rows: int) -> None:
    """Write CSV files with rows of two hours in any order, some without a value, and lines that are no record."""
    import pyarrow as pa

    for file in range(FILES + 1):
        random = np.random.default_rng(file)
        count = rows // FILES if file else DIRTY_DEVICES
        times = T0 + random.integers(0, 7_200_000_000, count)
        columns = _readings(times, random.integers(0, DIRTY_DEVICES, count), random)
        columns["temp"] = pa.array(columns["temp"], mask=random.random(count) < ODD_SHARE)
        columns["site"] = np.char.add("site-", random.integers(0, 20, count).astype(str))
        path = folder / "day" / f"{file}.csv" if file else folder / "landing" / "before.csv"
        _write_columns(path, columns)
        lines = np.array(path.read_bytes().split(b"\n"), dtype=object)
        lines[1:-1][random.random(count) < ODD_SHARE] = b"?"
        path.write_bytes(b"\n".join(lines))


def _readings(times: Numbers, devices: Numbers, random: np.random.Generator) -> dict[str, Any]:
    return {
        "ts": times,
        "device": np.char.add("device-", devices.astype(str)),
        "temp": np.round(random.normal(20, 5, len(times)), 3),
        "humidity": np.round(random.normal(50, 9, len(times)), 2),
    }


def _write_columns(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    write = pq.write_table if path.suffix == ".parquet" else pacsv.write_csv
    write(pa.table(columns), path)


def land_the_day(folder: Path) -> None:
    """Put the day's files where both jobs look for them."""
    for file in (folder / "day").iterdir():
        os.link(file, folder / "landing" / file.name)


def back_to_before(folder: Path) -> None:
    """Take the day's files out again."""
    for file in (folder / "day").iterdir():
        (folder / "landing" / file.name).unlink(missing_ok=True)


def ours(spark: SparkSession, folder: Path, identity: str = "") -> Taken:
    """Return what it takes from the day's files to every rollup level, into tables that hold what came before."""
    settings = configured(folder, identity)
    shutil.rmtree(settings.home, ignore_errors=True)
    back_to_before(folder)

    def job() -> None:
        ingest.run(settings, spark, "readings")
        build_rollups.run(settings, spark, "readings")

    job()
    land_the_day(folder)
    return taken(job)


def plain(spark: SparkSession, folder: Path, _: str = "") -> Taken:
    """Return what the job takes that one would write by hand: files to a Delta table, then one group-by by minute."""
    target = folder / "plain"
    shutil.rmtree(target, ignore_errors=True)
    _plain_job(spark, folder / "landing" / f"before.{declared(folder)['format']}", target)
    return taken(lambda: _plain_job(spark, folder / "day", target))


def taken(job: Callable[[], None]) -> Taken:
    """Return the seconds of a job, and its seconds of processors."""
    started, before = time.perf_counter(), cpu_s()
    job()
    return time.perf_counter() - started, cpu_s() - before


def _plain_job(spark: SparkSession, files: Path, target: Path) -> None:
    told = declared(target.parent)
    schema = SCHEMA + ", site string" * bool(told["more"])
    reader = spark.read.schema(schema).option("header", "true")
    rows = reader.format(told["format"]).load(str(files))
    rows = rows.withColumn("batch", F.lit(int(files.is_dir())))
    rows.write.format("delta").mode("append").save(str(target / "raw"))
    raw = spark.read.format("delta").load(str(target / "raw")).where(F.col("batch") == int(files.is_dir()))
    minutes = raw.selectExpr("*", "ts - ts % 60000000 as start_us").groupBy("device", "start_us")
    totals = ("count", "sum", "min", "max")
    rollup = minutes.agg(*(_total(total, name) for name in ("temp", "humidity") for total in totals))
    rollup.write.format("delta").mode("append").save(str(target / "rollup"))


def _total(total: str, measure: str) -> Any:
    return F.expr(f"{total}({measure})").alias(f"{measure}_{total}")


def declared(folder: Path) -> dict[str, str]:
    """Return how the files of a folder are declared."""
    return DECLARED.get(folder.name, DAY)


def configured(folder: Path, identity: str = "") -> Settings:
    """Return the settings of the benchmark's stream."""
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format(identity=identity, **declared(folder)))
    return load_settings(config)


def ask_ms(settings: Settings, times: int = 5) -> float:
    """Milliseconds of a whole ``tidemark ask`` process, median."""
    command = [sys.executable, "-m", "lakehouse.cli", "--home", str(settings.home), "ask", "readings", "temp"]
    command += ["--agg", "sum", "--from", "2020-09-13T12:27:30", "--to", "2020-09-13T12:40:15", "--json"]
    milliseconds = []
    for _ in range(times + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        milliseconds.append((time.perf_counter() - started) * 1000)
    return statistics.median(milliseconds[1:])


def demo_seconds() -> float | None:
    """Return what the last `make demo` in this checkout took; None where there was none."""
    seconds = Path(__file__).parents[2] / "demo" / "seconds"
    return float(seconds.read_text()) if seconds.is_file() else None


def figures(quick: bool) -> dict[str, Any]:
    """Return every figure, medians over rounds in which all ways take turns."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        spark = started_session(configured(folder))
        found = compared(spark, folder, quick)
        settings = configured(folder / "day", IDENTITY)
        publish.run(settings, spark, unchecked=True)
        asked = ask_ms(settings, 1 if quick else 5)
        spark.stop()
    return found | {"ask_ms": round(asked, 1), "demo_s": demo_seconds()}


def write_page(found: Mapping[str, Any]) -> None:
    """Write ratios to a page."""
    sets = {
        "a day, without an identity": ("rows", "to_plain_spark"),
        "a day, with an identity": ("rows", "with_identity"),
        "dirty, three groupings": ("dirty_rows", "dirty"),
        "a day as Parquet, without an identity": ("rows", "parquet"),
        "a day as Parquet, with an identity": ("rows", "parquet_with_identity"),
        "four days as one batch, without an identity": ("large_rows", "large"),
        "four days as one batch, with an identity": ("large_rows", "large_with_identity"),
    }
    rows = [
        [name, found[count], found[f"ratio_{key}"], found[f"cpu_ratio_{key}"]]
        for name, (count, key) in sets.items()
    ]
    heads = [
        "files to every rollup level",
        "rows",
        "seconds, plain Spark = 1",
        "processor seconds, plain Spark = 1",
    ]
    plain = f"Medians of {found['rounds']} rounds. The plain job takes in {found['plain_rows_per_s']:,} rows a second."
    write(
        "ingest", "ingest", "Ingest and rollup beside plain Spark", __doc__ or "", plain, table(heads, rows)
    )


# Who takes in which files, with which identity.
WAYS: dict[str, tuple[Callable[[SparkSession, Path, str], Taken], str, str]] = {
    "plain": (plain, "day", ""),
    "ours": (ours, "day", ""),
    "ours_with_identity": (ours, "day", IDENTITY),
    "plain_dirty": (plain, "dirty", ""),
    "ours_dirty": (ours, "dirty", ""),
    "plain_parquet": (plain, "parquet", ""),
    "ours_parquet": (ours, "parquet", ""),
    "ours_parquet_with_identity": (ours, "parquet", IDENTITY),
    "plain_large": (plain, "large", ""),
    "ours_large": (ours, "large", ""),
    "ours_large_with_identity": (ours, "large", IDENTITY),
}


def compared(spark: SparkSession, folder: Path, quick: bool) -> dict[str, Any]:
    """Return rates and ratios of all ways."""
    devices, seconds, rounds = (2, QUICK_S, 1) if quick else (12, DAY_S, 2)
    dirty_rows = QUICK_DIRTY_ROWS if quick else DIRTY_ROWS
    large_s = seconds if quick else LARGE_DAYS * seconds
    write_files(folder / "day", devices, seconds)
    write_files(folder / "parquet", devices, seconds)
    write_files(folder / "large", devices, large_s)
    write_dirty_files(folder / "dirty", dirty_rows)
    # The first round warms up. A page after each, so that a run that is cut short leaves what it has.
    rounds_of: dict[str, list[Taken]] = {key: [] for key in WAYS}
    told: dict[str, Any] = {}
    for number in range(1 if quick else rounds + 1):
        for key, (job, name, identity) in WAYS.items():
            rounds_of[key].append(job(spark, folder / name, identity))
        found = {key: _median(all_of[min(1, number) :]) for key, all_of in rounds_of.items()}
        told = rates(devices * seconds, dirty_rows, found) | {
            "large_rows": devices * large_s,
            "rounds": number,
        }
        if number:
            write_page(told)
    return told


def _median(taken: list[Taken]) -> Taken:
    wall, cpu = zip(*taken, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def rates(rows: int, dirty_rows: int, found: Mapping[str, Taken]) -> dict[str, Any]:
    """Return rates, and ratios of seconds and of seconds of processors, of what was measured."""

    def ratio(way: str, baseline: str, which: int) -> float:
        return round(found[way][which] / found[baseline][which], 2)

    told: dict[str, Any] = {"rows": rows, "plain_rows_per_s": round(rows / found["plain"][0])}
    told |= {"rows_per_s": round(rows / found["ours"][0])}
    told |= {"rows_per_s_with_identity": round(rows / found["ours_with_identity"][0])}
    told |= {"dirty_rows": dirty_rows, "dirty_rows_per_s": round(dirty_rows / found["ours_dirty"][0])}
    for name, which in (("ratio", 0), ("cpu_ratio", 1)):
        told[f"{name}_to_plain_spark"] = ratio("ours", "plain", which)
        told[f"{name}_with_identity"] = ratio("ours_with_identity", "plain", which)
        for files in ("dirty", "parquet", "large"):
            told[f"{name}_{files}"] = ratio(f"ours_{files}", f"plain_{files}", which)
        for files in ("parquet", "large"):
            told[f"{name}_{files}_with_identity"] = ratio(
                f"ours_{files}_with_identity", f"plain_{files}", which
            )
    return told


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("ingest",))
