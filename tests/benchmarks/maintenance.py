"""Size of tables and time of jobs over many batches: hourly batches through the real jobs.

    python -m tests.benchmarks.maintenance [--quick] [--json]

The ``run`` functions of ``ingest``, ``build_rollups``, ``maintain``, ``merge_raw`` and ``publish``, in one process,
which asks Spark for nothing. Seconds are those of processors, so that what else the machine does hardly shows. A batch
is a small file with the readings of one hour of event time, one of them eight days late; one of a day's batches holds a
line that is no record. Every 24 batches the last three run, as on a day's schedule.

A week is as many seconds as its batches took here: after these, files and log entries of old versions go. *Bounded*
means: the most files and log entries of any table in the last third of the run are no more than a tenth above those of
the third before. *Flat*: the median batch of the last fifty takes no more than a fifth longer than that of the first
fifty; the first five only warm up.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import build_rollups, ingest, maintain, merge_raw, publish
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import commits_of, read_log
from tests.benchmarks import page
from tests.benchmarks.parts import cpu_s, run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR, DAY = 3600, 24
T0 = 1_600_000_000
BATCHES, WARM_UP, COMPARED = 500, 5, 50
# Seconds after which a run stops with the batch that is then on its way.
MOST_S = 3600
WEEK = 7 * DAY
TABLES = ("raw", "quarantine", "ledger", "rollup", "corrections")
CONFIG = """
home = "var"
[streams.readings]
event_time = { column = "ts", unit = "s" }
identity = ["device", "ts"]
duplicates_within = "1h"
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1m for 7d", "1h for 30d", "1d forever"]
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
Sample = dict[str, Any]


@dataclass
class Measured:
    """Seconds of processors of each batch, when it began, and one sample per maintenance."""

    batch_s: list[float] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    @property
    def week_s(self) -> float:
        """Return how many seconds of the clock the last week of batches took."""
        return time.monotonic() - self.began[-WEEK:][0]


def land(folder: Path, batch: int) -> None:
    """Write the readings of one hour, one of them eight days late; once a day also what is no record."""
    seconds = [*range(0, HOUR, 30), -8 * DAY * HOUR + 7]
    lines = [
        json.dumps({"ts": T0 + batch * HOUR + second, "device": f"d{second % 7}", "temp": second % 100 / 10})
        for second in seconds
    ]
    lines += ["{"] if batch % DAY == 1 else []
    (folder / "landing" / f"{batch:06d}.ndjson").write_text("\n".join(lines) + "\n")


def in_a_short_week(settings: Settings, week_s: float) -> Settings:
    """Let old versions go after as long as a week of batches took here."""
    tables = settings.tables.model_copy(update={"history": int(week_s * 1_000_000)})
    return settings.model_copy(update={"tables": tables})


def table_sizes(settings: Settings) -> dict[str, dict[str, int]]:
    """Return files in use, files on disk and log entries of each table."""
    found = {}
    for name in TABLES:
        table = getattr(settings.layout, name)("readings")
        log = read_log(table)
        if log is not None:
            on_disk = sum(1 for _ in table.rglob("*.parquet"))
            found[name] = {"files": len(log.files), "on_disk": on_disk, "log_entries": len(commits_of(table))}
    return found


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how many seconds of processors work took, and what it gave."""
    before = cpu_s()
    result = work()
    return cpu_s() - before, result


def measure(batches: int, every: int, seconds: float, told: Callable[[str], None]) -> Measured:
    """Run batches until so many are done or so many seconds are over; maintain and publish ``every`` so many."""
    from lakehouse.spark.session import build_session, end_session

    found, until = Measured(), time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="tidemark-maintenance-") as scratch:
        folder = Path(scratch)
        (folder / "landing").mkdir()
        (folder / "tidemark.toml").write_text(CONFIG)
        settings = load_settings(folder / "tidemark.toml")
        spark = build_session(settings)
        for batch in range(1, batches + 1):
            land(folder, batch)
            found.began.append(time.monotonic())
            found.batch_s.append(timed(lambda: _batch(settings, spark))[0])
            if batch % every == 0:
                kept = in_a_short_week(settings, found.week_s)
                found.samples.append(_sample(kept, spark, found.batch_s[-every:]) | {"batch": batch})
                told(json.dumps(found.samples[-1]))
            elif batch % 6 == 0:
                told(f"batch {batch}: {statistics.median(found.batch_s[-6:]):.3f} s of processors")
            if time.monotonic() > until and found.samples:
                told(f"time is over after {batch} batches")
                break
        end_session(spark)
    return found


def _batch(settings: Settings, spark: SparkSession) -> None:
    ingest.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")


def _sample(settings: Settings, spark: SparkSession, batch_s: Sequence[float]) -> Sample:
    upkeep = (maintain.run, merge_raw.run)
    maintain_s, _ = timed(lambda: [run(settings, spark, "readings") for run in upkeep])
    publish_s, done = timed(lambda: publish.run(settings, spark, unchecked=True))
    raw = read_log(settings.layout.raw("readings"))
    return {
        "batch_s": round(statistics.median(batch_s), 3),
        "maintain_s": round(maintain_s, 2),
        "publish_s": round(publish_s, 2),
        "nodes": done["nodes"],
        "raw_rows": raw.rows if raw else 0,
        "tables": table_sizes(settings),
    }


def figures(quick: bool) -> dict[str, Any]:
    """Run two batches, or as many as an hour allows; return what came of them."""
    batches, every = (2, 2) if quick else (BATCHES, DAY)
    found = measure(batches, every, MOST_S, lambda line: print(line, file=sys.stderr, flush=True))
    told = figures_of(found)
    if not quick:
        write(found, told)
    return told


def figures_of(found: Measured) -> dict[str, Any]:
    """Return whether files, log entries and seconds per batch are bounded, with the figures that say so."""
    samples, seconds = found.samples, found.batch_s[WARM_UP:] or found.batch_s
    third = max(1, len(samples) // 3)
    before, last = samples[-2 * third : -third] or samples[:1], samples[-third:]
    first_s, last_s = statistics.median(seconds[:COMPARED]), statistics.median(seconds[-COMPARED:])
    told: dict[str, Any] = {
        "batches": len(found.batch_s),
        f"batch_s_first_{COMPARED}": round(first_s, 3),
        f"batch_s_last_{COMPARED}": round(last_s, 3),
        "batch_s_flat": last_s <= 1.2 * first_s,
    }
    for name in ("maintain_s", "publish_s", "nodes", "raw_rows"):
        told |= {f"{name}_first": samples[0][name], f"{name}_last": samples[-1][name]}
    for what in ("files", "on_disk", "log_entries"):
        told[f"{what}_most"] = most(samples, what)
        told[f"{what}_bounded"] = most(last, what) <= 1.1 * most(before, what)
    return told


def most(samples: Sequence[Sample], what: str) -> int:
    """Return the largest count of any table."""
    return max(int(table[what]) for sample in samples for table in sample["tables"].values())


def write(found: Measured, told: dict[str, Any]) -> None:
    """Write the page of a full run."""
    columns = ("batch", "batch_s", "maintain_s", "publish_s", "nodes", "raw_rows")
    counts = ("files", "on_disk", "log_entries")
    rows = [
        [*(sample[name] for name in columns), *(most([sample], what) for what in counts)]
        for sample in found.samples
    ]
    heads = ["batches", "s a batch", "maintain s", "publish s", "nodes", "raw rows"]
    page.write(
        "maintenance",
        "maintenance",
        "What maintenance keeps bounded",
        __doc__ or "",
        page.table(["figure", "value"], list(told.items())),
        "Seconds of processors a batch are medians since the sample before; files and entries are those of the table "
        "with the most.",
        page.table([*heads, "files", "files on disk", "log entries"], rows),
        _picture(
            "batches",
            "batch",
            "seconds of processors a batch",
            range(1, len(found.batch_s) + 1),
            found.batch_s,
        ),
        _picture(
            "publish",
            "nodes kept",
            "seconds of processors a publish",
            [sample["nodes"] for sample in found.samples],
            [sample["publish_s"] for sample in found.samples],
        ),
    )


def _picture(name: str, across: str, up: str, x: Sequence[int], y: Sequence[float]) -> str:
    figure, axes = page.picture(name)
    axes.plot(x, y, ".")
    axes.set(xlabel=across, ylabel=up, ylim=(0, None))
    return page.save(figure, "maintenance", name)


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("maintenance",))
