"""Join-aggregates over raw tables: after repair every tick is what DuckDB makes of all rows, however they came."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from lakehouse.engine import engine_of
from lakehouse.engine.local import LocalEngine
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.run import AggregateRun
from lakehouse.queries.registered import parse_query
from lakehouse.queries.runtime.batch_manifest import Wanted
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.queries.runtime.tasks import by_bucket
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_columns
from tests.support.table_rows import arrow_rows, named_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
keys = ["place"]
measures = ["value"]
levels = ["1m forever"]
[streams.{name}.source]
path = "{name}/*"
format = "ndjson"
settle = 0
[streams.{name}.columns]
kind = "string"
"""
NAMES = ("heat", "smoke", "doors")
TOTALS = """-- every aggregate, over windows of different length
SELECT COUNT(*) AS n, COUNT(s.value) AS valued, SUM(s.value) AS total, AVG(h.value) AS usual,
    MIN(h.value) AS lowest, MAX(s.value * 2 - 1) AS highest
FROM heat [10 SECONDS] h, smoke [4 SECONDS] s
WHERE h.place = s.place AND h.value > 1
EVERY 2 SECONDS SLACK 3 SECONDS
"""
FIRES = """
SELECT h.place, s.kind, COUNT(*) AS n FROM heat [6 SECONDS] h JOIN smoke [6 SECONDS] s ON h.place = s.place
GROUP BY h.place, s.kind HAVING COUNT(*) > 2 AND MAX(h.value) >= 2.5
EVERY 1 SECOND SLACK 2 SECONDS ALARM
"""
ROUNDS = """
SELECT d.kind, COUNT(*) AS n, SUM(h.value) AS total
FROM heat [4 SECONDS] h, smoke [4 SECONDS] s, doors [8 SECONDS] d
WHERE h.place = s.place AND s.kind = d.kind
GROUP BY d.kind EVERY 2 SECONDS SLACK 1 SECOND
"""
YARDSTICKS = {
    "totals": """
        SELECT tick, count(*), count(s.value), sum(s.value), avg(h.value), min(h.value), max(s.value * 2 - 1)
        FROM ticks, heat h, smoke s
        WHERE tick - h.ts BETWEEN 0 AND 10000 AND tick - s.ts BETWEEN 0 AND 4000
            AND h.place = s.place AND h.value > 1
        GROUP BY tick
    """,
    "fires": """
        SELECT tick, h.place, s.kind, count(*) FROM ticks, heat h, smoke s
        WHERE tick - h.ts BETWEEN 0 AND 6000 AND tick - s.ts BETWEEN 0 AND 6000 AND h.place = s.place
        GROUP BY tick, h.place, s.kind HAVING count(*) > 2 AND max(h.value) >= 2.5
    """,
    "rounds": """
        SELECT tick, d.kind, count(*), sum(h.value) FROM ticks, heat h, smoke s, doors d
        WHERE tick - h.ts BETWEEN 0 AND 4000 AND tick - s.ts BETWEEN 0 AND 4000 AND tick - d.ts BETWEEN 0 AND 8000
            AND h.place = s.place AND s.kind = d.kind
        GROUP BY tick, d.kind
    """,
}
EVERY_MS = {"totals": 2000, "fires": 1000, "rounds": 2000}
T0 = 1_600_000_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Streams:
    """Three streams that come late, in parts, and the queries over them."""

    spark: SparkSession
    settings: Settings
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in NAMES})

    def land(self, part: int | str, rows: dict[str, list[Row]]) -> None:
        """Write and ingest one part of each stream; a text is the name of its file."""
        for name, some in rows.items():
            folder = Path(self.settings.streams[name].source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            (folder / (part if isinstance(part, str) else f"{part}.ndjson")).write_text(
                "".join(json.dumps(row) + "\n" for row in some)
            )
            self.rows[name] += some
            take_in(self.settings, self.spark, name)

    def run(self, query: str, buckets: int) -> AggregateRun:
        """Return a query under this number of buckets."""
        settings = self.settings
        return AggregateRun(
            engine_of(self.spark),
            settings.layout,
            settings.of_kind(AggregateQuery)[query],
            settings.streams,
            Wanted(buckets),
        )

    def answers(self, query: str) -> list[tuple[Any, ...]]:
        """Return the newest answers that hold, sorted."""
        found = arrow_rows(self.settings.layout.answers(query))
        shown = [each.name for each in self.settings.of_kind(AggregateQuery)[query].measures if each.is_shown]
        groups = [each.name for each in self.settings.of_kind(AggregateQuery)[query].groups]
        columns = ", ".join(["tick_us // 1000", *groups, *shown])
        newest = f"PARTITION BY {', '.join(['tick_us', *groups])} ORDER BY revision DESC"
        with duckdb.connect() as connection:
            connection.register("found", found)
            told = connection.sql(
                f"SELECT {columns} FROM (FROM found QUALIFY row_number() OVER ({newest}) = 1) WHERE holds"
            ).fetchall()
        return sorted(told, key=repr)

    def expected(self, query: str) -> list[tuple[Any, ...]]:
        """Return what the query is at each tick answered, from all rows; its name may go on behind an underscore."""
        kind = query.split("_")[0]
        times = read_columns(self.settings.layout.queries(query), ("time_us",))
        until = max(time for (time,) in times if time is not None) // 1000
        every = EVERY_MS[kind]
        first = min(row["ts"] for rows in self.rows.values() for row in rows)
        with duckdb.connect() as connection:
            ticks = pa.table({"tick": list(range(-(-first // every) * every, until + 1, every))})
            connection.register("ticks", ticks)
            for name, rows in self.rows.items():
                connection.register(name, pa.Table.from_pylist(rows, SCHEMA))
            return sorted(connection.sql(YARDSTICKS[kind]).fetchall(), key=repr)


SCHEMA = pa.schema(
    {
        "ts": pa.int64(),
        "received": pa.int64(),
        "place": pa.string(),
        "kind": pa.string(),
        "value": pa.float64(),
    }
)


@pytest.fixture
def streams(spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Streams:
    folder = tmp_path / "queries"
    folder.mkdir()
    for name, text in (("totals", TOTALS), ("fires", FIRES), ("rounds", ROUNDS)):
        (folder / f"{name}.sql").write_text(text)
    text = 'home = "var"\n' + "".join(STREAM.format(name=name) for name in NAMES)
    return Streams(spark, lakehouse_of(text))


def parts_of(seed: int, count: int, parts: int = 3) -> list[dict[str, list[Row]]]:
    """Rows of a minute in order of arrival, cut into parts; a third are late by some seconds, every column has gaps."""
    dice = np.random.default_rng(seed)

    def one() -> Row:
        ts = T0 + int(dice.integers(0, 60_000))
        delay = dice.exponential(6000) if dice.random() < 0.3 else dice.integers(0, 50)
        return {
            "ts": ts,
            "received": ts + int(delay),
            "place": None if dice.random() < 0.05 else f"p{dice.integers(6)}",
            "kind": None if dice.random() < 0.05 else "abc"[dice.integers(3)],
            "value": None if dice.random() < 0.05 else float(dice.integers(0, 7)) / 2,
        }

    rows = {
        name: sorted((one() for _ in range(count)), key=lambda row: (row["received"], row["ts"]))
        for name in NAMES
    }
    cuts = [0, *(part * count // parts for part in range(1, parts)), count]
    return [{name: rows[name][low:high] for name in NAMES} for low, high in pairwise(cuts)]


def parsed(name: str, text: str, streams: Streams) -> AggregateQuery:
    query = parse_query(name, text, streams.settings.streams)
    assert isinstance(query, AggregateQuery)
    return query


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    return len(found) == len(expected) and all(
        one == two or (isinstance(two, float) and math.isclose(one, two, rel_tol=1e-12, abs_tol=1e-12))
        for left, right in zip(found, expected, strict=True)
        for one, two in zip(left, right, strict=True)
    )


def test_after_repair_every_tick_is_that_of_all_rows_and_has_each_revision_once(streams: Streams) -> None:
    totals, rounds = streams.run("totals", 3), streams.run("rounds", 2)
    for part, rows in enumerate(parts_of(1, 240)):
        streams.land(part, rows)
        assert totals.drain()["answered"] > 0
        if part == 1:
            assert drain_repairs(totals)["found"] > 0
        if part > 0:
            assert rounds.drain()["answered"] > 0
    for run in (totals, rounds):
        before = streams.answers(run.query.name)
        assert drain_repairs(run)["found"] > 0
        after = streams.answers(run.query.name)
        assert before != after
        expected = streams.expected(run.query.name)
        assert len(expected) > 20
        assert same(after, expected), run.query.name

    found = named_rows(streams.settings.layout.answers("totals"))
    revisions: dict[int, list[int]] = {}
    for row in found:
        revisions.setdefault(row["tick_us"], []).append(row["revision"])
    assert all(sorted(each) == list(range(len(each))) for each in revisions.values())
    assert max(map(len, revisions.values())) > 1


def test_alarms_are_the_runs_of_ticks_at_which_having_holds(streams: Streams) -> None:
    run = streams.run("fires", 2)
    for part, rows in enumerate(parts_of(5, 270, 2)):
        streams.land(part, rows)
        run.drain()
    drain_repairs(run)

    expected = streams.expected("fires")
    assert same(streams.answers("fires"), expected)
    held = {(place, kind, tick) for tick, place, kind, _ in expected}
    raised = {(p, k, t) for p, k, t in held if (p, k, t - 1000) not in held}
    found = named_rows(streams.settings.layout.alarms("fires"))
    newest: dict[str, Any] = {}
    for row in found:
        if row["alarm"] not in newest or newest[row["alarm"]]["change"] < row["change"]:
            newest[row["alarm"]] = row
    standing = [row for row in newest.values() if row["state"] != "withdrawn"]
    assert {(row["place"], row["kind"], row["raised_us"] // 1000) for row in standing} == raised
    assert len(standing) == len(raised) > 5
    for row in standing:
        end = math.inf if row["cleared_us"] is None else row["cleared_us"] // 1000
        assert (row["place"], row["kind"], end) not in held
    assert any(row["change"] > 0 for row in found)


def test_a_silent_stream_does_not_hold_ticks_back_where_it_may_idle(streams: Streams) -> None:
    rows = parts_of(4, 60, 1)[0]
    text = TOTALS.replace("SLACK 3 SECONDS", "SLACK 3 SECONDS IDLE 5 SECONDS")
    run = replace(streams.run("totals", 2), query=parsed("totals", text, streams))
    for part, landed in enumerate(
        ({"heat": rows["heat"], "smoke": []}, {"heat": [], "smoke": rows["smoke"]})
    ):
        streams.land(part, landed)
        run.drain()
    # Ticks were given as passed before the other stream came, so its rows are late and wait for the repair.
    assert drain_repairs(run)["found"] > 0
    assert same(streams.answers("totals"), streams.expected("totals"))


class Counted(LocalEngine):
    """Counts its calls, each of which is a job of Spark."""

    calls = 0

    def map(self, *own: Any) -> pa.Table:
        self.calls += 1
        return super().map(*own)

    def by_key(self, *own: Any) -> pa.Table:
        self.calls += 1
        return super().by_key(*own)


@pytest.mark.parametrize("rows_a_place", [10, 10_000])
def test_clocks_that_statistics_leave_open_are_read_by_the_job_that_needs_them(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, rows_a_place: int
) -> None:
    monkeypatch.setattr(by_bucket, "ROWS_A_PLACE", rows_a_place)
    text = TOTALS.replace("SLACK 3 SECONDS", "SLACK 3 SECONDS AHEAD 30 SECONDS")
    engine = Counted()
    run = replace(streams.run("totals", 3), query=parsed("totals", text, streams), engine=engine)
    for part, landed in enumerate(parts_of(7, 240)):
        wrong = {"ts": landed["smoke"][0]["ts"] + 3_600_000}
        # Of the last part, no clock of one stream is believed.
        ahead = [{**row, **wrong} for row in (landed["smoke"] if part == 2 else landed["smoke"][:9])]
        streams.land(part, {**landed, "smoke": [*ahead, *landed["smoke"][len(ahead) :]]})
        before = engine.calls
        assert run.drain()["refused"] == len(ahead)
        assert engine.calls - before <= 2
    drain_repairs(run)

    smoke = [row for row in streams.rows["smoke"] if row["ts"] - row["received"] <= 30_000]
    streams.rows["smoke"] = smoke
    assert same(streams.answers("totals"), streams.expected("totals"))
    told = read_columns(streams.settings.layout.queries("totals"), ("batch", "newest_us", "time_us"))
    newest = [1000 * max(row["ts"] for row in streams.rows[name]) for name in ("heat", "smoke")]
    assert (3, newest, min(newest)) in told
