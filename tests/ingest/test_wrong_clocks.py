"""Rows of wrong clocks: none of them deletes a good row, and taken back out they leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import maintain
from lakehouse.config.durations import spelled_duration
from lakehouse.corrections.retract import Wrong
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.settings import load_settings
from tests.corrections.test_retention import T0, deviations, reading, take_in
from tests.corrections.test_retract import content, taken_out
from tests.support.readings import declared
from tests.support.readings_lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DAY = 86_400
Batches = Sequence[Sequence[dict[str, Any]]]


def row(second: int, device: str = "a") -> dict[str, Any]:
    """Return a reading that is received when its clock says."""
    return reading(second, device) | {"received": T0 + second}


# Half an hour each, one behind the other.
RIGHT = [[row(1800 * batch + second) for second in range(0, 1800, 90)] for batch in range(5)]


def lake(spark: SparkSession, folder: Path) -> Lake:
    """A stream that keeps ten minutes of raw rows."""
    folder.mkdir()
    text = declared().replace('duplicates_within = "1d"', 'duplicates_within = "1m"\nkeep_raw = "10m"')
    (folder / "tidemark.toml").write_text(text)
    return Lake(spark, load_settings(folder / "tidemark.toml"))


def run(stream: Lake, batches: Batches, first: int = 0) -> list[int]:
    """Take batches in, with the upkeep behind each; return how many raw rows that dropped."""
    dropped = []
    for number, rows in enumerate(batches, start=first):
        take_in(stream, f"{number}.ndjson", list(rows))
        dropped.append(maintain.run(stream.settings, stream.spark, "readings")["raw_dropped"])
    return dropped


@pytest.mark.parametrize(
    "wrong",
    [
        {1: [900 * DAY]},
        {0: [3 * DAY], 1: [800 * DAY, 801 * DAY], 2: [900 * DAY], 3: [900 * DAY + 1]},
        {4: [1000 * DAY]},
    ],
    ids=["one", "several", "last"],
)
def test_wrong_clocks_drop_no_row_and_leave_no_trace_once_they_are_taken_out(
    spark: SparkSession, tmp_path: Path, wrong: dict[int, list[int]]
) -> None:
    disturbed, calm = lake(spark, tmp_path / "disturbed"), lake(spark, tmp_path / "calm")
    mixed = [
        [*rows, *(row(second, "wrong") for second in wrong.get(number, ()))]
        for number, rows in enumerate(RIGHT)
    ]

    assert run(disturbed, mixed) == run(calm, RIGHT)
    assert deviations(disturbed) == []
    assert taken_out(disturbed, Wrong(where={"device": "wrong"}, from_us=(T0 + DAY) * 10**6))["rows"] == sum(
        map(len, wrong.values())
    )

    assert (content(disturbed), deviations(disturbed)) == (content(calm), [])
    more = [[row(9000 + second) for second in range(0, 900, 90)]]
    assert run(disturbed, more, 5) == run(calm, more, 5)
    assert content(disturbed) == content(calm)


def test_a_file_of_a_wrong_clock_alone_deletes_nothing_before_another_one_follows(
    spark: SparkSession, tmp_path: Path
) -> None:
    disturbed, calm = lake(spark, tmp_path / "disturbed"), lake(spark, tmp_path / "calm")
    wrong = [[row(900 * DAY + second, "wrong") for second in range(batch, 50, 9)] for batch in range(3)]
    before = run(calm, RIGHT[:3])
    assert run(disturbed, [*RIGHT[:2], wrong[0], RIGHT[2]]) == [*before, 0]

    # Of two files that say the same one after the other, the one behind them drops what is old by their time.
    assert run(disturbed, wrong[1:], 4) == [20, 0]
    assert run(disturbed, [RIGHT[3]], 6) == [4 * 20 - sum(before) - 20]


LOGGER = """
home = "var"
[streams.readings]
event_time = {{ column = "at", unit = "iso" }}
identity = ["device", "at"]
keys = ["device"]
levels = ["1m for 1d", "1d forever"]
source = {{ path = "landing/*", format = "csv", settle = 0 }}
{clock}
[streams.readings.columns]
at = "string"
device = "string"
"""


def logger(spark: SparkSession, folder: Path, clock: str = "") -> Lake:
    """A stream of a logger's files, which do not tell when they arrived."""
    folder.mkdir(exist_ok=True)
    (folder / "tidemark.toml").write_text(LOGGER.format(clock=clock))
    return Lake(spark, load_settings(folder / "tidemark.toml"))


def test_a_time_far_ahead_of_the_listing_is_in_quarantine_until_the_declaration_allows_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = logger(spark, tmp_path / "home")
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=20)
    # The last two lines are not plain.
    times = ["2026-01-01T00:00:00Z", "2099-12-31T00:00:00Z", "2099-12-31", f"{soon:%Y-%m-%d %H:%M:%S}"]
    stream.land("a.csv", "at,device\n" + "".join(f"{time},a\n" for time in times))
    assert stream.ingest()["quarantined"] == 2

    (manifest,) = ManifestStore(stream.settings.layout.manifests("readings")).behind(0)
    listed_us = manifest.listed_us
    seconds = (4_102_358_400 * 10**6 - listed_us) // 10**6
    span = spelled_duration(seconds * 10**6)
    detail = f"event time is {span} ahead of when its record was listed; expected at most 1d (clock_bounds)"
    found = stream.rows("quarantine", "source_line", "reason", "detail")
    assert found == [(3, "clock", detail), (4, "clock", detail)]

    # It is judged as of when it first came, whenever that is.
    assert stream.requeue()["quarantined"] == 2
    assert {row[0] for row in stream.rows("quarantine", "reason")} == {"clock"}
    assert {bytes(row[0]) for row in stream.rows("quarantine", "record")} == {
        b"2099-12-31T00:00:00Z,a",
        b"2099-12-31,a",
    }
    allowed = logger(spark, tmp_path / "home", 'clock_bounds = { ahead = "40000d" }')
    assert allowed.requeue()["accepted"] == 2
