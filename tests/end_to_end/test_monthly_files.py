"""A real station's monthly files, sent again after ``keep_raw``: each reading counts once; no JVM.

A logger sends its memory with every file, and files of past months land again with a line more.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import pytest

from jobs import build_rollups, ingest, maintain, publish
from lakehouse.serving.ask.ask import ask
from lakehouse.serving.status import status
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session
from tests.support.table_rows import table_rows

CONFIG = """
home = "var"
[streams.station]
event_time = { column = "timestamp", unit = "iso" }
identity = ["timestamp"]
measures = ["value"]
levels = ["1h for 60d", "1d forever"]
keep_raw = "30d"
source = { path = "land/*.csv", format = "csv", settle = 0 }
columns = { timestamp = "string", value = { type = "decimal", decimals = 8 } }
"""
SERIES = "nab-real/realKnownCause/ambient_temperature_system_failure.csv.gz"
MONTHS = 6
Reading = tuple[str, str]


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """No power is cut here, and waiting for the disk takes most of the time."""
    with patch("os.fsync"):
        yield


def months_of(path: Path) -> dict[str, list[Reading]]:
    """Return the readings of a series' last months, month by month."""
    with gzip.open(path, "rt") as file:
        readings = [(time, value) for time, value in (line.strip().split(",") for line in file)][1:]
    months = {month: list(of_month) for month, of_month in groupby(readings, lambda one: one[0][:7])}
    return dict(list(months.items())[-MONTHS:])


def test_monthly_files_that_are_sent_again_count_each_reading_once(tmp_path: Path, data: Path) -> None:
    (tmp_path / "tidemark.toml").write_text(CONFIG)
    (tmp_path / "land").mkdir()
    settings = load_settings(tmp_path / "tidemark.toml")
    spark = build_session(settings)
    months = months_of(data / SERIES)
    landed = list[Reading]()

    def run(name: str, readings: list[Reading]) -> dict[str, int]:
        lines = ["timestamp,value", *map(",".join, readings), ""]
        (tmp_path / "land" / f"{name}.csv").write_text("\n".join(lines))
        counts = ingest.run(settings, spark, "station")
        build_rollups.run(settings, spark, "station")
        publish.run(settings, spark, unchecked=True)
        maintain.run(settings, spark, "station")
        return counts

    for month, readings in months.items():
        # Two months of memory come along: raw has lost half of it.
        counts = run(month, [*landed[-1400:], *readings])
        assert (counts["accepted"], counts["duplicates"]) == (len(readings), len(landed[-1400:])), month
        landed += readings
    last = list(months)[-1]
    for month in list(months)[-3:-1]:
        # With a line more: the next month's first.
        counts = run(f"again-{month}", [*months[month], months[last][0]])
        assert (counts["accepted"], counts["duplicates"]) == (0, len(months[month]) + 1)

    assert len(table_rows(settings.layout.raw("station"), "event_us")) < len(landed) // 3
    ranges = {"2013-01-01": "2015-01-01", **{f"{month}-01": f"{month}-28" for month in list(months)[-3:]}}
    for start, end in ranges.items():
        inside = [Decimal(value) for time, value in landed if start <= time[:10] < end]
        (total,) = ask(settings.home, "station", "value", "sum", start, end)
        (count,) = ask(settings.home, "station", "*", "count", start, end)
        assert (total.value, total.exact, total.unchecked) == (float(sum(inside)), True, 0)
        assert (count.value, count.exact, count.low, count.high) == (
            len(inside),
            True,
            len(inside),
            len(inside),
        )
    assert status(settings.home)["streams"][0]["unchecked"] == 0
