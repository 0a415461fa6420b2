"""Values that are missing are counted by column, and columns that a declaration seems to overlook are reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.settings import load_settings
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
CONFIG = """
home = "var"
[streams.s]
event_time = {{ column = "{time}", unit = "iso", timezone = "{zone}" }}
identity = {identity}
measures = ["v"]
levels = ["1h for 7d", "1d forever"]
source = {{ path = "landing/*", format = "csv", settle = 0 }}
[streams.s.columns]
v = {{ type = "double", optional = true }}
room = {{ optional = true }}
"""


def lake(
    spark: SparkSession, folder: Path, time: str = "at", zone: str = "UTC", identity: str = "[]"
) -> Lake:
    config = folder / "tidemark.toml"
    config.write_text(CONFIG.format(time=time, zone=zone, identity=identity), encoding="utf-8")
    return Lake(spark, load_settings(config), "s")


@pytest.mark.parametrize("identity", ["[]", '["*"]'])
def test_missing_values_of_accepted_rows_are_counted_by_declared_column(
    spark: SparkSession, tmp_path: Path, identity: str
) -> None:
    made = lake(spark, tmp_path, identity=identity)
    rows = ("1,a", ",a", "NaN,", "x,")
    made.land(
        "a.csv", "at,v,room\n" + "".join(f"2026-02-01T00:00:0{n},{row}\n" for n, row in enumerate(rows))
    )

    figures = made.ingest()

    assert (figures["accepted"], figures["missing"]) == (3, {"v": 2, "room": 1})
    assert [dict(missing) for (missing,) in made.rows("ledger", "missing")] == [{"v": 2, "room": 1}]


@pytest.mark.parametrize(
    ("header", "zone", "day", "is_reported"),
    [
        ("day,clock,v", "UTC", "2026-02-0{}", True),
        ("day,local time,v", "Europe/Paris", "2026-02-0{}", True),
        ("day,note,v", "UTC", "2026-02-0{}", False),
        ("day,clock,v", "UTC", "2026-02-01T0{}:00:00", False),
    ],
)
def test_dates_that_are_taken_for_times_are_reported_beside_a_column_of_clock_times(
    *,
    spark: SparkSession,
    tmp_path: Path,
    header: str,
    zone: str,
    day: str,
    is_reported: bool,
) -> None:
    made = lake(spark, tmp_path, "day", zone)
    lines = (f"{day.format(n % 2 + 1)},0{n}:00:00,1\n" for n in range(4))
    made.land("a.csv", header + "\n" + "".join(lines))

    figures = made.ingest()

    other = header.split(",")[1]
    reported = (
        f"a.csv: all 4 rows of the batch are of 00:00:00, as day has dates only; the file also has {other}"
    )
    assert figures["changes"] == ([reported] if is_reported else [])
    assert made.rows("ledger", "schema_changes") == [(figures["changes"],)]


@pytest.mark.parametrize(("header", "near"), [("V", "V"), (" v_", "v_"), ("w", None)])
def test_a_column_without_values_is_reported_beside_a_field_of_nearly_its_name(
    *,
    spark: SparkSession,
    tmp_path: Path,
    header: str,
    near: str | None,
) -> None:
    made = lake(spark, tmp_path)
    made.land("a.csv", f"at,{header},room\n2026-02-01T00:00:00,1,a\n")

    figures = made.ingest()

    assert (figures["accepted"], figures["missing"]) == (1, {"v": 1})
    assert figures["changes"] == ([f"a.csv: no row has v, but the file has {near}"] if near else [])
