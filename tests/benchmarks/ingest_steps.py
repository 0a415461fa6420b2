"""Time of an ingest batch by step, from files to every rollup level: seconds, jobs and bridge calls per step.

    python -m tests.benchmarks.ingest_steps [--quick] [--json]

The files and stream of ``tests.benchmarks.ingest``: a day of devices that report every second, into tables that hold
the minute before; one line in ten thousand is no record, so that there is something to reject. The batch is run with
and without an identity, the second of two runs each; ``--quick`` runs half an hour of one device with one, once.
A job does what is asked of it at once: its pass over records is taken apart by a second measurement, in one process:
each stage alone, its rows thrown away.

*jobs*: Spark's, and how many of them only read the log of a Delta table. *bridge calls*: from Python into the JVM, and
the seconds of those that do not wait for rows: what building plans costs.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import build_rollups
from jobs import ingest as job
from lakehouse.ingest import batch_jobs, drain, ingest
from lakehouse.ingest.file_records import FileRecords
from lakehouse.ingest.sources.lines import records_of
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.rollup import rollup
from lakehouse.settings import Settings
from lakehouse.spark.session import started_session
from tests.benchmarks import page
from tests.benchmarks.ingest import DAY_S, back_to_before, configured, land_the_day, write_files
from tests.benchmarks.parts import run_parts
from tests.benchmarks.stopwatch import HEADS, Job, Stopwatch, busy, jobs_since, steps_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAYS = {"without identity": "", "with identity": 'identity = ["device", "ts"]'}
BAD_EVERY = 10_000
QUICK_S = 1800


def watched() -> Stopwatch:
    """Return a stopwatch on the steps of ingest and of building rollups."""
    watch = Stopwatch()
    watch.time(ManifestStore, "add_files", "manifest")
    watch.time(drain, "commit", "between the steps of a batch")
    watch.time(batch_jobs, "open_index", "index of identities")
    watch.time(batch_jobs.Jobs, "read", "read, parse, judge and write parts")
    watch.time(batch_jobs.Jobs, "compared", "the same, and compare identities")
    watch.time(ingest, "commit_entries", "commit")
    watch.time(rollup, "append_new", "rollup: ledger, marker")
    watch.time(rollup, "write_nodes", "rollup: nodes")
    return watch


def steps(spark: SparkSession, settings: Settings, folder: Path) -> tuple[Stopwatch, list[Job]]:
    """Run the day's batch into tables that hold what came before; return what its steps and Spark's jobs took."""
    shutil.rmtree(settings.home, ignore_errors=True)
    back_to_before(folder)
    job.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")
    land_the_day(folder)
    watch, before = watched(), max((job.number for job in jobs_since(spark, 0)), default=-1)
    with watch.running():
        job.run(settings, spark, "readings")
        build_rollups.run(settings, spark, "readings")
    return watch, jobs_since(spark, before + 1)


def stages(settings: Settings) -> list[list[Any]]:
    """Return a row per stage of reading the files in one process: seconds of all up to it, and of it alone."""
    store = ManifestStore(settings.layout.manifests("readings"))
    records = FileRecords.of(store.behind(0)[-1].files, settings.streams["readings"])
    source = settings.streams["readings"].source

    def cut() -> None:
        for file in records.files:
            deque(records_of(file, source), maxlen=0)

    def parsed() -> None:
        for item in records.items.to_pylist():
            deque(records.parsed(item), maxlen=0)

    cutting, whole = least_s(cut), least_s(parsed)
    return [
        ["read files, cut lines", cutting, cutting],
        ["type and judge", whole, max(0.0, whole - cutting)],
    ]


def least_s(work: Callable[[], None], rounds: int = 2) -> float:
    """Return the least seconds that some work took."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


def figures(quick: bool) -> dict[str, Any]:
    """Return what each way and stage took."""
    devices, seconds = (1, QUICK_S) if quick else (12, DAY_S)
    found = measure(devices, seconds, ("with identity",) if quick else tuple(WAYS), warm=not quick)
    if not quick:
        title = "Where the time of an ingest batch goes"
        page.write("ingest_steps", "ingest_steps", title, __doc__ or "", *told(found, devices * seconds))
    return {"rows": devices * seconds, **found}


def measure(devices: int, seconds: int, ways: Sequence[str], warm: bool) -> dict[str, Any]:
    """Return, by way, the steps' table and the whole; and the stages of the pass over rows."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="tidemark-steps-") as name:
        folder = Path(name)
        write_files(folder, devices, seconds)
        spoil(folder / "day")
        spark = started_session(configured(folder))
        for way in ways:
            settings = configured(folder, WAYS[way])
            if warm:
                steps(spark, settings, folder)
            watch, jobs = steps(spark, settings, folder)
            in_jobs = busy(jobs, [(0.0, float("inf"))])
            found[way] = {
                "seconds": watch.wall,
                "in_jobs_s": in_jobs,
                "bridge_calls": sum(step.calls for step in watch.steps.values()),
                "bridge_s": sum(step.calls_s for step in watch.steps.values()),
                "jobs": len(jobs),
                "jobs_on_logs": sum(job.is_of_log for job in jobs),
                "steps": steps_table(watch, jobs),
            }
        found["stages"] = stages(settings)
        spark.stop()
    return found


def spoil(folder: Path) -> None:
    """Make one line in so many no record."""
    for file in folder.iterdir():
        text = file.read_bytes().split(b"\n")
        text[BAD_EVERY::BAD_EVERY] = [b"?"] * len(text[BAD_EVERY::BAD_EVERY])
        file.write_bytes(b"\n".join(text))


def told(found: dict[str, Any], rows: int) -> list[str]:
    """Return what was found as parts of a page."""
    parts = []
    for way in WAYS:
        one = found[way]
        parts += [
            f"## A batch of {rows:,} rows, {way}",
            f"{one['seconds']:.2f} s: {one['in_jobs_s']:.2f} s of it in {one['jobs']} jobs of Spark "
            f"({one['jobs_on_logs']} over logs), {one['bridge_s']:.2f} s in {one['bridge_calls']:,} bridge calls.",
            page.table(HEADS, sorted(one["steps"], key=lambda row: -row[1])),
        ]
    heads = ["stage", "up to it s", "alone s"]
    return [*parts, "## The pass over rows, stage by stage", page.table(heads, found["stages"])]


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("ingest_steps",))
