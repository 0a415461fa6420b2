"""Costs of a batch of a registered query, with few or many rows held, and of ten queries.

    python -m tests.benchmarks.query_batch [--quick] [--json]

Two streams, ``asks`` and ``replies``, each 5,000 rows a second of a thousand devices, one row in a hundred a second
late; a reply has the number of its ask. Held before: 10^5, 10^6 and 10^7 rows of both; ``--quick``: 2,000. Then batches
of 10,000 rows, each taken in by

    pairs    each ask with its reply, within an hour
    count    COUNT(*) and SUM over asks and replies of one device, within an hour, every second
    ten      four aggregates, three joins of pairs, two selections and a multi-way join at once

with ``run_queries`` in one warm session, the shipped settings: seconds of the clock, medians of three batches after two
that warm up, and the bytes that a batch adds to the query's tables. ``plain``: the same answers for the new rows by a
join of Spark over all rows of the hour, read from the same tables of Delta and appended to one; it keeps no state.
``query_hour`` is an hour at 20,000 rows a second: half an hour of work. ``query_scale`` changes the number of buckets.
``query_runners`` compares the runners of the engine.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jobs import ingest, run_queries
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import started_session
from tests.benchmarks.parts import run_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HELD, QUICK_HELD = (100_000, 1_000_000, 10_000_000), (2_000,)
NEW, DEVICES, PER_S = 10_000, 1000, 5_000
WARM_UP, BATCHES = 2, 3
T0_US = 1_600_000_000_000_000
# So many rows at most in a file, and so in a batch of ingest.
FILE_ROWS = 2_000_000
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "us" }}
arrival_time = {{ column = "came", unit = "us" }}
keys = ["device"]
measures = ["temp"]
groupings = [[]]
levels = ["1h forever"]
source = {{ path = "landing/{name}/*.csv", format = "csv", settle = 0 }}
columns = {{ ts = "int", came = "int", number = "int", device = "string", temp = "double" }}
"""
_BOTH = "FROM asks A[{0}], replies B[{0}] WHERE A.device = B.device"
_PAIRS = "FROM asks [RANGE {0}] a JOIN replies r ON a.number = r.number"
QUERIES = {
    "pairs": f"SELECT a.device, r.temp {_PAIRS.format('1 HOUR')} RECALL 0.95 OVER 1 MINUTE",
    "count": f"SELECT COUNT(*), SUM(A.temp) {_BOTH.format('1 HOUR')} EVERY 1 SECOND",
}
TEN = {
    **QUERIES,
    "hot": f"SELECT device, MAX(A.temp) {_BOTH.format('1 MINUTE')} GROUP BY device EVERY 1 SECOND",
    "alarming": f"SELECT device, COUNT(*) {_BOTH.format('1 MINUTE')} AND A.temp >= 30 GROUP BY device"
    " HAVING COUNT(*) > 5 EVERY 1 SECOND ALARM",
    "mean": f"SELECT AVG(B.temp) {_BOTH.format('10 MINUTE')} EVERY 10 SECONDS",
    "near": f"SELECT a.number, r.number AS other {_PAIRS.format('1 SECOND')} RECALL 0.9 OVER 1 MINUTE",
    "warmer": f"SELECT a.number, r.temp {_PAIRS.format('1 MINUTE')} AND r.temp > a.temp + 5 RECALL 0.9 OVER 1 MINUTE",
    "cold": "SELECT number, temp FROM asks WHERE temp < 8",
    "warm": "SELECT number, temp FROM replies WHERE temp > 32",
    "three": "SELECT a.device FROM asks [RANGE 1 MINUTE] a JOIN replies [RANGE 1 MINUTE] b ON a.number = b.number"
    " JOIN asks [RANGE 1 MINUTE] c ON c.number = b.number",
}


def figures(quick: bool) -> dict[str, Any]:
    """Return seconds and megabytes of a batch by query and rows held, and the seconds of ten queries."""
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        few, ten = Home(Path(name) / "few", QUERIES, quick), Home(Path(name) / "ten", TEN, quick)
        found: dict[str, Any] = {}
        for held in QUICK_HELD if quick else HELD:
            found |= few.measured(held)
        found["ten_s"] = ten.seconds_of_all()
        ten.spark.stop()
        return found


class Home:
    """A home with some registered queries, and the streams so far."""

    def __init__(
        self,
        folder: Path,
        queries: dict[str, str],
        quick: bool,
        per_s: int = PER_S,
        session_of: Callable[[Settings], SparkSession] = started_session,
    ) -> None:
        folder.mkdir()
        (folder / "tidemark.toml").write_text("".join(STREAM.format(name=s) for s in ("asks", "replies")))
        (folder / "queries").mkdir()
        for name, text in queries.items():
            (folder / "queries" / f"{name}.sql").write_text(text)
        self.folder, self.queries, self.rows, self.files = folder, list(queries), 0, 0
        self.step_us = 1_000_000 // per_s
        self.warm_up, self.batches = (0, 1) if quick else (WARM_UP, BATCHES)
        self.settings: Settings = load_settings(folder / "tidemark.toml")
        self.spark = session_of(self.settings)

    def measured(self, held: int) -> dict[str, Any]:
        """Return what a batch costs once so many rows have come."""
        while self.rows < held:
            self.land(min(held - self.rows, FILE_ROWS))
            self.run()
        taken: dict[str, list[float]] = {}
        for _ in range(self.warm_up + self.batches):
            self.land(NEW)
            for name, seconds, size in self.run():
                taken.setdefault(f"{name}_s", []).append(seconds)
                taken.setdefault(f"{name}_mb", []).append(size / 1e6)
        for name, plain in (("pairs", self.plain_pairs), ("count", self.plain_count)):
            taken[f"plain_{name}_s"] = [_seconds(plain) for _ in range(self.warm_up + self.batches)]
        return {
            f"{name}_at_{held}": round(statistics.median(v[self.warm_up :]), 2) for name, v in taken.items()
        }

    def seconds_of_all(self) -> float:
        """Return what a batch of all queries together costs."""
        taken = []
        for _ in range(self.warm_up + self.batches):
            self.land(NEW)
            taken.append(sum(seconds for _, seconds, _ in self.run()))
        return round(statistics.median(taken[self.warm_up :]), 2)

    def run(self) -> list[tuple[str, float, int]]:
        """Run each query; return its seconds, and the bytes that were added to its tables."""
        found = []
        for name in self.queries:
            before, started = self.size(name), time.perf_counter()
            run_queries.run(self.settings, self.spark, name)
            found.append((name, time.perf_counter() - started, self.size(name) - before))
        return found

    def size(self, query: str) -> int:
        """Return the bytes of a query's tables on disk."""
        folders = map(Path, self.settings.layout.tables_of(query))
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    def land(self, rows: int) -> float:
        """Land rows, as ``write`` does, and ingest them; return the seconds that writing the files took."""
        taken = self.write(rows)
        for name in ("asks", "replies"):
            ingest.run(self.settings, self.spark, name)
        return taken

    def write(self, rows: int) -> float:
        """Land half as many asks and as many replies as asked for, which follow those before; return the seconds."""
        taken = 0.0
        number = self.rows // 2 + np.arange(rows // 2)
        for at, name in enumerate(("asks", "replies")):
            dice = np.random.default_rng([at, self.files])
            event = T0_US + number * self.step_us + at * 1000
            came = event + np.where(dice.random(len(number)) < 0.01, 1_000_000, 1000)
            temp = np.round(dice.normal(20, 5, len(number)), 2)
            device = np.char.add("device-", (number % DEVICES).astype(str))
            columns = {"ts": event, "came": came, "number": number, "device": device, "temp": temp}
            started = time.perf_counter()
            self._write(name, columns)
            taken += time.perf_counter() - started
        self.rows, self.files = self.rows + rows // 2 * 2, self.files + 1
        return taken

    def _write(self, stream: str, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        folder = self.folder / "landing" / stream
        folder.mkdir(parents=True, exist_ok=True)
        pacsv.write_csv(pa.table(columns), folder / f"{self.files}.csv")

    def plain_pairs(self) -> DataFrame:
        """Return the newest asks and replies with their partners of the hour, as Spark joins them."""
        (asks, new_asks), (replies, new_replies) = self._raw("asks"), self._raw("replies")
        older = asks.join(new_asks.select("number"), "number", "left_anti")
        found = [
            left.alias("a")
            .join(right.alias("r"), "number")
            .where("abs(a.event_us - r.event_us) <= 3600000000")
            for left, right in ((new_asks, replies), (older, new_replies))
        ]
        return found[0].union(found[1]).select("a.device", "r.temp")

    def plain_count(self) -> DataFrame:
        """Return count and sum of the newest second, as Spark adds them up."""
        sides = []
        for name in ("asks", "replies"):
            held, _ = self._raw(name)
            sides.append(held.groupBy("device").agg({"*": "count", "temp": "sum"}))
        both = sides[0].toDF("device", "n", "total").join(sides[1].toDF("device", "m", "other"), "device")
        return both.selectExpr("sum(n * m) AS results", "sum(total * m) AS total")

    def _raw(self, stream: str) -> tuple[DataFrame, DataFrame]:
        """Return all rows of the hour of a stream, and the newest."""
        raw = self.spark.read.format("delta").load(str(self.settings.layout.raw(stream)))
        last = T0_US + (self.rows // 2) * self.step_us
        held = raw.where(raw.event_us > last - 3_600_000_000)
        return held, held.where(held.event_us >= last - 1_000_000)


def _seconds(answer: Callable[[], DataFrame]) -> float:
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        started = time.perf_counter()
        answer().write.format("delta").save(f"{name}/plain")
        return time.perf_counter() - started


if __name__ == "__main__":
    run_parts(
        __doc__,
        __package__,
        ("query_batch",),
        only_in_full=("query_runners", "query_hour", "query_scale", "query_skew"),
    )
