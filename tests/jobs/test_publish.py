from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.rollup import rollup
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.ask.question import AGGREGATES, Answer
from lakehouse.serving.publish import build
from lakehouse.serving.publish.gate import TotalsDiffer
from lakehouse.serving.publish.node_rows import folded_nodes
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.serving.status import status
from lakehouse.settings import Settings
from lakehouse.storage.control.lease import LeaseHeld, lease
from lakehouse.storage.damaged import DamagedFile
from tests.support.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.serving.publish.snapshot import StreamSnapshot

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
QUIET = """
[streams.quiet]
event_time = { column = "ts", unit = "s" }
levels = ["1m forever"]
[streams.quiet.source]
path = "nothing/*"
format = "ndjson"
settle = 0
"""


def land(settings: Settings, name: str, readings: list[dict[str, Any]]) -> None:
    folder = settings.home.parent / "landing"
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(reading) + "\n" for reading in readings)
    (folder / name).write_text(text + "not json\n", encoding="ascii")


def reading(second: int) -> dict[str, Any]:
    temp = None if second % 11 == 0 else second * 0.1 - 20
    return {"ts": T0 + second, "device": "abc"[second % 3], "temp": temp, "count": second % 7 - 3}


def settled(settings: Settings, spark: SparkSession) -> dict[str, Any]:
    ingest.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")
    return publish.run(settings, spark, unchecked=True)


def published_nodes(settings: Settings) -> list[tuple[Any, ...]]:
    """Return the version and whether its nodes were all made for it, then its nodes."""
    with open_published(settings.layout) as reader:
        made = "SELECT version, anew_us = published_us FROM publication"
        nodes = "SELECT * REPLACE (round(total, 6) AS total) FROM rollups ORDER BY ALL"
        return [row for query in (made, nodes) for row in reader.connection.execute(query).fetchall()]


def asked(home: Path, measure: str, agg: str, exact: bool) -> Answer:
    start, end = 10**6 * T0 + 47_300_000, 10**6 * T0 + 1_234_500_000
    return ask(home, "readings", measure, agg, start, end, {"device": "b"}, exact=exact)[0]


def test_what_spark_rolled_up_is_what_analysts_are_answered(
    spark: SparkSession,
    lakehouse_of: Callable[[str], Settings],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = lakehouse_of(declared() + QUIET)
    land(settings, "a.ndjson", [reading(second) for second in range(400, 1500)])
    first = settled(settings, spark)
    again = publish.run(settings, spark, unchecked=True)
    land(settings, "late.ndjson", [reading(second) for second in range(400)])
    after_late = settled(settings, spark)
    maintain.run(settings, spark, "readings")
    compacted = publish.run(settings, spark, unchecked=True)
    shared = published_nodes(settings)
    # A few nodes after the other; the version that all others share with was folded at once.
    monkeypatch.setattr(rollup, "VALUES_AT_ONCE", 100)
    publish.run(settings, spark, unchecked=True, in_full=True)

    assert [done["version"] for done in (first, again, after_late, compacted)] == [1, 1, 2, 2]
    assert [done["is_new"] for done in (first, again, after_late, compacted)] == [True, False, True, False]
    assert first["totals_compared"] == 3 * 2 * 3
    # Of a version that shares nodes what came is compared: late rows come to the last level alone.
    assert after_late["totals_compared"] == 2 * 3
    made_anew = [(2, False), (3, True)]
    assert [shared[:1], published_nodes(settings)[:1]] == [[one] for one in made_anew]
    assert published_nodes(settings)[1:] == shared[1:]
    assert "was made anew" not in caplog.text
    assert not list(settings.layout.serving.glob(".*"))
    for agg in AGGREGATES:
        found, exact = asked(settings.home, "temp", agg, False), asked(settings.home, "temp", agg, True)
        assert found.low is not None and exact.low is not None and found.low <= exact.low, (found, exact)
        assert found.high is not None and exact.high is not None and found.high >= exact.high, (found, exact)
    assert asked(settings.home, "count", "count", True).rows == 396
    assert ask(settings.home, "quiet", "*", "count", 0, 1)[0].value == 0


def test_a_stream_whose_totals_differ_fails_the_publish_and_the_others_are_published(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = declared().replace('home = "var"', "").replace("readings", "other")
    settings = lakehouse_of(declared() + other)
    land(settings, "a.ndjson", [reading(second) for second in range(400)])
    ingest.run(settings, spark, "other")
    build_rollups.run(settings, spark, "other")

    def without_some(stream: StreamSnapshot) -> str:
        nodes = folded_nodes(stream)
        return f"FROM ({nodes}) WHERE level > 1" if stream.name == "other" else nodes

    monkeypatch.setattr(build, "folded_nodes", without_some)
    ingest.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")
    with pytest.raises(TotalsDiffer, match=r"other level 1 .*`tidemark rebuild other`"):
        publish.run(settings, spark, unchecked=True)
    figures, fault = publish.publish_streams(settings, unchecked=True)
    monkeypatch.undo()

    assert isinstance(fault, TotalsDiffer)
    assert list(figures["withheld"]) == ["other"]
    assert [one["stream"] for one in status(settings.layout)["withheld"]] == ["other"]
    assert ask(settings.home, "readings", "*", "count", T0 * 10**6, (T0 + 400) * 10**6)[0].value == 400
    assert publish.run(settings, spark, unchecked=True)["withheld"] == {}
    assert ask(settings.home, "other", "*", "count", T0 * 10**6, (T0 + 400) * 10**6)[0].value == 400


def two_streams(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings]
) -> tuple[Settings, Callable[[str], Any]]:
    """Make a home of two streams of the same files, published with some rows; return what counts their rows."""
    settings = lakehouse_of(declared() + declared().replace('home = "var"', "").replace("readings", "other"))

    def take_in(name: str, seconds: range) -> None:
        land(settings, name, [reading(second) for second in seconds])
        for stream in ("readings", "other"):
            ingest.run(settings, spark, stream)
            build_rollups.run(settings, spark, stream)

    take_in("a.ndjson", range(100))
    publish.run(settings, spark, unchecked=True)
    take_in("b.ndjson", range(100, 400))
    span = (T0 * 10**6, (T0 + 400) * 10**6)
    return settings, lambda stream: ask(settings.home, stream, "*", "count", *span)[0].value


def test_a_rollup_that_another_process_writes_holds_no_other_stream_up(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "WAIT_S", 0.5)
    settings, rows = two_streams(spark, lakehouse_of)

    with (
        lease(settings.layout, settings.layout.rollup("other")),
        pytest.raises(LeaseHeld, match="writes this table now"),
    ):
        publish.run(settings, spark, unchecked=True)

    assert (rows("readings"), rows("other")) == (400, 100)
    [one] = status(settings.layout)["withheld"]
    assert one["stream"] == "other" and "another process writes" in one["because"]
    assert publish.run(settings, spark, unchecked=True)["withheld"] == {}
    assert rows("other") == 400


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("anew", [False, True])
def test_a_damaged_rollup_holds_no_other_stream_up(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], anew: bool, is_log: bool
) -> None:
    settings, rows = two_streams(spark, lakehouse_of)
    table = Path(settings.layout.rollup("other"))
    newest = max(
        (table / "_delta_log").glob("*.json") if is_log else table.rglob("*.parquet"),
        key=lambda path: path.stat().st_mtime_ns,
    )
    content = newest.read_bytes()
    newest.write_bytes(content[: len(content) // 2])

    with pytest.raises(DamagedFile, match=f"{newest.name}.* damaged"):
        publish.run(settings, spark, unchecked=True, in_full=anew)

    assert (rows("readings"), rows("other")) == (400, 100)
    assert newest.name in status(settings.layout)["withheld"][0]["because"]
    newest.write_bytes(content)
    assert publish.run(settings, spark, unchecked=True)["withheld"] == {}
    assert rows("other") == 400
