"""A thousand revised rows behind up to ten million, beside what DuckDB and Delta take for a MERGE of the same; no JVM.

    python -m tests.benchmarks.revisions [--quick] [--json]

A hundred gauges report for ninety days; later a batch of provisional values is approved with other values: ``one_day``
has ten gauges' rows of about a day, ``scattered`` rows of any. Of each kind the median of whole jobs: ``ingest_s``
(newer rows are found, older ones leave raw, their nodes are built again), ``rollup_s``, ``publish_s``, and
``question_s``, the sum by gauge over all days. ``publish_in_full_s``: all nodes are published anew, without sharing.

``duckdb_merge_s`` and ``deltalake_merge_s`` take the same batch into one table of the same rows: DuckDB by an update
with an index on the identity, delta-rs by MERGE with bounds of its times. ``duckdb_days_s`` sums by gauge and hour
again for the days concerned, ``duckdb_all_s`` for all; ``duckdb_question_s`` sums the rows by gauge. ``--quick``:
behind twenty thousand rows, once.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
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
from lakehouse.spark.session import LazySession
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
DAY_US = 86_400_000_000
T0, SPAN_US = 1_600_000_000_000_000 // DAY_US * DAY_US, 90 * DAY_US
Numbers = npt.NDArray[np.int64]


def figures(quick: bool) -> dict[str, Any]:
    """Return by rows held and kind of batch what each step took."""
    found = {}
    for size in QUICK_SIZES if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
            found[str(size)] = _measured(Path(name), size, 1 if quick else ROUNDS)
    return {"revisions": found}


def _measured(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    (folder / "tidemark.toml").write_text(DECLARED)
    (folder / "landing").mkdir()
    settings = load_settings(folder / "tidemark.toml")
    ours, peers = _Ours(settings), _Peers(folder)
    for start in range(0, size, FILE_ROWS):
        rows = _rows(np.arange(start, min(size, start + FILE_ROWS)), size, "P")
        pq.write_table(rows, folder / "landing" / f"{start:09}.parquet")
        peers.hold(rows)
    peers.begin()
    for step in (ours.ingest, ours.rollup, ours.publish):
        step()
    dice, found = np.random.default_rng(1), dict[str, Any]()
    for kind in ("one_day", "scattered"):
        times: dict[str, list[float]] = {}
        for turn in range(1 + rounds):
            rows = _rows(_chosen(kind, size, dice), size, f"A{turn}")
            pq.write_table(rows, folder / "landing" / f"{kind}-{turn}.parquet")
            for name, step in (ours.steps() | peers.steps(rows)).items():
                seconds = _seconds(step)
                # The first turn warms up.
                if turn:
                    times.setdefault(name, []).append(seconds)
        ours.compare(peers)
        found[kind] = {name: round(statistics.median(each), 4) for name, each in times.items()}
    return found | {"publish_in_full_s": round(_seconds(lambda: ours.publish(in_full=True)), 4)}


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
    """One table of the same rows in DuckDB, and one in Delta."""

    def __init__(self, folder: Path) -> None:
        self._delta = str(folder / "delta")
        self._duckdb = duckdb.connect(str(folder / "peer.duckdb"))
        self._duckdb.execute(
            "CREATE TABLE flow (ts BIGINT, site VARCHAR, value DECIMAL(18, 1), code VARCHAR)"
        )

    def hold(self, rows: pa.Table) -> None:
        """Add rows of the time before; those of the batch are looked up by their identity."""
        self._duckdb.execute("INSERT INTO flow FROM rows")
        write_deltalake(self._delta, rows, mode="append")

    def begin(self) -> None:
        """Index the identity, and make the table of sums."""
        self._duckdb.execute("CREATE UNIQUE INDEX place ON flow (site, ts)")
        self._sum_all()

    def steps(self, rows: pa.Table) -> dict[str, Callable[[], object]]:
        """Return what a batch takes."""
        return {
            "duckdb_merge_s": lambda: self._merge(rows),
            "duckdb_days_s": lambda: self._sum_days(rows),
            "duckdb_all_s": self._sum_all,
            "duckdb_question_s": self.ask,
            "deltalake_merge_s": lambda: self._merge_delta(rows),
        }

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
        ends = pa.compute.min_max(rows["ts"]).as_py()
        within = f"held.ts >= {ends['min']} AND held.ts <= {ends['max']}"
        same = f"held.site = new.site AND held.ts = new.ts AND {within}"
        merge = DeltaTable(self._delta).merge(rows, same, source_alias="new", target_alias="held")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _sum_all(self) -> None:
        self._duckdb.execute(f"CREATE OR REPLACE TABLE hours AS {_SUMMED} FROM flow GROUP BY ALL")

    def _sum_days(self, rows: pa.Table) -> None:
        days = f"(SELECT DISTINCT ts // {DAY_US} FROM rows)"
        self._duckdb.execute(f"DELETE FROM hours WHERE hour // 24 IN {days}")
        self._duckdb.execute(
            f"INSERT INTO hours {_SUMMED} FROM flow WHERE ts // {DAY_US} IN {days} GROUP BY ALL"
        )


_SUMMED = f"SELECT site, ts // {DAY_US // 24} AS hour, count(*), sum(value), min(value), max(value), min(ts), max(ts)"


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
