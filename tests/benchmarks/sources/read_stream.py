"""Planning batches of files: manifests of our own beside Spark's ``readStream`` with ``foreachBatch``.

*manifests*: what ``tidemark serve`` does: a probe, then the ingest job. *readStream*: Spark's file source finds the new
files, and ``foreachBatch`` runs the same kernels and commits on them, with its batch's number; its checkpoint takes the
place of manifests. *by hand*: ``foreachBatch`` as one would write it, with Spark's reader, two idempotent appends and a
count, and no numbered lines, lateness or balance. Each in a home of its own that has read some files before, one after
the other in one session; the first batches warm up.

Latency: from a file's rename until its rows are committed, all looking all the time; in vain: all look every two
seconds. Restart: a process is killed after its rows are committed and before its batch is finished, and another one
goes on, from its start until then. Halving: one file of a batch fails whatever is done. Replay: the record of batches,
manifests or checkpoint, is lost, and the tables are not.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from jobs import ingest
from lakehouse.ingest import ingest as batches
from lakehouse.ingest.batch_jobs import judged_batch
from lakehouse.ingest.batch_records import BatchRecords, StreamTables
from lakehouse.ingest.drain import IngestRefused
from lakehouse.ingest.sources.files import all_landed, matching
from lakehouse.ingest.sources.listing import probe_of
from lakehouse.ingest.sources.manifest import Manifest
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import cpu_s
from tests.benchmarks.stopwatch import jobs_since

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
keys = ["device"]
measures = ["temp"]
levels = ["1m for 2d", "1d forever"]
[streams.readings.source]
path = "landing/*.ndjson"
format = "ndjson"
settle = 0
batch_files = 100000
"""
T0, ROWS, DEVICES = 1_600_000_000, 1_000, 100
HISTORY, QUICK_HISTORY = 2_000, 20
LATENCIES, RESTARTS, FAILING = 12, 3, 16
IDLE_S, EVERY_S, LOOKED_S = 20.0, 2.0, 0.01
SCHEMA = "ts bigint, device string, temp double"
MANIFESTS, READ_STREAM, BY_HAND = "manifests", "readStream", "by hand"


@dataclass
class Home:
    """A home, and what goes on in it."""

    folder: Path
    spark: SparkSession
    landed: int = 0

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return load_settings(self.folder / "tidemark.toml")

    def land(self, files: int = 1, rows: int = ROWS) -> float:
        """Put files where they are looked for; return when the last one was there."""
        for _ in range(files):
            path = self.folder / "landing" / f"{self.landed:06}.ndjson"
            start = T0 + self.landed * rows
            lines = (
                f'{{"ts": {start + n}, "device": "d{n % DEVICES}", "temp": {20 + n % 7 / 10}}}\n'
                for n in range(rows)
            )
            path.with_suffix(".tmp").write_text("".join(lines))
            path.with_suffix(".tmp").rename(path)
            self.landed += 1
        return time.perf_counter()

    @property
    def target(self) -> StreamTables:
        """The tables of its stream."""
        return StreamTables(self.spark, self.settings.layout, self.settings.stream("readings"))

    def rows_in(self) -> int:
        """Return how many rows raw holds."""
        from deltalake import DeltaTable

        return int(DeltaTable(str(self.settings.layout.raw("readings"))).count())

    def query(self, every: str, do: Callable[[DataFrame, int], None], by_hand: bool = False) -> Any:
        """Return a query over the landing folder, not started yet."""
        reader = self.spark.readStream.format("text" if by_hand else "binaryFile")
        if not by_hand:
            reader = reader.schema("path string, modificationTime timestamp, length bigint, content binary")
        found = reader.option("pathGlobFilter", "*.ndjson").load(str(self.folder / "landing"))
        rows = found if by_hand else found.select("path")
        writer = rows.writeStream.foreachBatch(do).option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )
        return writer.trigger(availableNow=True) if every == "once" else writer.trigger(processingTime=every)


def with_kernels(home: Home) -> Callable[[DataFrame, int], None]:
    """Return a batch of ``foreachBatch``: the ingest of its files, as our own manifest would name them."""
    target = home.target

    def batch(files: DataFrame, number: int) -> None:
        names = {row["path"].rpartition("/")[2] for row in files.collect()}
        source = target.stream.source
        found = [each for each in matching(source) if each[0].rpartition("/")[2] in names]
        manifest = Manifest(number + 1, "files", all_landed(found, source))
        target.create()
        store = ManifestStore(target.layout.manifests("readings"))
        batches.commit(BatchRecords(target, manifest, store, target.progress()))

    return batch


def by_hand(home: Home) -> Callable[[DataFrame, int], None]:
    """Return a batch of ``foreachBatch`` as one would write it."""
    from pyspark.sql import functions as F

    def batch(lines: DataFrame, number: int) -> None:
        rows = lines.select(F.from_json("value", SCHEMA, {"mode": "FAILFAST"}).alias("row"), "value").cache()
        is_good = F.col("row.ts").isNotNull()
        for name, some in (
            ("raw", rows.where(is_good).select("row.*")),
            ("bad", rows.where(~is_good).select("value")),
        ):
            writer = (
                some.write.format("delta")
                .mode("append")
                .option("txnAppId", name)
                .option("txnVersion", number)
            )
            writer.save(str(home.folder / "plain" / name))
        rows.unpersist()

    return batch


@contextmanager
def watching(way: str, home: Home, every_s: float) -> Iterator[Queue[float]]:
    """Let a way take in what lands, and tell when each batch is committed; ``every_s``: between two looks."""
    done: Queue[float] = Queue()
    if way == MANIFESTS:
        ended = Event()
        thread = Thread(target=_serve, args=(home, every_s, done, ended))
        thread.start()
        yield done
        ended.set()
        thread.join()
        return
    do = by_hand(home) if way == BY_HAND else with_kernels(home)

    def batch(rows: DataFrame, number: int) -> None:
        do(rows, number)
        done.put(time.perf_counter())

    every = f"{every_s} seconds" if every_s > LOOKED_S else "0 seconds"
    query = home.query(every, batch, way == BY_HAND).start()
    yield done
    query.stop()


def _serve(home: Home, every_s: float, done: Queue[float], ended: Event) -> None:
    settings = home.settings
    probe = probe_of(settings.stream("readings").source, settings.layout.manifests("readings").folder)
    seen = None
    while not ended.wait(every_s):
        found = probe()
        if found != seen and ingest.run(settings, home.spark, "readings")["batches"]:
            done.put(time.perf_counter())
        seen = found


def once(way: str, home: Home) -> None:
    """Let a way take in what has landed."""
    if way == MANIFESTS:
        ingest.run(home.settings, home.spark, "readings")
        return
    home.query("once", with_kernels(home)).start().awaitTermination()


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of each way; a full run writes them to a page."""
    found: dict[str, dict[str, Any]] = {}
    history = QUICK_HISTORY if quick else HISTORY
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        homes = {way: _home(Path(name) / str(n)) for n, way in enumerate((MANIFESTS, READ_STREAM, BY_HAND))}
        spark = started_session(next(iter(homes.values())).settings)
        # Of each failure that is measured it would print pages.
        spark.sparkContext.setLogLevel("OFF")
        for way, home in homes.items():
            home.spark = spark
            home.land(history, rows=1)
            found[way] = _watched(way, home, quick)
        del homes[BY_HAND]
        for way, home in homes.items():
            found[way] |= _failing(way, home)
        spark.stop()
        for way, home in homes.items():
            found[way] |= _restarted(way, home, 1 if quick else RESTARTS)
        for way, home in homes.items():
            home.spark = started_session(home.settings)
            found[way] |= _without_memory(way, home)
        homes[MANIFESTS].spark.stop()
    if not quick:
        _write_page(found, history)
    return {
        f"{way.replace(' ', '_')}_{key}": value for way, own in found.items() for key, value in own.items()
    }


def _home(folder: Path) -> Home:
    (folder / "landing").mkdir(parents=True)
    (folder / "tidemark.toml").write_text(CONFIG)
    return Home(folder, None)  # type: ignore[arg-type]


def _watched(way: str, home: Home, quick: bool) -> dict[str, Any]:
    """Return latency, processor seconds and jobs of a small batch, and what looking in vain costs."""
    count, waits = 3 if quick else LATENCIES, list[float]()
    with watching(way, home, LOOKED_S) as done:
        done.get(timeout=300)
        for number in range(count + 2):
            if number == 2:
                known, before = _last_job(home.spark), cpu_s()
            began = home.land()
            waits.append(done.get(timeout=60) - began)
        cpu, jobs = cpu_s() - before, _last_job(home.spark) - known
    with watching(way, home, EVERY_S):
        time.sleep(EVERY_S)
        before = cpu_s()
        time.sleep(EVERY_S if quick else IDLE_S)
        idle = cpu_s() - before
    slowest = sorted(waits[2:])
    return {
        "latency_s": round(statistics.median(slowest), 2),
        "latency_most_s": round(slowest[-1], 2),
        "cpu_s": round(cpu / count, 2),
        "jobs": round(jobs / count, 1),
        "idle_cpu_s_a_minute": round(idle * 60 / (EVERY_S if quick else IDLE_S), 2),
    }


def _last_job(spark: SparkSession) -> int:
    return max((job.number for job in jobs_since(spark, 0)), default=-1)


def _failing(way: str, home: Home) -> dict[str, Any]:
    """Return what is taken in of a batch of which one file fails, and after how many runs and seconds."""
    before = home.rows_in()
    bad = f"{home.landed + FAILING // 3:06}.ndjson"
    home.land(FAILING)

    def failing(records: BatchRecords) -> Any:
        if any(file.path.endswith(bad) for file in records.manifest.files):
            raise RuntimeError("the codec gave up")
        return judged_batch(records)

    began, runs = time.perf_counter(), 0
    with patch.object(batches, "judged_batch", failing):
        while runs < 5:
            runs += 1
            with suppress(Exception):
                once(way, home)
                break
    seconds = time.perf_counter() - began
    found = {"files_in": (home.rows_in() - before) // ROWS, "runs": runs, "failing_s": round(seconds, 1)}
    if way == READ_STREAM:
        # Mended by hand, so that what comes next can be measured.
        once(way, home)
    return found


def _restarted(way: str, home: Home, rounds: int) -> dict[str, Any]:
    """Return the seconds of a process that finishes a killed batch, and how many rows are twice or lost."""
    before, waits = home.rows_in(), list[float]()
    for _ in range(rounds):
        home.land()
        killed = _process(way, home, {"TIDEMARK_CRASH_AT": "ingest.raw-appended"})
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
        began = time.perf_counter()
        again = _process(way, home, {})
        assert again.returncode == 0, again.stderr[-3000:]
        waits.append(time.perf_counter() - began)
    return {
        "restart_s": round(statistics.median(waits), 1),
        "rows_off_after_restart": home.rows_in() - before - rounds * ROWS,
    }


def _process(way: str, home: Home, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", __name__, way, str(home.folder)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def _without_memory(way: str, home: Home) -> dict[str, Any]:
    """Return what becomes of a new file's rows if the record of batches is lost, and tables are not."""
    before = home.rows_in()
    if way == MANIFESTS:
        (home.settings.layout.root / "control.sqlite").unlink()
    else:
        shutil.rmtree(home.folder / "checkpoint")
    home.land()
    try:
        once(way, home)
    except IngestRefused:
        return {"if_lost": "refused"}
    missing = ROWS - (home.rows_in() - before)
    return {"if_lost": f"{missing:,} of {ROWS:,} new rows missing, no error" if missing else "all rows there"}


def _write_page(found: dict[str, dict[str, Any]], history: int) -> None:
    names = {
        "latency_s": "rename to committed: median s",
        "latency_most_s": "... longest s",
        "cpu_s": "processor s of a batch",
        "jobs": "Spark jobs of a batch",
        "idle_cpu_s_a_minute": "processor s a minute, looking in vain",
        "restart_s": "process start to the killed batch finished: s",
        "rows_off_after_restart": "rows twice or lost by it",
        "if_lost": "the record of batches is lost",
        "files_in": f"one of {FAILING} files fails: others read",
        "runs": "... runs",
        "failing_s": "... seconds",
    }
    heads = ["", *found]
    rows = [[told, *(own.get(key, "") for own in found.values())] for key, told in names.items()]
    about = (
        f"Batches of one file of {ROWS:,} rows, behind {history:,} files that were read before. Other work ran on the "
        "same two cores, so compare columns of one row."
    )
    write(
        "sources",
        "read_stream",
        "Our manifests and Spark's readStream",
        __doc__ or "",
        about,
        table(heads, rows),
    )


if __name__ == "__main__":
    _of = Home(Path(sys.argv[2]), None)  # type: ignore[arg-type]
    _of.spark = started_session(_of.settings)
    once(sys.argv[1], _of)
