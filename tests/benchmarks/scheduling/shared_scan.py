"""Queries of three kinds that call one predicate, in the pipeline: in one round with a shared scan, and each by itself.

Real connections, repeated day after day, in Delta tables; the second batch of each query is measured, which begins
with what the first has shown. Two selections, two joins of pairs and two aggregates call ``resembles_scan``, seven
times in all, which Python asks row by row for tens of microseconds.

``scanned_s``: seconds that tasks spent in conditions. Seconds of the clock on the wall of whole batches, commits among
them. Both ways come to the same rows, pairs and answers.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import read_log, read_rows
from tests.benchmarks import page
from tests.benchmarks.scheduling.rows import REAL, absent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.queries.runtime.run import QueryRun

DAYS, QUICK_DAYS = 20, 2
DAY_S = 86_400
PREDICATE = """
from difflib import SequenceMatcher

SCANS = ("S", "Sr", "ShR")


def resembles_scan(state, history) -> bool:
    if history is None or state == "SF":
        return False
    return any(SequenceMatcher(None, history, each).ratio() > 0.7 for each in SCANS)
"""
CONFIG = """
home = "var"
[streams.conn]
event_time = { column = "ts", unit = "s" }
keys = ["src"]
measures = ["orig_bytes"]
levels = ["1m forever"]
[streams.conn.source]
path = "landing/*.log"
format = "zeek"
settle = 0
[streams.conn.columns]
uid = "string"
src = { path = "id.orig_h" }
dest = { path = "id.resp_h" }
proto = "string"
state = { path = "conn_state" }
history = "string"
orig_bytes = "int"
resp_bytes = "int"
"""
QUERIES = {
    "probes": "SELECT uid, src, dest FROM conn WHERE resembles_scan(state, history) AND proto = 'tcp'",
    "quiet": "SELECT uid FROM conn WHERE src LIKE '192.168.%' AND resembles_scan(state, history) AND orig_bytes > 0",
    "used": """
        SELECT p.uid AS probe, u.uid AS used FROM conn [RANGE 1 MINUTE] p JOIN conn [RANGE 1 MINUTE] u
        ON p.src = u.src AND p.dest = u.dest AND p.event_us < u.event_us
        WHERE resembles_scan(p.state, p.history) AND u.state = 'SF' RECALL 0.95 OVER 10 MINUTES EVERY 1 MINUTE
    """,
    "again": """
        SELECT p.uid AS one, q.uid AS other FROM conn [RANGE 10 SECONDS] p JOIN conn [RANGE 10 SECONDS] q
        ON p.dest = q.dest AND p.event_us < q.event_us
        WHERE resembles_scan(p.state, p.history) AND resembles_scan(q.state, q.history)
        RECALL 0.95 OVER 10 MINUTES EVERY 1 MINUTE
    """,
    "swept": """
        SELECT p.src, COUNT(*) AS n FROM conn [1 MINUTE] p JOIN conn [1 MINUTE] q ON p.src = q.src
        WHERE resembles_scan(p.state, p.history) AND q.proto = 'tcp' GROUP BY p.src EVERY 1 MINUTE SLACK 10 MINUTES
    """,
    "volume": """
        SELECT COUNT(*) AS n, SUM(q.resp_bytes) AS bytes FROM conn [10 MINUTES] p JOIN conn [1 MINUTE] q
        ON p.dest = q.dest WHERE resembles_scan(p.state, p.history) EVERY 10 MINUTES SLACK 10 MINUTES
    """,
}


def figures(quick: bool) -> dict[str, Any]:
    """Return how many times faster the round is than each query by itself, and all seconds."""
    if "zeek-m57-conn" in (missing := absent()):
        return {"shared_scan_skipped": missing}
    days = QUICK_DAYS if quick else DAYS
    ways: dict[str, Callable[[Lake], None]] = {
        "one round": Lake.together,
        "each by itself": Lake.one_by_one,
    }
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        base = Lake.of(Path(name) / "base", days)
        found = {
            label: _measured(base, Path(name) / str(n), way) for n, (label, way) in enumerate(ways.items())
        }
        rows = base.rows
    counts = {label: each.pop("counts") for label, each in found.items()}
    if len({tuple(sorted(each.items())) for each in counts.values()}) > 1:
        raise AssertionError(f"the ways differ: {counts}")
    if not quick:
        _write(found, rows)
    seconds = {label: each["seconds"] for label, each in found.items()}
    return {
        "shared_scan_rows": rows,
        "shared_scan_seconds": seconds,
        "shared_scan_scanned_s": {label: each["scanned_s"] for label, each in found.items()},
        "speedup_of_shared_scan": round(seconds["each by itself"] / seconds["one round"], 2),
    }


@dataclass(frozen=True)
class Lake:
    """A lakehouse whose queries have taken in the first of two batches of connections."""

    settings: Settings
    rows: int

    @classmethod
    def of(cls, folder: Path, days: int) -> Lake:
        """Return one with so many days; the first half of them was taken in by all queries."""
        from jobs import ingest

        for name in ("landing", "queries", "predicates"):
            (folder / name).mkdir(parents=True)
        (folder / "tidemark.toml").write_text(CONFIG)
        (folder / "predicates" / "resembles_scan.py").write_text(PREDICATE)
        for name, text in QUERIES.items():
            (folder / "queries" / f"{name}.sql").write_text(text)
        lake = cls(load_settings(folder / "tidemark.toml"), 0)
        rows = 0
        for half in (0, 1):
            _land(folder / "landing", range(half * days // 2, (half + 1) * days // 2))
            rows = ingest.run(lake.settings, lake.spark, "conn")["accepted"]
            if half == 0:
                lake.together()
        return replace(lake, rows=rows)

    @cached_property
    def spark(self) -> SparkSession:
        """The session of this process."""
        from lakehouse.spark.session import started_session

        return started_session(self.settings)

    def together(self) -> None:
        """Run all queries in rounds."""
        from lakehouse.engine import engine_of
        from lakehouse.queries.runtime.scan.rounds import Rounds

        Rounds(engine_of(self.spark), self.settings.layout, tuple(map(self.run_of, QUERIES))).drain()

    def one_by_one(self) -> None:
        """Run each query in rounds of its own."""
        from lakehouse.engine import engine_of
        from lakehouse.queries.runtime.scan.rounds import Rounds

        for name in QUERIES:
            Rounds(engine_of(self.spark), self.settings.layout, (self.run_of(name),)).drain()

    def run_of(self, query: str) -> QueryRun[Any]:
        """Return a query as it is run."""
        from jobs.run_queries import run_of

        return run_of(self.settings, self.spark, query)

    def counts(self) -> dict[str, int]:
        """Return how many rows, pairs or answers each query has."""
        layout = self.settings.layout
        places = {"probes": layout.selection, "quiet": layout.selection}
        places |= {"swept": layout.answers, "volume": layout.answers}
        logs = {name: read_log(places.get(name, layout.pairs)(name)) for name in QUERIES}
        return {name: (log.rows or 0) if log else 0 for name, log in logs.items()}

    def scanned_s(self) -> float:
        """Return the seconds that tasks spent in conditions, in the last batch of each query."""
        layout = self.settings.layout
        tables = (getattr(layout, place)(name) for name in QUERIES for place in ("operators", "queries"))
        rows = [row for table in tables for row in read_rows(table) if row.get("operator", -1) >= 0]
        # Kernels are the rows of joins without a side.
        asked = [row for row in rows if row["batch"] == 2 and (row["side"] is not None or row["slice_us"])]
        return float(sum(row["busy_us"] for row in asked)) / 1e6


def _measured(base: Lake, folder: Path, way: Callable[[Lake], None]) -> dict[str, Any]:
    """Return the seconds of a way over a copy of the lakehouse, the least of two; the first warms up."""
    taken = []
    for _ in range(2):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(base.settings.home.parent, folder)
        lake = Lake(load_settings(folder / "tidemark.toml"), base.rows)
        started = time.perf_counter()
        way(lake)
        taken.append(time.perf_counter() - started)
    return {
        "seconds": round(min(taken), 2),
        "scanned_s": round(lake.scanned_s(), 2),
        "counts": lake.counts(),
    }


def _land(folder: Path, days: range) -> None:
    """Write a file of the real day for each day, with times and identities of its own."""
    with gzip.open(REAL / "zeek-m57-conn" / "conn.log.gz", "rt") as lines:
        whole = list(lines)
    for day in days:
        text = "".join(line if line.startswith("#") else _moved(line, day) for line in whole)
        (folder / f"{day:03d}.log").write_text(text)


def _moved(line: str, day: int) -> str:
    at, uid, rest = line.split("\t", 2)
    return f"{float(at) + day * DAY_S:.6f}\t{uid}x{day}\t{rest}"


def _write(found: Mapping[str, Mapping[str, Any]], rows: int) -> None:
    table = page.table(
        ["way", "seconds", "of these in conditions, of all tasks", "rows/s of each batch"],
        [
            [label, each["seconds"], each["scanned_s"], rows / each["seconds"]]
            for label, each in found.items()
        ],
    )
    page.write("scheduling", "shared_scan", "A shared scan in the pipeline", __doc__ or "", table)
