"""Cost of a publish after a small change as the published history grows: of the change alone, and in full.

1,000 devices with a node a minute, their hours and days, one measure. A batch touches 10,000 nodes: three minutes of
each device and what is above them, half of the batches the newest minutes, half any minutes of the history. Both ways
are told nodes as Parquet, as the job hands them over; that Spark folds all of them first is not in these figures.

    changed   the version shares nodes with the one before; batch after batch, merges of segments among them
    anew      the version holds all nodes, sorted
    counter   the same where the measure is a counter, whose nodes are joined in order of time

Then the same ranges of one device are asked of a version of either kind, in turns of five hundred. The first hundred
questions of a process read blocks that the others find in memory; they are shown apart.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.algorithms.rollup.levels import Level, horizons
from lakehouse.serving.publish.publish import publish
from lakehouse.serving.publish.snapshot import ChangedNodes, PublishedMeasure, StreamSnapshot
from lakehouse.serving.sandbox.sandbox import PublishedReader, open_published
from lakehouse.serving.versions.versions import files_of_version
from lakehouse.storage.layout import Home
from tests.benchmarks import page
from tests.benchmarks.rollup.serving import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    START_US,
    ours,
    quantile,
    quantiles,
    ranges,
    timed,
)

LEVELS = (Level(MINUTE_US, 400 * DAY_US), Level(HOUR_US, 4000 * DAY_US), Level(DAY_US, None))
DEVICES, MINUTES_PER_BATCH = 1_000, 3
FIRST = 100


@dataclass
class History:
    """A home under a folder, what a publisher knows of its stream, and how many minutes it has."""

    folder: Path
    facts: StreamSnapshot
    minutes: int
    is_counter: bool = False

    @property
    def home(self) -> Home:
        """The home whose versions share nodes."""
        return Home(self.folder / "home")

    def files(self) -> dict[Path, int]:
        """Return the files of all versions with their bytes."""
        paths = (self.folder / "home").rglob("*.duckdb")
        return {path: path.stat().st_size for path in paths}

    def publish(self, batch: int, anywhere: bool) -> tuple[float, float, int]:
        """Publish one more batch; return seconds, those of processors, and bytes written."""
        part, before = self.folder / f"batch-{batch}.parquet", self.files()
        dice = random.Random(batch)
        first = dice.randrange(self.minutes - MINUTES_PER_BATCH) if anywhere else self.minutes
        self.minutes = max(self.minutes, first + MINUTES_PER_BATCH)
        _write_nodes(part, first, first + MINUTES_PER_BATCH)
        changed = ChangedNodes(batch - 1, (part,), ())
        told = replace(_facts(self.minutes, self.is_counter), batch=batch, changed=changed)
        started, before_cpu = time.perf_counter(), time.process_time()
        publish(self.home, [told])
        seconds, cpu = time.perf_counter() - started, time.process_time() - before_cpu
        return seconds, cpu, sum(size for path, size in self.files().items() if path not in before)


def figures(quick: bool) -> dict[str, Any]:
    """Return the figures of the largest history measured."""
    nodes = (3 * 10**4,) if quick else (10**6, 10**7, 3 * 10**7)
    batches = 2 if quick else 60
    sizes = [measure(count, batches, 10 if quick else 1_000) | counters(count, batches) for count in nodes]
    if not quick:
        _write(sizes)
    return sizes[-1]


def measure(nodes: int, batches: int, questions: int) -> dict[str, Any]:
    """Return one row of figures."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = Path(name)
        # A node has two rows, of its rows and of its measure; all devices together are one device more.
        minutes = nodes // (2 * (DEVICES + 1))
        _write_nodes(folder / "history.parquet", 0, minutes)
        history = History(folder, _facts(minutes), minutes)
        whole = replace(history.facts, batch=1, nodes=_folder_of(folder, "history.parquet"))
        before_cpu = time.process_time()
        seconds, written = _anew(folder / "home", whole)
        anew_cpu = time.process_time() - before_cpu
        taken = [history.publish(batch, batch % 2 == 0) for batch in range(2, 2 + batches)]
        _anew(folder / "anew", whole)
        found = {"published_nodes": nodes, "batch_nodes": 2 * _touched(), "publish_anew_s": round(seconds, 2)}
        found |= {"publish_anew_cpu_s": round(anew_cpu, 2)}
        found |= _quantiles("publish_changed", [one[0] for one in taken])
        found |= {"publish_changed_max_s": round(max(one[0] for one in taken), 2)}
        found |= {"publish_changed_cpu_s": round(quantile([one[1] for one in taken], 0.5), 2)}
        found |= {"anew_mb": round(written / 1e6, 1)}
        found |= {"changed_mb": round(sum(one[2] for one in taken) / len(taken) / 1e6, 1)}
        with open_published(folder / "home") as shared, open_published(folder / "anew") as anew:
            return found | {"segments": _segments(shared)} | _asked(shared, anew, minutes, questions)


def counters(nodes: int, batches: int) -> dict[str, float]:
    """Return the seconds of processors of a publish where the measure is a counter, which has a row more per node."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder, minutes = Path(name), nodes // (2 * (DEVICES + 1))
        _write_nodes(folder / "history.parquet", 0, minutes)
        history = History(folder, _facts(minutes, is_counter=True), minutes, is_counter=True)
        whole = replace(history.facts, batch=1, nodes=_folder_of(folder, "history.parquet"))
        before_cpu = time.process_time()
        _anew(folder / "home", whole)
        anew_cpu = time.process_time() - before_cpu
        taken = [history.publish(batch, batch % 2 == 0)[1] for batch in range(2, 2 + batches)]
    return {
        "counter_anew_cpu_s": round(anew_cpu, 2),
        "counter_changed_cpu_s": round(quantile(taken, 0.5), 2),
    }


def _touched() -> int:
    return (DEVICES + 1) * (MINUTES_PER_BATCH + 2)


def _folder_of(folder: Path, file: str) -> Path:
    nodes = folder / "nodes"
    nodes.mkdir()
    (folder / file).rename(nodes / file)
    return nodes


def _anew(home: Path, whole: StreamSnapshot) -> tuple[float, int]:
    started = time.perf_counter()
    done = publish(Home(home), [whole])
    return time.perf_counter() - started, done.bytes


def _segments(reader: PublishedReader) -> int:
    return len(files_of_version(reader.hold.path.parent, reader.version))


def _facts(minutes: int, is_counter: bool = False) -> StreamSnapshot:
    newest = START_US + minutes * MINUTE_US - 1
    return StreamSnapshot(
        name="readings",
        definition="benchmark",
        groupings=(("device",), ()),
        measures=(PublishedMeasure("temp", "double", None, is_counter),),
        levels=LEVELS,
        horizons=horizons(LEVELS, newest),
        newest_us=newest,
        confirmed_us=newest,
        earliest_us=START_US,
        batch=1,
        latest_us=DAY_US,
        raw_path="raw",
    )


def _write_nodes(path: Path, first: int, end: int) -> None:
    """Write the nodes of every device over some minutes, and of all devices, at each level."""
    parts = []
    for number, level in enumerate(LEVELS, start=1):
        start = f"((m * {MINUTE_US} + {START_US}) // {level.width_us}) * {level.width_us}"
        for grouping, device in enumerate(("'device-' || d", "NULL::VARCHAR")):
            parts.append(
                f"""SELECT {number} AS level, {grouping} AS "grouping", {device} AS device, {start} AS start_us,
                count(*) AS "rows", min(at_us) AS first_us, max(at_us) AS last_us,
                count(*) AS temp__n, fsum(v) AS temp__sum, 0.0 AS temp__carry, min(v) AS temp__min, max(v) AS temp__max,
                min(at_us) AS temp__first_us, max(at_us) AS temp__last_us,
                arg_min(v, at_us) AS temp__first, arg_max(v, at_us) AS temp__last,
                0.0 AS temp__drops_low, 0.0 AS temp__drops_high
                FROM (SELECT *, m * {MINUTE_US} + {START_US} AS at_us, (hash(m, d) % 1000) / 100.0 AS v
                    FROM range({first}, {end}) AS t(m), range({DEVICES}) AS u(d)) GROUP BY ALL"""
            )
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{path}'")


def _asked(shared: PublishedReader, anew: PublishedReader, minutes: int, questions: int) -> dict[str, Any]:
    """Return what a range's sum takes from a version of either kind, in milliseconds."""
    asked = ranges(minutes * MINUTE_US, questions, DEVICES)
    taken, _, read = timed([ours(shared.connection), ours(anew.connection)], asked, turn=500)
    found: dict[str, float] = {"range_sum_nodes_read_p95": int(quantile(read, 0.95))}
    for kind, times in zip(("changed", "anew"), taken, strict=True):
        found |= quantiles(f"range_sum_{kind}", times[FIRST:] or times)
        found |= quantiles(f"range_sum_{kind}_first", times[:FIRST])
    return found


def _quantiles(name: str, taken: list[float]) -> dict[str, float]:
    return {f"{name}_p{n}_s": round(quantile(taken, n / 100), 2) for n in (50, 95)}


def _write(sizes: list[dict[str, Any]]) -> None:
    page.write(
        "rollup",
        "publishing",
        "A publish after a small change",
        f"{DEVICES:,} devices; each batch touches {sizes[0]['batch_nodes']:,} nodes, the newest or any; two "
        "processors. `segments` are the files of the last version.",
        page.table(tuple(sizes[0]), [list(size.values()) for size in sizes]),
    )
