"""A fifth kind of query is one folder, a text and one line of the registry: it is run, checked, published and shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.config.problems import ConfigError
from lakehouse.queries.kind import KINDS, Kind, kind_of
from lakehouse.settings import Settings
from lakehouse.storage.tables.table_log import read_rows
from tests.cli.conftest import Tidemark
from tests.queries.toy_kind import text as toy_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T0 = 1_700_000_000
STREAM = """
[streams.doors]
event_time = { column = "ts", unit = "s" }
measures = ["temp"]
levels = ["1m forever"]
latest = "10s"
source = { path = "doors/*", format = "ndjson", settle = 0 }
columns = { ts = "int", place = "string", temp = "double" }
"""
SAMPLE = "-- one door of four\nSELECT place, temp FROM doors d SAMPLE 4\n"
SAMPLES = Kind(
    "sample",
    "tests.queries.toy_kind",
    results="selection",
    batches="operators",
    counted=("selected",),
    sums={"rows_found": "selected"},
    partition="operator",
    metrics=("selected",),
    newest=("time_us",),
    rests_on=(("event_us", "source_file", "source_line", "source_item"),),
    rows_are="The rows sampled by",
)
WARM = "SELECT place FROM doors WHERE temp > 20\n"


@pytest.fixture
def sample_kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the fifth kind."""
    monkeypatch.setitem(KINDS, "sample", SAMPLES)
    monkeypatch.setitem(sys.modules, "lakehouse.cli.queries.sample", toy_text)
    yield


@pytest.fixture
def settings(sample_kind: None, lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Settings:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "some.sql").write_text(SAMPLE)
    (tmp_path / "queries" / "warm.sql").write_text(WARM)
    return lakehouse_of(STREAM)


def land(settings: Settings, spark: SparkSession, part: int) -> None:
    from jobs import build_rollups, ingest

    folder = Path(settings.streams["doors"].source.path).parent
    folder.mkdir(exist_ok=True)
    rows = [{"ts": T0 + 100 * part + n, "place": f"p{n % 3}", "temp": n / 2} for n in range(100)]
    (folder / f"{part}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest.run(settings, spark, "doors")
    build_rollups.run(settings, spark, "doors")


def test_a_text_of_the_kind_is_read_and_others_as_before(settings: Settings) -> None:
    assert {name: query.kind for name, query in settings.registered.items()} == {
        "some": "sample",
        "warm": "selection",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT place FROM doors SAMPLE often", "some.sql:1:32: found 'often'; expected a whole number"),
        ("SELECT place FROM doors SAMPLE 4 DEADLINE 1 SECOND", "DEADLINE in a sample; expected no DEADLINE"),
        ("SELECT place, COUNT(*) FROM doors SAMPLE 4 GROUP BY place", "one of RECALL, .*SAMPLE or the end"),
    ],
)
def test_what_the_kind_cannot_run_is_refused(
    settings: Settings, lakehouse_of: Callable[[str], Settings], tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "queries" / "some.sql").write_text(text)

    with pytest.raises(ConfigError, match=reason):
        lakehouse_of(STREAM).query("some")


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_of_the_kind_goes_from_its_file_to_what_analysts_read(
    settings: Settings, spark: SparkSession, called: Tidemark
) -> None:
    from jobs import check_queries, maintain_queries, publish, repair_late, run_queries

    land(settings, spark, 0)
    first = run_queries.run(settings, spark, "some")
    land(settings, spark, 1)
    second, again = (run_queries.run(settings, spark, "some") for _ in range(2))
    repaired = repair_late.run(settings, spark, "some")
    maintain_queries.run(settings, spark, "some")
    checked = check_queries.run(settings, spark, "some")
    published = publish.run(settings, spark, unchecked=True)

    sampled = read_rows(settings.layout.selection("some"))
    assert [done["batches"] for done in (first, second, again)] == [1, 1, 0]
    assert first["rows"] == second["rows"] == 100
    assert first["selected"] + second["selected"] == len(sampled) == len({row["row_id"] for row in sampled})
    assert 20 <= len(sampled) <= 80
    assert repaired == {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0, "withdrawn": 0}
    assert not kind_of(settings.query("some")).has("repair")
    assert checked["failed"] == 0 and checked["checks"] > 0
    assert published["queries"] == 1
    listed, told = called("queries").stdout, called("explain", "some").stdout
    assert "samples" in listed and next(
        line.split()[:4] for line in listed.splitlines() if line.startswith("some ")
    ) == ["some", "current", "4", "200"]
    assert "some: one door of four" in told and "one row of 4" in told
    answer = called("sql", "SELECT count(*) AS n, min(temp) >= 0 AS sane FROM sample_some").stdout
    assert answer.split()[-2:] == [str(len(sampled)), "yes"]
