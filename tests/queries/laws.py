"""An example of every kind of query, and the life that tests lead it through: what each kind must come through.

A kind that is registered needs an example here, and then keeps the laws of ``test_laws.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from jobs import repair_late, run_queries
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.tables.table_log import read_columns, read_rows
from tests.queries.multiway.streams import NAMES, T0, configuration, some_rows
from tests.support import killing
from tests.support.crash_points import AGGREGATE_POINTS, JOIN_POINTS, MULTIWAY_POINTS, SELECTION_POINTS
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
ROWS = 80
EVERY_US = 2_000_000
JOBS = {"queries": "jobs.run_queries", "repair": "jobs.repair_late"}
# One kill of each job takes its JVM along.
FRESH = (("pairs", "queries.state-appended"), ("pairs", "repair.pairs-appended"))


@dataclass(frozen=True)
class Example:
    """A query of one ``kind`` over doors, badges and alerts.

    ``other``: what a part of the text is replaced by for it to mean something else; ``reworded``: for it to mean the
    same. ``points``: where its jobs can be killed. ``table``: where its results are, ``found`` reads them; ``truth``:
    the same from all rows.
    """

    kind: str
    text: str
    other: tuple[str, str]
    reworded: tuple[str, str]
    points: Sequence[str]
    table: str
    found: str
    truth: str


EXAMPLES = {
    "pairs": Example(
        "pairs",
        """
        SELECT d.room, d.value AS door, b.value AS badge
        FROM doors [RANGE 2 SECONDS] d JOIN badges b ON d.room = b.room AND b.value >= d.value + 1
        WHERE b.value < 9 RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS
        """,
        ("2 SECONDS", "3 SECONDS"),
        ("RECALL 0.9", "recall 0.95"),
        JOIN_POINTS,
        "pairs",
        "SELECT left_us, right_us, room, door, badge FROM found",
        """
        SELECT d.us, b.us, d.room, d.value, b.value FROM doors d, badges b
        WHERE d.room = b.room AND b.value >= d.value + 1 AND b.value < 9 AND abs(d.us - b.us) <= 2000000
        """,
    ),
    "multiway": Example(
        "multiway",
        """
        SELECT d.room, d.value AS door, b.value AS badge, a.value AS alert
        FROM doors [8 SECONDS] d JOIN badges [3 SECONDS] b ON d.room = b.room AND d.floor = b.floor
        JOIN alerts [15 SECONDS] a ON a.room = b.room AND a.floor = d.floor WHERE a.value < 9
        RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS AHEAD 1 HOUR
        """,
        ("8 SECONDS", "9 SECONDS"),
        ("JOIN", "join"),
        MULTIWAY_POINTS,
        "multiway",
        "SELECT times_us, room, door, badge, alert FROM found",
        """
        SELECT [d.us, b.us, a.us], d.room, d.value, b.value, a.value FROM doors d, badges b, alerts a
        WHERE d.room = b.room AND d.floor = b.floor AND a.room = b.room AND a.floor = d.floor AND a.value < 9
        AND greatest(b.us, a.us) - d.us <= 8000000 AND greatest(d.us, a.us) - b.us <= 3000000
        AND greatest(d.us, b.us) - a.us <= 15000000
        """,
    ),
    "aggregate": Example(
        "aggregate",
        """
        SELECT d.room, COUNT(*) AS n, SUM(b.value) AS total
        FROM doors [8 SECONDS] d JOIN badges [5 SECONDS] b ON d.room = b.room
        GROUP BY d.room HAVING MAX(d.value) > 5 EVERY 2 SECONDS SLACK 3 SECONDS AHEAD 1 HOUR ALARM
        """,
        ("SLACK 3", "SLACK 2"),
        ("JOIN", "join"),
        AGGREGATE_POINTS,
        "answers",
        """
        SELECT tick_us, room, n, total FROM (FROM found
        QUALIFY row_number() OVER (PARTITION BY tick_us, room ORDER BY revision DESC) = 1) WHERE holds
        """,
        """
        SELECT tick, d.room, count(*), sum(b.value) FROM ticks, doors d, badges b
        WHERE tick - d.us BETWEEN 0 AND 8000000 AND tick - b.us BETWEEN 0 AND 5000000 AND d.room = b.room
        GROUP BY tick, d.room HAVING max(d.value) > 5
        """,
    ),
    "selection": Example(
        "selection",
        "SELECT room, value FROM doors WHERE value > 2 AND is_even(floor)",
        ("> 2", "> 3"),
        ("SELECT", "select"),
        SELECTION_POINTS,
        "selection",
        "SELECT event_us, room, value FROM found",
        "SELECT us, room, value FROM doors WHERE value > 2 AND floor % 2 = 0",
    ),
}
# Besides, an aggregate whose ticks wait for late rows.
_AT_ONCE = EXAMPLES["aggregate"]
WAITING = replace(_AT_ONCE, text=_AT_ONCE.text.replace("AHEAD", "RECALL 0.9 OVER 10 SECONDS AHEAD"))
LED = EXAMPLES | {"waiting": WAITING}
IS_EVEN = "def is_even(floor) -> bool:\n    return floor is not None and floor % 2 == 0\n"
# Moving a row is so dear that the join of three streams counts keys first, even of so few rows, as soon as it may pay.
DEAR = 10**6
# A query of the same text, whose rows come in one batch, other buckets, and in tasks of Spark.
TWIN = "at_once"


@dataclass
class Life:
    """A query, by the name of its example, through everything: late rows, a silent stream, kills, repairs."""

    spark: SparkSession
    on_spark: SparkSession
    settings: Settings
    name: str
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in NAMES})
    landed: int = 0
    jobs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def begin(cls, spark: SparkSession, on_spark: SparkSession, folder: Path, name: str) -> Life:
        """Return the query of an example, and one of the same text, registered below a folder.

        Kernels run in this process with one session, and in Spark's tasks with the other.
        """
        for each in ("queries", "predicates"):
            (folder / each).mkdir()
        (folder / "predicates" / "is_even.py").write_text(IS_EVEN)
        for each in (name, TWIN):
            (folder / "queries" / f"{each}.sql").write_text(LED[name].text)
        config = folder / "tidemark.toml"
        config.write_text(configuration(DEAR), encoding="utf-8")
        return cls(spark, on_spark, load_settings(config), name)

    @property
    def example(self) -> Example:
        """Its example."""
        return LED[self.name]

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.example.kind

    def lead(self) -> None:
        """Lead the query through all: its results are complete in the end."""
        whole = self.part(0)
        nothing: dict[str, list[Row]] = {name: [] for name in NAMES}
        self.land({**nothing, NAMES[0]: whole[NAMES[0]]})
        self.run()
        self.land({**whole, NAMES[0]: []})
        self.run()
        # The batches that are killed know of a repair.
        self.repair()
        self.land(self.part(2))
        self.cut(3)
        for number, point in enumerate(self.points("queries")):
            self.kill(point)
            if number == 0:
                # It comes when the batch is planned, is left to the next one, and all of it is late.
                self.land(self.part(1))
                self.cut(12)
        # These two batches go on in Spark's tasks from what this process has left.
        run_queries.run(self.settings, self.on_spark, self.name)
        for point in self.points("repair"):
            self.kill(point)
        self.repair()
        others = self.settings.model_copy(
            update={"queries": self.settings.queries.model_copy(update={"buckets": 1})}
        )
        self.jobs["batch"] = self.jobs_of(lambda: run_queries.run(others, self.on_spark, TWIN))
        self.jobs["repair"] = self.jobs_of(lambda: repair_late.run(others, self.on_spark, TWIN))

    def jobs_of(self, work: Callable[[], object]) -> int:
        """Return how many jobs Spark runs for some work."""
        known = self.on_spark.sparkContext.statusTracker().getJobIdsForGroup
        before = max(known(), default=-1)
        work()
        return max(known(), default=-1) - before

    def cut(self, buckets: int) -> None:
        """Have batches that are planned from now on cut into so many buckets."""
        config = self.predicates.parent / "tidemark.toml"
        config.write_text(configuration(DEAR) + f"[queries]\nbuckets = {buckets}\n", encoding="utf-8")
        self.settings = load_settings(config)

    @property
    def predicates(self) -> Path:
        """The folder of predicates."""
        assert self.settings.config is not None
        return self.settings.config.parent / "predicates"

    def part(self, number: int) -> dict[str, list[Row]]:
        """Return rows of twenty seconds of all streams, a third of them late."""
        found = some_rows(11, number, ROWS)
        return {
            name: [{**row, "ts": min(row["ts"], row["received"])} for row in found[name]] for name in NAMES
        }

    def land(self, rows: Mapping[str, Sequence[Row]], file: str | None = None) -> None:
        """Put some more rows of some streams into raw, as a file of this name, or of the next number."""
        self.landed += 1
        for name, some in rows.items():
            folder = Path(self.settings.streams[name].source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (file or f"{self.landed}.ndjson")).write_text(
                "".join(json.dumps(row) + "\n" for row in some)
            )
            self.rows[name] += some
            take_in(self.settings, self.spark, name)

    def run(self) -> dict[str, Any]:
        """Run the query."""
        return run_queries.run(self.settings, self.spark, self.name)

    def repair(self) -> dict[str, Any]:
        """Repair the query."""
        return repair_late.run(self.settings, self.spark, self.name)

    def points(self, job: str) -> list[str]:
        """Return where a job can be killed, in the order in which a run passes them."""
        return [point for point in self.example.points if point.startswith(job)]

    def kill(self, point: str) -> None:
        """Run the job that passes a point in a process that dies there."""
        job = JOBS[point.partition(".")[0]]
        words = ("--config", str(self.settings.config), self.name)
        if (self.kind, point) in FRESH:
            killing.kill_fresh(point, job, *words)
        else:
            killing.kill(self.spark, point, job, *words)

    def table(self, query: str) -> list[Row]:
        """Return all rows of the results of a query."""
        folder: Path = getattr(self.settings.layout, self.example.table)(query)
        return read_rows(folder)

    def found(self, query: str) -> Counter[tuple[Any, ...]]:
        """Return what a query came to."""
        rows = self.table(query)
        if self.kind == "aggregate":
            # A query answers as many ticks as its slack lets it: those count that the one of the kind has answered.
            rows = [row for row in rows if row["tick_us"] in self.ticks()]
        return asked(self.example.found, found=pa.Table.from_pylist(rows))

    def truth(self) -> Counter[tuple[Any, ...]]:
        """Return what the query means, from all rows."""
        streams = {
            name: pa.Table.from_pylist([row | {"us": row["ts"] * 1000} for row in rows])
            for name, rows in self.rows.items()
        }
        return asked(self.example.truth, **streams, ticks=pa.table({"tick": self.ticks()}))

    def ticks(self) -> list[int]:
        """Return every tick that an aggregate has answered; none of a query of another kind."""
        if self.kind != "aggregate":
            return []
        times = read_columns(self.settings.layout.queries(self.name), ("time_us",))
        last = max(time for (time,) in times if time is not None)
        return list(range(T0 * 1000 // EVERY_US * EVERY_US, last + 1, EVERY_US))


def asked(statement: str, **tables: pa.Table) -> Counter[tuple[Any, ...]]:
    """Return what DuckDB answers over some tables."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows = connection.execute(statement).fetchall()
    return Counter(tuple(tuple(each) if isinstance(each, list) else each for each in row) for row in rows)
