"""A thousand revised rows behind up to ten million, beside what DuckDB, delta-rs and Delta on Spark take for a MERGE.

    python -m tests.benchmarks.revisions [--quick] [--json]

A hundred gauges report for ninety days; later a batch of provisional values is approved with other values: ``one_day``
has ten gauges' rows of about a day, ``scattered`` rows of any. Of each kind the median of whole jobs: ``ingest_s``
(newer rows are found, older ones leave raw, their nodes are built again), ``rollup_s``, ``publish_s``, and
``question_s``, the sum by gauge over all days. ``publish_in_full_s``: all nodes are published anew, without sharing.

``duckdb_merge_s``, ``deltalake_merge_s`` and ``spark_merge_s`` take the same batch into one table of the same rows:
DuckDB by an update with an index on the identity, delta-rs and delta-spark (in one warm session, with deletion vectors)
by MERGE with bounds of its times. ``duckdb_days_s`` sums by gauge and hour again for the days concerned,
``duckdb_all_s`` for all; ``duckdb_question_s`` sums the rows by gauge. Each turn prints a line on standard error when
it is over, and a full run writes its page after each size. ``--quick``: behind twenty thousand rows, once,
without Spark.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from jobs import build_rollups, ingest, publish
from lakehouse.serving.ask.ask import ask
from lakehouse.settings import Settings, load_settings
from lakehouse.spark.session import LazySession, started_session
from tests.benchmarks.page import table, write
from tests.benchmarks.parts import run_parts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECLARED = """
home = "var"
engine = { runner = "local" }
[streams.flow]
event_time = { column = "ts", unit = "us" }
identity = ["site", "ts"]
revisions = "newest"
keys = ["site"]
measures = ["value"]
groupings = [["site"], []]
levels = ["1h for 365d", "1d forever"]
source = { path = "landing/*.parquet", format = "parquet", settle = 0 }
columns.value = { type = "decimal", decimals = 1 }
columns.code = "string"
columns.ts = "int"
"""
SIZES, QUICK_SIZES = (100_000, 1_000_000, 10_000_000), (20_000,)
FILE_ROWS, REVISED, ROUNDS, SITES = 1_000_000, 1_000, 3, 100
KINDS = ("one_day", "scattered")
# What a peer does for what ours does in ingest, rollup and publish; Delta's tables have no sums.
_PEERS = (
    ("DuckDB, sums of days", ("duckdb_merge_s", "duckdb_days_s")),
    ("DuckDB, all sums", ("duckdb_merge_s", "duckdb_all_s")),
    ("its question", ("duckdb_question_s",)),
    ("delta-rs", ("deltalake_merge_s",)),
    ("delta-spark", ("spark_merge_s",)),
)
DAY_US = 86_400_000_000
T0, SPAN_US = 1_600_000_000_000_000 // DAY_US * DAY_US, 90 * DAY_US
Numbers = npt.NDArray[np.int64]


def figures(quick: bool) -> dict[str, Any]:
    """Return by rows held and kind of batch what each step took."""
    found: dict[str, Any] = {}
    for size in QUICK_SIZES if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            spark = None if quick else started_session(Settings(home=Path(name) / "spark"))
            _measure(Path(name), size, 1 if quick else ROUNDS, spark, found.setdefault(str(size), {}))
            if spark is not None:
                write_page(found)
                spark.stop()
    return {"revisions": found}


def write_page(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the seconds of each of our steps, and of each peer."""
    heads = ["rows held", "batch", "ingest", "rollup", "publish", "question", *(name for name, _ in _PEERS)]
    rows = [
        [int(size), kind, *(took[f"{step}_s"] for step in ("ingest", "rollup", "publish", "question"))]
        + [sum(took[part] for part in parts) for _, parts in _PEERS]
        for size, kinds in found.items()
        for kind, took in kinds.items()
        if kind in KINDS
    ]
    told = "Seconds. Where other work runs on the same cores, compare the columns of a row."
    write("revisions", "revisions", "A thousand revised rows", __doc__ or "", told, table(heads, rows))


def _measure(folder: Path, size: int, rounds: int, spark: SparkSession | None, found: dict[str, Any]) -> None:
    (folder / "tidemark.toml").write_text(DECLARED)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    ours, peers = _Ours(settings), _Peers(folder, spark)
    for start in range(0, size, FILE_ROWS):
        rows = _rows(np.arange(start, min(size, start + FILE_ROWS)), size, "P")
        pq.write_table(rows, folder / "landing" / f"{start:09}.parquet")
        peers.hold(rows)
    first = {"begin_peers_s": peers.begin} | ours.steps()
    _say(size, "first", {name: _seconds(step) for name, step in first.items()})
    dice = np.random.default_rng(1)
    for kind in KINDS:
        times: dict[str, list[float]] = {}
        for turn in range(1 + rounds):
            rows = _rows(_chosen(kind, size, dice), size, f"A{turn}")
            pq.write_table(rows, folder / "landing" / f"{kind}-{turn}.parquet")
            took = {name: _seconds(step) for name, step in (ours.steps() | peers.steps(rows)).items()}
            _say(size, f"{kind} {turn}", took)
            # The first turn warms up.
            for name, seconds in took.items() if turn else ():
                times.setdefault(name, []).append(seconds)
        ours.compare(peers)
        found[kind] = {name: round(statistics.median(each), 4) for name, each in times.items()}
    found["publish_in_full_s"] = round(_seconds(lambda: ours.publish(in_full=True)), 4)
    _say(size, "at last", {"publish_in_full_s": found["publish_in_full_s"]})


def _say(size: int, what: str, took: Mapping[str, float]) -> None:
    figures = ", ".join(f"{name} {seconds:.3f}" for name, seconds in took.items())
    print(f"{size:>12,} {what}: {figures}", file=sys.stderr, flush=True)


class _Ours:
    """A home, and the jobs that take a batch in."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._spark = settings, cast("SparkSession", LazySession(settings))

    def steps(self) -> dict[str, Callable[[], object]]:
        return {
            "ingest_s": self.ingest,
            "rollup_s": self.rollup,
            "publish_s": self.publish,
            "question_s": self.ask,
        }

    def ingest(self) -> object:
        return ingest.run(self._settings, self._spark, "flow")

    def rollup(self) -> object:
        return build_rollups.run(self._settings, self._spark, "flow")

    def publish(self, in_full: bool = False) -> object:
        return publish.run(self._settings, self._spark, unchecked=True, in_full=in_full)

    def ask(self) -> dict[str | None, float | None]:
        found = ask(self._settings.layout, "flow", "value", "sum", T0, T0 + SPAN_US, by=["site"])
        return {one.key["site"]: one.value for one in found}

    def compare(self, peers: _Peers) -> None:
        """Refuse figures of other answers than DuckDB has. Raises AssertionError when a sum differs."""
        expected = peers.ask()
        assert {site: round(value or 0, 1) for site, value in self.ask().items()} == expected


class _Peers:
    """One table of the same rows in DuckDB, one in Delta, and a copy of that for Spark if there is one."""

    def __init__(self, folder: Path, spark: SparkSession | None) -> None:
        self._spark, self._folder = spark, folder
        self._delta, self._of_spark = str(folder / "delta"), f"delta.`{folder / 'of_spark'}`"
        self._duckdb = duckdb.connect(str(folder / "peer.duckdb"))
        self._duckdb.execute(
            "CREATE TABLE flow (ts BIGINT, site VARCHAR, value DECIMAL(18, 1), code VARCHAR)"
        )

    def hold(self, rows: pa.Table) -> None:
        """Add rows of the time before; those of the batch are looked up by their identity."""
        self._duckdb.execute("INSERT INTO flow FROM rows")
        write_deltalake(self._delta, rows, mode="append")
        if self._spark is not None:
            write_deltalake(self._folder / "of_spark", rows, mode="append")

    def begin(self) -> None:
        """Index the identity, make the table of sums, and let Spark mark rows as deleted."""
        self._duckdb.execute("CREATE UNIQUE INDEX place ON flow (site, ts)")
        self._sum_all()
        if self._spark is not None:
            marks = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            self._spark.sql(f"ALTER TABLE {self._of_spark} {marks}")

    def steps(self, rows: pa.Table) -> dict[str, Callable[[], object]]:
        """Return what a batch takes."""
        steps: dict[str, Callable[[], object]] = {
            "duckdb_merge_s": lambda: self._merge(rows),
            "duckdb_days_s": lambda: self._sum_days(rows),
            "duckdb_all_s": self._sum_all,
            "duckdb_question_s": self.ask,
            "deltalake_merge_s": lambda: self._merge_delta(rows),
        }
        if (spark := self._spark) is not None:
            pq.write_table(rows, self._folder / "batch.parquet")
            steps["spark_merge_s"] = lambda: self._merge_spark(spark, rows)
        return steps

    def ask(self) -> dict[str, float]:
        """Return the sum of each gauge."""
        found = self._duckdb.execute("SELECT site, sum(value) FROM flow GROUP BY site").fetchall()
        return {site: float(total) for site, total in found}

    def _merge(self, rows: pa.Table) -> None:
        self._duckdb.execute(
            "UPDATE flow SET value = rows.value, code = rows.code FROM rows "
            "WHERE flow.site = rows.site AND flow.ts = rows.ts"
        )
        self._duckdb.execute("CHECKPOINT")

    def _merge_delta(self, rows: pa.Table) -> None:
        merge = DeltaTable(self._delta).merge(rows, _same(rows), source_alias="new", target_alias="held")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _merge_spark(self, spark: SparkSession, rows: pa.Table) -> None:
        new = f"parquet.`{self._folder / 'batch.parquet'}`"
        updated = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        spark.sql(f"MERGE INTO {self._of_spark} held USING {new} new ON {_same(rows)} {updated}")

    def _sum_all(self) -> None:
        self._duckdb.execute(f"CREATE OR REPLACE TABLE hours AS {_SUMMED} FROM flow GROUP BY ALL")

    def _sum_days(self, rows: pa.Table) -> None:
        days = f"(SELECT DISTINCT ts // {DAY_US} FROM rows)"
        self._duckdb.execute(f"DELETE FROM hours WHERE hour // 24 IN {days}")
        self._duckdb.execute(
            f"INSERT INTO hours {_SUMMED} FROM flow WHERE ts // {DAY_US} IN {days} GROUP BY ALL"
        )


_SUMMED = f"SELECT site, ts // {DAY_US // 24} AS hour, count(*), sum(value), min(value), max(value), min(ts), max(ts)"


def _same(rows: pa.Table) -> str:
    """Return the condition of a MERGE, with the ends of the times, by which files are left out."""
    ends = pa.compute.min_max(rows["ts"]).as_py()
    return f"held.site = new.site AND held.ts = new.ts AND held.ts BETWEEN {ends['min']} AND {ends['max']}"


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _chosen(kind: str, size: int, dice: np.random.Generator) -> Numbers:
    """Return the numbers of rows that are revised."""
    if kind == "scattered":
        return dice.choice(size, REVISED, replace=False)
    rows_a_day = size // 90
    of_sites = np.arange(REVISED if rows_a_day < 10 * REVISED else 10 * REVISED)
    of_sites = of_sites[of_sites % SITES < 10] if rows_a_day >= 10 * REVISED else of_sites
    return int(dice.integers(size - 10 * REVISED)) + of_sites


def _rows(numbers: Numbers, size: int, code: str) -> pa.Table:
    """Return rows by their number; those of the time before are spread over its days."""
    values = (numbers * 7919 + len(code) * hash_of(code)) % 10_000
    tenths = pa.array(values).cast(pa.decimal128(19, 0))
    tenth = pa.scalar("0.1").cast(pa.decimal128(2, 1))
    return pa.table(
        {
            "ts": T0 + numbers * (SPAN_US // size),
            "site": np.char.add("gauge-", (numbers % SITES).astype(str)),
            "value": pa.compute.multiply(tenths, tenth).cast(pa.decimal128(18, 1)),
            "code": [code] * len(numbers),
        }
    )


def hash_of(code: str) -> int:
    """Return a number of a code, the same in every process."""
    return sum(place * ord(letter) for place, letter in enumerate(code, start=1))


if __name__ == "__main__":
    run_parts(__doc__, __package__, ("revisions",))
