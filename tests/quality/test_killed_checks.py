"""Checks that are killed at each step and run again: each rule's change is there once, and nothing is passed unseen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, check_quality, ingest
from lakehouse.serving.quality.changes import changes_between
from lakehouse.serving.table_reader import connected
from lakehouse.settings import Settings
from quality.gate import GateFailed
from quality.history import verified_through
from tests.support.crash_points import CHECK_POINTS, COMMIT_POINTS
from tests.support.killing import kill
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CONFIG = """
[streams.thermometers]
event_time = { column = "at", unit = "s" }
keys = ["device"]
measures = ["temp"]
groupings = [["device"], []]
levels = ["1d forever"]
source = { path = "landing/*.csv", format = "csv", settle = 0 }
[[streams.thermometers.rules]]
expect = "column_values_to_be_between"
column = "temp"
max_value = 85
on_failure = "withhold"
[[streams.thermometers.rules]]
silent = { key = "device", after = "1d" }
"""


def take_in(settings: Settings, session: SparkSession, name: str, temps: list[float]) -> None:
    folder = settings.home.parent / "landing"
    folder.mkdir(exist_ok=True)
    rows = "".join(f"{1_769_904_000 + number},{name},{temp}\n" for number, temp in enumerate(temps))
    (folder / f"{name}.csv").write_text("at,device,temp\n" + rows)
    ingest.run(settings, session, "thermometers")
    build_rollups.run(settings, session, "thermometers")


def changes(settings: Settings) -> list[tuple[Any, ...]]:
    with connected(settings.layout.tables) as connection:
        found = changes_between(connection, settings.layout.quality, "thermometers", 0, 2**62 // 1000)
        return [(change["rule"], change["state"]) for change in found]


def test_a_check_that_is_killed_at_each_step_posts_each_change_once_and_passes_no_batch_unseen(
    lakehouse_of: Callable[[str], Settings], spark: SparkSession
) -> None:
    settings = lakehouse_of(CONFIG)
    words = ("jobs.check_quality", "--config", str(settings.config), "thermometers")
    rule = "rules.temp_be_between"

    take_in(settings, spark, "good", [20.0, 21.0])
    for point in CHECK_POINTS[1:]:
        kill(spark, point, *words)
    assert check_quality.run(settings, spark, "thermometers")["failed"] == 0
    assert changes(settings) == []

    take_in(settings, spark, "broken", [20.0, 99.0])
    for point in (CHECK_POINTS[0], *COMMIT_POINTS, CHECK_POINTS[1]):
        kill(spark, point, *words)
    with pytest.raises(GateFailed, match="1 of 2 new rows do not"):
        check_quality.run(settings, spark, "thermometers")
    assert verified_through(settings.layout.quality, "thermometers") == 1
    assert changes(settings) == [(rule, "fails")]

    # Each run has each of its verdicts once.
    verdicts = table_rows(settings.layout.quality, "run_id", '"table"', "expectation")
    assert len(set(verdicts)) == len(verdicts)
