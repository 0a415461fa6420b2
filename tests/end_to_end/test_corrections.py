"""A correction killed at any step is finished by the next run, and leaves what an undisturbed one leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, ingest, publish
from lakehouse.settings import Settings, load_settings
from lakehouse.storage.corrections import read_corrections
from tests.end_to_end import correcting, pipeline
from tests.end_to_end.test_crashes import T0
from tests.support import killing
from tests.support.crash_points import CORRECTION_POINTS, RETENTION_POINTS
from tests.support.readings import declared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
# The kill that takes its JVM along.
FRESH = "correction.rollup-replaced"


def home(spark: SparkSession, folder: Path, with_wrong: bool, keep_raw: str = "forever") -> Settings:
    """Make a home of a quarter of an hour, with or without rows of device w, one of them the newest of all."""
    (folder / "landing").mkdir(parents=True)
    kept = f'duplicates_within = "1m"\nkeep_raw = "{keep_raw}"'
    text = declared(options="batch_files = 10").replace('duplicates_within = "1d"', kept)
    (folder / "tidemark.toml").write_text(text)
    readings = [
        {"ts": T0 + second, "device": "ab"[second % 2], "temp": second / 7, "count": second}
        for second in range(0, 900, 3)
    ]
    if with_wrong:
        readings += [
            {"ts": T0 + second, "device": "w", "temp": -1.0, "count": 1} for second in (4, 333, 899, 2000)
        ]
    settings = load_settings(folder / "tidemark.toml")
    take_in(spark, settings, "0.ndjson", readings)
    return settings


def take_in(spark: SparkSession, settings: Settings, name: str, readings: list[dict[str, Any]]) -> None:
    assert settings.config is not None
    text = "".join(json.dumps(reading) + "\n" for reading in readings)
    (settings.config.parent / "landing" / name).write_text(text)
    ingest.run(settings, spark, "readings")
    build_rollups.run(settings, spark, "readings")


def kill(spark: SparkSession, settings: Settings, what: str, point: str) -> None:
    module, words = "tests.end_to_end.correcting", (str(settings.config), what)
    if point == FRESH:
        killing.kill_fresh(point, module, *words)
    else:
        killing.kill(spark, point, module, *words)


def content(spark: SparkSession, settings: Settings) -> dict[str, str]:
    publish.run(settings, spark, unchecked=True)
    found = pipeline.logical_content(settings, "readings")
    # A retraction leaves the profile as it is: it says what was accepted.
    del found["profile"]
    # What came in, came in: a retraction changes no count of the ledger.
    return {table: found[table] for table in ("raw", "quarantine", "rollup", "answers")}


def test_a_retraction_killed_at_every_step_leaves_what_a_home_without_those_rows_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrong, never = home(spark, tmp_path / "wrong", True), home(spark, tmp_path / "never", False)

    for point in CORRECTION_POINTS:
        kill(spark, wrong, "retract", point)
    correcting.correct(spark, wrong, "retract")

    assert content(spark, wrong) == content(spark, never)
    (record,) = read_corrections(wrong.layout, "readings")
    assert (record.done, record.rows, record.by) == (True, 4, "ann")


def test_raw_rows_dropped_for_their_age_are_dropped_and_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    disturbed = home(spark, tmp_path / "disturbed", False, keep_raw="5m")
    calm = home(spark, tmp_path / "calm", False, keep_raw="5m")
    for each in (disturbed, calm):
        # A batch drops nothing by its own time: the next one does.
        take_in(spark, each, "1.ndjson", [{"ts": T0 + 900, "device": "a", "temp": 0.5, "count": 900}])
    correcting.correct(spark, calm, "maintain")

    for point in RETENTION_POINTS:
        kill(spark, disturbed, "maintain", point)
    # The next ingest finishes nothing twice, and finds nothing to do.
    ingest.run(disturbed, spark, "readings")
    correcting.correct(spark, disturbed, "maintain")

    assert content(spark, disturbed) == content(spark, calm)
    counted = [
        [(c.rows, dict(c.batches), c.done) for c in read_corrections(one.layout, "readings")]
        for one in (disturbed, calm)
    ]
    assert counted[0] == counted[1] and counted[0][0][2]
