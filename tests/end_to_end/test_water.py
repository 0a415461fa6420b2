"""A real water meter through the jobs, the older file last: its increase over any range, held against its readings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from jobs import build_rollups, check_quality, ingest, publish
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Question
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.settings import Settings
from tests.support.documented import about, deviations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WATER = """
home = "var"
[streams.water]
event_time = { column = "unix_ts", unit = "s" }
measures = ["counter", "avg_rate"]
counters = ["counter"]
levels = ["1m for 2d", "1h for 30d", "1d forever"]
[streams.water.source]
path = "landing/*.csv.gz"
format = "csv"
settle = 0
"""


def test_increase_of_a_real_meter_holds_over_any_range(
    spark: SparkSession, lakehouse_of: Callable[[str], Settings], data: Path
) -> None:
    settings = lakehouse_of(WATER)
    landing = Path(settings.streams["water"].source.path).parent
    landing.mkdir(parents=True)
    for part in (11, 10):  # the newer file first: every row of the other is late
        shutil.copy(data / "smart-meter-water" / f"Water_WHW-{part}.csv.gz", landing)
        ingest.run(settings, spark, "water")
        build_rollups.run(settings, spark, "water")
    check_quality.run(settings, spark, "water")
    publish.run(settings, spark)

    with duckdb.connect() as raw, open_published(settings.layout) as published:
        raw.execute(f"CREATE TABLE readings AS FROM read_csv('{landing}/*.csv.gz')")
        low, high = raw.execute("SELECT min(unix_ts), max(unix_ts) FROM readings").fetchone() or (0, 0)
        ends = np.sort(np.random.default_rng(1).integers(low - 9999, high + 9999, (200, 2)), axis=1)
        points = 0
        for start, end in [(low, high + 1), *ends.tolist()]:
            question = Question("water", "counter", "increase", start * 10**6, end * 10**6, {}, ())
            (found,) = answer(published.connection, question)
            truth = raw.execute(
                "SELECT ifnull(max(counter) - min(counter), 0) FROM readings "  # it never falls
                f"WHERE unix_ts >= {start} AND unix_ts < {end}"
            ).fetchone()
            assert truth and (found.low or 0) <= truth[0] <= (found.high or 0)
            points += found.exact
    assert points  # whole days at the least


def test_documented_command_lines_about_the_meter_do_what_is_shown(
    lakehouse_of: Callable[[str], Settings],
    spark: SparkSession,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = lakehouse_of(WATER.replace("landing/*.csv.gz", f"{data}/smart-meter-water/*WHW-[45].csv.gz"))
    ingest.run(settings, spark, "water")
    build_rollups.run(settings, spark, "water")
    publish.run(settings, spark, unchecked=True)

    assert deviations(about("water"), settings.layout.root.parent, monkeypatch, capfd) == ""
