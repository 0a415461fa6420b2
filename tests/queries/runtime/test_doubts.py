"""Results over doubtful rows are never called final, and every surface says so; no JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo

import pytest

from jobs import accept_loss, build_rollups, ingest, maintain, publish, repair_late, run_queries
from lakehouse.cli.app import call
from lakehouse.serving.sandbox.sandbox import open_published, run_sql
from lakehouse.serving.status import status
from lakehouse.settings import load_settings
from lakehouse.spark.session import build_session

CONFIG = """
home = "var"
[queries]
published = "forever"
[streams.readings]
event_time = { column = "at", unit = "iso", timezone = "Europe/Berlin" }
identity = ["room", "at"]
keys = ["room"]
measures = ["kwh"]
groupings = [["room"], []]
levels = ["1h for 2d", "1d forever"]
keep_raw = "3d"
duplicates_within = "2d"
source = { path = "land/*.csv", format = "csv", settle = 0 }
columns = { at = "string", kwh = "int" }
"""
QUERIES = {
    "alike": """SELECT a.kwh AS low, b.kwh AS high FROM readings [RANGE 6 HOURS] a JOIN readings [RANGE 6 HOURS] b
        ON a.room = b.room AND a.kwh < b.kwh RECALL 0.95 OVER 1 HOUR EVERY 1 MINUTE""",
    "threes": """SELECT a.kwh, b.kwh AS other, c.kwh AS third FROM readings [6 HOURS] a
        JOIN readings [6 HOURS] b ON a.room = b.room JOIN readings [6 HOURS] c ON b.room = c.room SLACK 10 MINUTES""",
    "counted": """SELECT COUNT(*) FROM readings [6 HOURS] a, readings [6 HOURS] b WHERE a.room = b.room
        EVERY 6 HOURS SLACK 1 MINUTE""",
    "large": "SELECT room, kwh FROM readings WHERE kwh > 1",
}
CHANGE = datetime(2025, 10, 26, 1, tzinfo=UTC)
FIRST, LAST = -30, 10


class Home:
    """A home with a query of each kind over one stream."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "land").mkdir()
        (folder / "queries").mkdir()
        (folder / "tidemark.toml").write_text(CONFIG)
        for name, text in QUERIES.items():
            (folder / "queries" / f"{name}.sql").write_text(f"-- {name}\n{text}\n")
        self.settings = load_settings(folder / "tidemark.toml")
        self.spark = build_session(self.settings)

    def land(self, name: str, numbers: range) -> None:
        """Land a row for each six hours from the change of the clocks on, by the clocks."""
        moments = [CHANGE + timedelta(hours=6 * number) for number in numbers]
        times = [
            moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M") for moment in moments
        ]
        rows = [f"{time},a,{number % 5}" for time, number in zip(times, numbers, strict=True)]
        (self.folder / "land" / name).write_text("\n".join(["at,room,kwh", *rows, ""]))

    def run(self) -> None:
        ingest.run(self.settings, self.spark, "readings")
        build_rollups.run(self.settings, self.spark, "readings")
        for name in QUERIES:
            run_queries.run(self.settings, self.spark, name)
            if name != "large":
                repair_late.run(self.settings, self.spark, name)
        publish.run(self.settings, self.spark, unchecked=True)

    def asked(self, sql: str) -> list[tuple[Any, ...]]:
        with open_published(self.settings.home) as published:
            return [tuple(row) for row in run_sql(published, sql).rows]


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """No power is cut here, and waiting for the disk takes most of the time."""
    with patch("os.fsync"):
        yield


def test_results_over_rows_in_doubt_are_not_final_until_nothing_is_in_doubt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    home.land("a.csv", range(FIRST, LAST))
    home.run()

    # One row at 02:00, which comes twice: only what is before it is final.
    since = int((CHANGE - timedelta(hours=7)).timestamp() * 10**6)
    found = home.asked("SELECT query, doubts, final_before_us FROM queries ORDER BY query")
    assert [row[0] for row in found] == sorted(QUERIES)
    told = "1 row of readings from 2025-10-26 00:00:00 to 2025-10-26 01:00:00 in quarantine"
    for name, doubts, final_before_us in found:
        assert len(doubts) == 1
        assert doubts[0].startswith(told)
        edge = since + (6 * 3600 * 10**6 if name == "large" else 0)
        assert final_before_us == edge, name
    assert home.asked(f"SELECT count(*) FROM answers_counted WHERE final AND tick_us >= {since}") == [(0,)]
    assert home.asked("SELECT count(*) > 9 FROM answers_counted WHERE final") == [(True,)]

    accept_loss.close(home.settings, home.spark, "readings", ["ambiguous_time"])
    home.run()
    assert home.asked(
        f"SELECT sum(len(doubts)), min(final_before_us) > {since} + 21600000000 FROM queries"
    ) == [(0, True)]

    # Raw rows go, with the identities of all but two days; then the memory is sent again.
    (tmp_path / "land" / "b.csv").write_text("at,room,kwh\nno time,a,1\n")
    home.run()
    maintain.run(home.settings, home.spark, "readings")
    home.land("c.csv", range(FIRST, LAST + 1))
    home.run()

    (unchecked,) = {row["unchecked"] for row in status(home.settings.home)["streams"]}
    assert unchecked > 9
    expected = f"{unchecked:,} rows of readings from 2025-10-18 13:00:00 to 2025-10-"
    for row in home.asked(
        "SELECT query, doubts[1], final_before_us < epoch_us(TIMESTAMP '2025-10-19') FROM queries"
    ):
        assert str(row[1]).startswith(
            expected
        ) and "may repeat others: results of them may count twice" in str(row[1])
        assert row[2]
    assert len(status(home.settings.home)["doubts"]) >= len(QUERIES)

    monkeypatch.chdir(tmp_path)
    assert call(["queries", "--json"]) == 0
    overview = json.loads(capsys.readouterr().out)["queries"]
    assert all(facts["doubts"][0].startswith(expected) for facts in overview)
    for words in (["queries"], ["explain", "counted"], ["status"]):
        assert call(words) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "may repeat others: results of them may count twice" in shown, words
