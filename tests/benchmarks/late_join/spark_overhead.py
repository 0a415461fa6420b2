"""Overhead of a join's Spark job beside its kernel alone, on the same rows, and its seconds by step.

2,000 keys, 1,000 rows a second over both sides, three rows of ten late by 0.2 s on average, w = 1 s: a row has half a
partner on average. Both take a thousand rows first, then the rest, which is timed: the kernel as arrays in one process,
the job (``jobs.run_queries``) from raw tables that ``jobs.ingest`` has written, in 8 buckets, with its state.

Steps of the job: timers around its own functions. The buckets' kernels run in one job of Spark, whose tasks read their
rows and write their parts.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pacsv

from jobs import ingest
from lakehouse.algorithms.late_join.conditions import Equality
from lakehouse.algorithms.late_join.policy_needed_slack import NeededSlack
from lakehouse.algorithms.late_join.qjoin import QJoin
from lakehouse.engine import engine_of
from lakehouse.queries.pairs import run as online
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime import run as runtime
from lakehouse.queries.runtime.batch_manifest import Wanted
from lakehouse.settings import Settings, load_settings
from tests.benchmarks import page
from tests.benchmarks.late_join.speed import keyed
from tests.benchmarks.late_join.streams import SECOND, START_US
from tests.benchmarks.stopwatch import HEADS, Stopwatch, jobs_since, steps_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.algorithms.late_join.contract import Batch

SIZES = (100_000, 400_000, 1_000_000)
KEYS, FIRST, BUCKETS = 2000, 1000, 8
WINDOW_US, RECALL, PERIOD_US = SECOND, 0.95, 60 * SECOND
# Rows of the generated stream are 10 us apart; here they are 1 ms apart.
SLOWER = 100
SIDES = ("requests", "replies")
QUERY = """
SELECT r.temp AS asked, s.temp AS answered FROM requests [RANGE 1 SECOND] r JOIN replies s ON r.id = s.id
RECALL 0.95 OVER 1 MINUTE
"""
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "us" }}
arrival_time = {{ column = "received", unit = "us" }}
keys = ["id"]
measures = ["temp"]
levels = ["1m forever"]
source = {{ path = "{name}/*", format = "csv", settle = 0 }}
columns = {{ id = "int", temp = "double" }}
"""


@dataclass(frozen=True)
class Measured:
    """Seconds of the kernel and of the job for the rows that are timed, and the job's steps."""

    rows: int
    pairs: int
    kernel_s: float
    job_s: float
    steps: list[list[Any]]

    @property
    def ratio(self) -> float:
        """Return how many times as long as the kernel the job takes."""
        return self.job_s / self.kernel_s


def figures(quick: bool) -> dict[str, Any]:
    """Return, by number of rows, the seconds of both and their ratio."""
    found = measure((20_000,) if quick else SIZES)
    if not quick:
        _write(found)
    return {
        "spark_overhead_ratio": {each.rows: round(each.ratio, 1) for each in found},
        "spark_overhead_kernel_s": {each.rows: round(each.kernel_s, 3) for each in found},
        "spark_overhead_job_s": {each.rows: round(each.job_s, 2) for each in found},
        "spark_overhead_rows_per_s": {each.rows: round(each.rows / each.job_s) for each in found},
    }


def measure(sizes: tuple[int, ...]) -> list[Measured]:
    """Measure each size, after one that only warms up."""
    from lakehouse.spark.session import started_session

    with tempfile.TemporaryDirectory(prefix="tidemark-overhead-") as name:
        spark = started_session(Settings(home=Path(name) / "first"))
        _measured(spark, Path(name) / "warm", 5 * FIRST)
        return [_measured(spark, Path(name) / str(rows), rows) for rows in sizes]


def _measured(spark: SparkSession, folder: Path, rows: int) -> Measured:
    whole = _stream(FIRST + rows)
    parts = whole[:FIRST], whole[FIRST:]
    kernel_s, pairs = min(_kernel(*parts) for _ in range(3))
    settings = _declared(folder)
    run = online.PairsRun(
        engine_of(spark),
        settings.layout,
        settings.of_kind(PairsQuery)["answers"],
        settings.streams,
        Wanted(BUCKETS),
    )
    for number, part in enumerate(parts):
        _ingest(spark, settings, folder, part, number)
        if number == 0:
            run.drain()
    watch, before = watched(), jobs_since(spark, 0)[-1].number
    with watch.running():
        done = run.drain()
    jobs = jobs_since(spark, before + 1)
    if done["rows"] != rows:
        raise AssertionError(f"{rows} rows, but the job took in {done['rows']}")
    found = Measured(rows, pairs, kernel_s, watch.wall, steps_table(watch, jobs))
    shutil.rmtree(folder)
    return found


def _stream(rows: int) -> Batch:
    """Return rows in order of arrival."""
    from lakehouse.algorithms.late_join.contract import Batch

    fast = keyed(rows, KEYS)
    times = [START_US + SLOWER * each for each in (fast.event_us, fast.arrival_us)]
    return Batch.of(fast.side, times[0], arrival_us=times[1], key=fast.key)


def _kernel(first: Batch, rest: Batch) -> tuple[float, int]:
    """Return the seconds that the kernel alone takes for the rest, and the pairs it finds."""
    join = QJoin(Equality(), WINDOW_US, NeededSlack(RECALL, PERIOD_US))
    join.process(first)
    started = time.perf_counter()
    found = join.process(rest)
    return time.perf_counter() - started, len(found.pairs)


def _declared(folder: Path) -> Settings:
    (folder / "queries").mkdir(parents=True)
    (folder / "queries" / "answers.sql").write_text(QUERY)
    text = 'home = "var"\n' + "".join(STREAM.format(name=name) for name in SIDES)
    (folder / "tidemark.toml").write_text(text)
    return load_settings(folder / "tidemark.toml")


def _ingest(spark: SparkSession, settings: Settings, folder: Path, batch: Batch, number: int) -> None:
    for side, name in enumerate(SIDES):
        mine = batch[batch.side == side]
        columns = {"ts": mine.event_us, "received": mine.arrival_us, "id": mine.key, "temp": mine.row * 0.25}
        (folder / name).mkdir(exist_ok=True)
        pacsv.write_csv(pa.table(columns), folder / name / f"{number}.csv")
        ingest.run(settings, spark, name)


def commit_to(entries: Any, table: Any, *_: Any) -> str:
    """Return the name of a commit, by its table."""
    return f"commit to {table.parent.name}"


def watched() -> Stopwatch:
    """Return a stopwatch on the steps of a query's batch."""
    watch = Stopwatch()
    watch.time(runtime, "next_batch", "what is next")
    watch.time(online, "run_buckets", "buckets, in one job")
    watch.time(online, "newest", "newest times known")
    watch.time(runtime, "commit_entries", commit_to)
    return watch


def _write(found: list[Measured]) -> None:
    rows = [
        [each.rows, each.pairs, each.kernel_s, each.job_s, each.ratio, round(each.rows / each.job_s)]
        for each in found
    ]
    heads = ["rows", "pairs, one kernel", "kernel s", "job s", "job / kernel", "rows/s of the job"]
    parts = [page.table(heads, rows)]
    for each in found:
        parts += [
            f"## {each.rows:,} rows, step by step",
            page.table(HEADS, sorted(each.steps, key=lambda row: -row[1])),
        ]
    page.write("late_join", "spark_overhead", "The Spark job beside its kernel", __doc__ or "", *parts)
