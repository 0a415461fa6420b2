"""Joins over raw tables: what was found online and what repair adds are all pairs, each once, however they came."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, maintain, maintain_queries, repair_late, run_queries
from lakehouse.engine import engine_of
from lakehouse.queries.pairs.held_join import policy_of
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.pairs.run import PairsRun
from lakehouse.queries.runtime.batch_manifest import (
    ONE,
    BatchManifest,
    Scale,
    Wanted,
    require_manifest,
    write_manifest,
)
from lakehouse.queries.runtime.repair import drain_repairs
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.query_meaning import QueryChanged
from tests.support.table_rows import named_rows, table_rows
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
keys = ["id"]
measures = ["temp"]
levels = ["1m forever"]
[streams.{name}.source]
path = "{name}/*"
format = "ndjson"
settle = 0
[streams.{name}.columns]
id = "string"
x = "double"
y = "double"
"""
IDS = """-- answers to requests
SELECT r.id, r.temp AS asked, s.temp AS answered, s.event_us AS answered_us
FROM requests [RANGE 2 SECONDS] r JOIN replies s ON r.id = s.id AND s.temp >= r.temp + 1
WHERE s.temp < 9
RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS
"""
NEAR = """
SELECT r.id, s.id AS other FROM requests [RANGE 1 SECOND] r JOIN replies s
ON DISTANCE(r.x, r.y, s.x, s.y) <= 4 RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS POLICY PER_SOURCE
"""
T0 = 1_600_000_000_000
Row = dict[str, Any]


@dataclass(frozen=True)
class Streams:
    """Two streams that come late, in parts, and the queries over them."""

    spark: SparkSession
    settings: Settings
    rows: dict[str, list[Row]]

    def land(self, part: int, rows: dict[str, list[Row]]) -> None:
        """Write and ingest one part of each stream."""
        for name, some in rows.items():
            folder = Path(self.settings.streams[name].source.path).parent
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{part}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in some))
            self.rows[name] += some
            take_in(self.settings, self.spark, name)

    def run(self, query: str, buckets: int) -> PairsRun:
        """Return a query under this number of buckets."""
        return PairsRun(
            engine_of(self.spark),
            self.settings.layout,
            self.settings.of_kind(PairsQuery)[query],
            self.settings.streams,
            Wanted(buckets),
        )

    def pairs(self, query: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of all pairs."""
        return sorted(table_rows(self.settings.layout.pairs(query), *columns), key=repr)

    def policies(self, query: str) -> list[tuple[Any, ...]]:
        """Return what the policies of all buckets know."""
        states = table_rows(self.settings.layout.states(query), "part", "batch", "bucket", "content")
        policies = [row for part, *row in states if part == "policy"]
        newest = max(batch for batch, *_ in policies)
        return sorted(tuple(row) for batch, *row in policies if batch == newest)

    def heard(self, query: str) -> dict[int, int]:
        """Return how many rows each bucket has had of the sources that its policy watches."""
        found = {}
        for bucket, content in self.policies(query):
            policy = policy_of(self.settings.of_kind(PairsQuery)[query])
            policy.begin(0)
            policy.restore(content)
            found[bucket] = int(policy.watch[0]["seen"].sum())
        return found

    def expected(self, joins: Callable[[Row, Row], bool], window_ms: int) -> list[tuple[Row, Row]]:
        """Return all pairs, by looking at every two rows."""
        return [
            (left, right)
            for left in self.rows["requests"]
            for right in self.rows["replies"]
            if abs(left["ts"] - right["ts"]) <= window_ms and joins(left, right)
        ]


@pytest.fixture
def streams(spark: SparkSession, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Streams:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "ids.sql").write_text(IDS)
    (folder / "ids_at_once.sql").write_text(IDS)
    (folder / "near.sql").write_text(NEAR)
    text = 'home = "var"\n' + "".join(STREAM.format(name=name) for name in ("requests", "replies"))
    return Streams(spark, lakehouse_of(text), {"requests": [], "replies": []})


def some_rows(seed: int, part: int, count: int) -> dict[str, list[Row]]:
    """Rows of twenty seconds in order of arrival, a third of them late by some seconds, with gaps in every column."""
    dice = np.random.default_rng((seed, part))

    def one() -> Row:
        ts = T0 + int(dice.integers(part * 20_000, (part + 1) * 20_000))
        delay = dice.exponential(6000) if dice.random() < 0.3 else dice.integers(0, 50)
        return {
            "ts": ts,
            "received": ts + int(delay),
            "id": None if dice.random() < 0.05 else f"k{dice.integers(12)}",
            "temp": None if dice.random() < 0.05 else float(dice.integers(0, 11)),
            "x": None if dice.random() < 0.05 else float(dice.random() * 40),
            "y": float(dice.random() * 40),
        }

    return {
        name: sorted((one() for _ in range(count)), key=lambda row: (row["received"], row["ts"]))
        for name in ("requests", "replies")
    }


def have_one_id(left: Row, right: Row) -> bool:
    if None in (left["id"], left["temp"], right["temp"]):
        return False
    return bool(left["id"] == right["id"] and right["temp"] >= left["temp"] + 1 and right["temp"] < 9)


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(4)])
def test_a_join_is_divided_only_where_that_does_not_hold_rows_twice(streams: Streams, wanted: Wanted) -> None:
    by_key, by_source = (replace(streams.run(name, 1), wanted=wanted) for name in ("ids", "near"))
    by_distance = replace(by_source, query=replace(by_source.query, policy="needed_slack", sources=None))
    assert (by_key.cut, by_source.cut) == (wanted, ONE)
    assert by_distance.cut == replace(wanted, least=1, divides_rows=False)


def are_near(left: Row, right: Row) -> bool:
    if None in (left["x"], right["x"]):
        return False
    return math.dist((left["x"], left["y"]), (right["x"], right["y"])) <= 4


def test_online_and_repaired_pairs_are_all_pairs_each_once(streams: Streams) -> None:
    ids, near = streams.run("ids", 3), streams.run("near", 4)
    for part in range(2):
        streams.land(part, some_rows(1, part, 300))
    assert near.drain(most_rows=1)["batches"] == 2
    heard = streams.heard("near")
    # Four buckets were wanted, but a source sends rows of any cell.
    assert set(heard) == {0}
    streams.land(2, some_rows(1, 2, 150))
    near.drain()
    first = ids.drain()
    online = {run.query.name: len(streams.pairs(run.query.name, "found")) for run in (ids, near)}
    for run in (ids, near):
        assert drain_repairs(run)["found"] > 0

    replies = [row for row in streams.rows["replies"] if row["temp"] is not None and row["temp"] < 9]
    assert (first["batches"], first["rows"]) == (1, len(streams.rows["requests"]) + len(replies))
    columns = ("left_us", "right_us", "id", "asked", "answered")
    pairs = streams.expected(have_one_id, 2000)
    expected = sorted((1000 * a["ts"], 1000 * b["ts"], a["id"], a["temp"], b["temp"]) for a, b in pairs)
    assert len(expected) > 100
    assert sorted(streams.pairs("ids", *columns)) == expected
    assert all(answered == right for answered, right in streams.pairs("ids", "answered_us", "right_us"))
    close = [(1000 * a["ts"], 1000 * b["ts"]) for a, b in streams.expected(are_near, 1000)]
    assert streams.pairs("near", "left_us", "right_us") == sorted(close, key=repr)
    rows = streams.pairs("near", "left_row", "right_row")
    assert len(set(rows)) == len(rows) > online["near"] > 0.8 * len(rows)
    assert online["ids"] > 0.8 * len(pairs)
    # A later batch has gone on with the sources that were heard.
    assert all(0 < rows < streams.heard("near")[bucket] for bucket, rows in heard.items())


def test_a_join_whose_policy_changes_is_refused(streams: Streams) -> None:
    """Also where the text names none: it then has the default, whatever its tables were made with."""
    config, folder = streams.settings.config, streams.settings.queries.folder
    usual = NEAR.replace("POLICY PER_SOURCE", "")
    streams.land(0, some_rows(7, 0, 60))
    for name, text in (("before", f"{usual} POLICY NEEDED_SLACK"), ("begun", usual)):
        (folder / f"{name}.sql").write_text(text)
        replace(streams, settings=load_settings(config)).run(name, 1).drain()

    (folder / "before.sql").write_text(usual)
    now = replace(streams, settings=load_settings(config))

    assert now.settings.of_kind(PairsQuery)["begun"].policy == "per_source"
    now.run("begun", 1).drain()
    with pytest.raises(QueryChanged, match=r"POLICY needed_slack SPARE 0, it is .* POLICY per_source"):
        now.run("before", 1).drain()


def test_a_batch_is_told_of_the_repairs_that_its_plan_names_and_chooses_slack_by_them(
    streams: Streams,
) -> None:
    streams.land(0, some_rows(6, 0, 300))
    run, untold = streams.run("ids", 2), streams.run("ids_at_once", 2)
    for each in (run, untold):
        each.drain()
    streams.land(1, some_rows(6, 1, 300))
    # Begun and died; then a repair is finished.
    write_manifest(
        streams.settings.layout.batch_manifests("ids"),
        "batch",
        BatchManifest(2, ((1, 2), (1, 2)), scales=(Scale(1, 2),)),
    )
    found = drain_repairs(run)["found"]
    for each in (run, untold):
        each.drain()
    assert streams.policies("ids") == streams.policies("ids_at_once")
    streams.land(2, some_rows(6, 2, 300))
    for each in (run, untold):
        each.drain()

    missed = named_rows(streams.settings.layout.needed_slack("ids"))
    plans = [
        require_manifest(streams.settings.layout.batch_manifests("ids"), "batch", number)
        for number in (1, 2, 3)
    ]
    assert [plan.through_repair for plan in plans] == [0, 0, 1]
    assert sum(row["pairs"] for row in missed) == found > 0
    assert streams.policies("ids") != streams.policies("ids_at_once")


def test_raw_rows_stay_until_the_join_is_repaired_and_maintaining_changes_no_pair(
    streams: Streams, tmp_path: Path
) -> None:
    rows = some_rows(5, 0, 120)
    streams.land(0, rows)
    for name in streams.rows:
        build_rollups.run(streams.settings, streams.spark, name)
    declared = streams.settings.streams["requests"].model_copy(update={"keep_raw": 1})
    kept = {"requests": declared, "replies": streams.settings.streams["replies"]}
    only = {"ids": streams.settings.query("ids")}
    settings = streams.settings.model_copy(update={"streams": kept, "registered": only})

    before = maintain.run(settings, streams.spark, "requests")
    run_queries.run(settings, streams.spark, "ids")
    repair_late.run(settings, streams.spark, "ids")
    pairs = streams.pairs("ids", "left_row", "right_row", "found")
    maintain_queries.run(settings, streams.spark, "ids")

    assert before["waits_for_queries"] == 1 and before["raw_dropped"] == 0
    assert streams.pairs("ids", "left_row", "right_row", "found") == pairs
    assert "waits_for_queries" not in maintain.run(settings, streams.spark, "requests")
