"""From landed files over join and repair to the checks and what analysts read of a registered query."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs import build_rollups, check_queries, publish, repair_late, run_queries
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.serving.sandbox.sandbox import open_published, run_sql
from lakehouse.settings import Settings, load_settings
from quality import GateFailed
from tests.support.readings import write
from tests.support.taking_in import take_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
T0 = 1_600_000_000_000
STREAM = """
[streams.{name}]
event_time = {{ column = "ts", unit = "ms" }}
arrival_time = {{ column = "received", unit = "ms" }}
measures = ["temp"]
levels = ["1m forever"]
latest = "10s"
[streams.{name}.source]
path = "{name}/*"
format = "ndjson"
settle = 0
[streams.{name}.columns]
id = "string"
price = {{ type = "decimal", decimals = 2 }}
flag = "boolean"
count = "int"
"""
ANSWERS = """-- answers to requests
SELECT r.id, r.price, s.temp AS answered, s.flag, s.count, s.event_us AS answered_us
FROM requests [RANGE 2 SECONDS] r JOIN replies s ON r.id = s.id WHERE s.temp < 9
RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS
"""
NEAR = """SELECT r.id FROM requests [RANGE 1 SECOND] r JOIN replies s
ON ABS(r.temp - s.temp) <= 0.5 RECALL 0.9 OVER 10 SECONDS SPARE 0 ROWS
"""


@pytest.fixture
def settings(lakehouse_of: Callable[[str], Settings], tmp_path: Path) -> Settings:
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "answers.sql").write_text(ANSWERS)
    (tmp_path / "queries" / "near.sql").write_text(NEAR)
    return lakehouse_of("".join(STREAM.format(name=name) for name in ("requests", "replies")))


def land(settings: Settings, spark: SparkSession, part: int) -> None:
    """Land and take in twenty seconds of both streams; a third of the rows are late."""
    dice = np.random.default_rng(part)
    for name, stream in settings.streams.items():
        rows = [_row(dice, T0 + int(dice.integers(part * 20_000, (part + 1) * 20_000))) for _ in range(300)]
        rows.sort(key=lambda row: row["received"])
        folder = Path(stream.source.path).parent
        folder.mkdir(exist_ok=True)
        (folder / f"{part}.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
        take_in(settings, spark, name)
        build_rollups.run(settings, spark, name)
    for query in settings.registered:
        run_queries.run(settings, spark, query)


def _row(dice: np.random.Generator, ts: int) -> dict[str, Any]:
    delay = dice.exponential(6000) if dice.random() < 0.3 else 0
    values = {"temp": float(dice.integers(0, 11)), "price": 1.25, "flag": True, "count": 7}
    key = None if dice.random() < 0.05 else f"k{dice.integers(6)}"
    return {"ts": ts, "received": ts + int(delay), "id": key, **values}


def test_what_is_joined_repaired_and_checked_is_what_analysts_read(
    settings: Settings, spark: SparkSession
) -> None:
    # Of so few pairs a period may miss much: what is checked here is that everything adds up.
    quality = settings.quality.model_copy(update={"max_missed_periods": 1.0})
    settings = settings.model_copy(update={"quality": quality})
    land(settings, spark, 0)
    first = publish.run(settings, spark, unchecked=True)
    again = publish.run(settings, spark, unchecked=True)
    before = told(settings)
    land(settings, spark, 1)
    for query in settings.registered:
        repair_late.run(settings, spark, query)
    checked = [check_queries.run(settings, spark, query) for query in settings.registered]
    second = publish.run(settings, spark, unchecked=True)

    assert (first["is_new"], again["is_new"], second["version"]) == (True, False, 2)
    assert (second["queries"], second["queries_left_out"]) == (2, [])
    assert [(found["checks"], found["failed"], found["gone"]) for found in checked] == [(10, 0, 0)] * 2
    assert [(batches, repairs, open_rows > 0) for batches, repairs, open_rows, _ in before] == [
        (1, 0, True)
    ] * 2
    for batches, repairs, open_rows, pairs in told(settings):
        assert (batches, repairs, open_rows) == (2, 1, 0)
        assert pairs[0] == pairs[1] + pairs[2] == pairs[3] and pairs[2] > 0
    with open_published(settings.home) as reader:
        own = run_sql(reader, "SELECT DISTINCT price, flag, count, answered_us = right_us FROM pairs_answers")
        periods = run_sql(reader, "FROM completeness_of('answers') WHERE is_final AND is_scored")
    assert own.rows == [["1.25", True, 7, True]]
    assert periods.rows


def told(settings: Settings) -> list[tuple[Any, ...]]:
    """Return of each query its batches, repairs, open rows, and its pairs counted in four ways."""
    with open_published(settings.home) as reader:
        rows = reader.connection.execute(
            "SELECT batches, repairs, open, [published, rows_found, repaired, "
            "(SELECT sum(online + repaired) FROM completeness WHERE completeness.query = queries.query)] "
            "FROM queries ORDER BY queries.query"
        ).fetchall()
    return rows


def test_too_many_periods_below_their_recall_and_lost_pairs_fail_the_check(
    settings: Settings, spark: SparkSession
) -> None:
    asks_much = replace(settings.of_kind(PairsQuery)["answers"], recall=1.0)
    strict = settings.model_copy(update={"registered": {"answers": asks_much}})
    land(settings.model_copy(update={"registered": {"answers": settings.query("answers")}}), spark, 0)
    repair_late.run(settings, spark, "answers")

    with pytest.raises(GateFailed, match=r"query answers: 1 check failed, .*\n  periods\.missed_share is "):
        check_queries.run(strict, spark, "answers")
    # Nobody can mend what is past: it is known from now on.
    known = check_queries.run(strict, spark, "answers")
    assert known["failed"] == 0 and known["missed_periods"] > 0 and known["missed_since"]
    lenient = strict.quality.model_copy(update={"max_missed_periods": 1.0})
    passed = check_queries.run(strict.model_copy(update={"quality": lenient}), spark, "answers")
    assert passed["failed"] == 0

    spark.sql(f"DELETE FROM delta.`{settings.layout.pairs('answers')}` WHERE found = 'repair'")
    with pytest.raises(GateFailed, match=r"repairs\.found_gap is"):
        check_queries.run(strict, spark, "answers")


def test_rows_that_a_predicate_selected_stay_published_when_its_file_becomes_wrong(
    settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    for name in settings.registered:
        (tmp_path / "queries" / f"{name}.sql").unlink()
    odd = "def odd(x) -> bool:\n    return x is not None and x > 5\n"
    write(tmp_path, {"chosen": "SELECT id, temp FROM requests WHERE odd(temp)"}, odd=odd)
    settings = load_settings(settings.config)
    land(settings, spark, 0)
    before = publish.run(settings, spark, unchecked=True)
    rows = rows_chosen(settings)

    write(tmp_path, {}, odd="def odd(x: return")
    settings = load_settings(settings.config)
    land(settings, spark, 1)
    after = publish.run(settings, spark, unchecked=True)

    assert list(settings.faulty) == ["chosen"]
    assert (before["version"], after["version"]) == (1, 2)
    assert rows_chosen(settings) == rows and rows[0][0] > 0


def rows_chosen(settings: Settings) -> list[tuple[Any, ...]]:
    counts = "SELECT (SELECT count(*) FROM selection_chosen), published, batches FROM queries"
    with open_published(settings.layout) as reader:
        return reader.connection.execute(f"{counts} WHERE query = 'chosen'").fetchall()
