"""Profile in a report: the newest day with rows, each column with its days; none where a home has none."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np

from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import Summary
from lakehouse.serving.quality.report import Asked, profile_rows
from lakehouse.serving.table_reader import connected
from lakehouse.spark.tables import declared_columns
from lakehouse.storage.corrections import RETRACT, Correction
from lakehouse.storage.profiles import DAY_US, ColumnProfile, day_of, profile_of
from lakehouse.web.quality.page import Page
from tests.support.reported import HOSTILE, reported, write

DAY = day_of("2026-01-01")


def columns(temp: float) -> list[ColumnProfile]:
    """Return the columns of a day of three rows: one lacks its temperature."""
    numbers = np.array([temp, temp + 2])
    temps = Summary.of(1, numbers.view(np.int64), numbers)
    devices = ColumnProfile("device", Summary.of(0, np.arange(3)), Frequent({HOSTILE: 2, "b": 1}))
    minutes = Summary(rows=3, bins=[0, 61], weights=[1, 2])
    return [ColumnProfile("*", minutes, late=1), devices, ColumnProfile("temp", temps)]


def test_the_newest_day_is_shown_with_the_days_before_it_and_nothing_of_it_is_markup(tmp_path: Path) -> None:
    home = reported(tmp_path)
    with connected(home.tables) as connection:
        assert Asked(home, connection).report("rooms")["profile"] == []
        days = [(DAY - DAY_US, 19.0), (DAY, 20.0), (DAY + DAY_US, 50.0)]
        rows = [one.as_row() | {"batch": 1, "day_us": day} for day, temp in days for one in columns(temp)]
        write(home.profile("rooms"), declared_columns("profile"), rows)
        report = Asked(home, connection).report("rooms", date(2026, 1, 1))

    day, device, temp = report["profile"]
    assert (day["day"], day["rows"], day["late"], day["by_hour"][:2]) == ("2026-01-01", 3, 1, [1, 2])
    assert (temp["missing"], temp["mean"], device["distinct"]) == (1, 21.0, 3)
    assert [one["value"] for one in temp["trend"]] == [20.0, 21.0]
    assert [one["value"] for one in device["trend"]] == [1.0, 1.0]
    page = Page(is_file=True).overview("Quality", [report])
    assert "3 rows are of 2026-01-01, 1 of them came late" in page
    assert HOSTILE not in page and "1 (33.3%)" in page and "mean: 20 to 21" in page


def test_times_are_shown_as_such_where_their_unit_is_known(tmp_path: Path) -> None:
    home = reported(tmp_path)
    seconds = np.array([DAY / 1e6, DAY / 1e6 + 7200])
    sent = ColumnProfile("sent", Summary.of(0, seconds.view(np.int64), seconds))
    rows = [one.as_row() | {"batch": 1, "day_us": DAY} for one in (*columns(20.0), sent)]
    write(home.profile("rooms"), declared_columns("profile"), rows)
    with connected(home.tables) as connection:
        report = Asked(home, connection, units={"rooms": {"sent": "s"}}).report("rooms", date(2026, 1, 1))

    assert [row["unit"] for row in report["profile"][1:]] == [None, "s", None]
    page = Page(is_file=True).overview("Quality", [report])
    for shown in ("2026-01-01 00:00:00", "2026-01-01 02:00:00", "2026-01-01 01:00:00 ± 1h24m51s"):
        assert f"<td>{shown}</td>" in page


def test_a_day_without_rows_shows_the_last_one_before_it(tmp_path: Path) -> None:
    home = reported(tmp_path)
    rows = [one.as_row() | {"batch": 1, "day_us": DAY} for one in columns(20.0)]
    write(home.profile("rooms"), declared_columns("profile"), rows)

    days = [profile_rows(home, "rooms", day_us, {}) for day_us in (DAY + 100 * DAY_US, DAY - DAY_US)]

    assert [row["day"] for row in days[0]] == ["2026-01-01"] * 3
    assert days[1] == []


def test_rows_that_were_retracted_of_a_day_are_named_because_its_figures_still_count_them(
    tmp_path: Path,
) -> None:
    home = reported(tmp_path)
    days = (DAY - DAY_US, DAY)
    rows = [one.as_row() | {"batch": 1, "day_us": day} for day in days for one in columns(20.0)]
    write(home.profile("rooms"), declared_columns("profile"), rows)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    done = Correction(1, RETRACT, True, "me", "it was wrong", "rows", "", DAY, DAY + 9, 1, 2, {1: 2}, at)
    begun = replace(done, number=2, done=False)
    other = replace(done, number=3, kind="rebuild")
    found = [asdict(each) | {"batches": [(1, 2)]} for each in (done, begun, other)]
    write(home.corrections("rooms"), declared_columns("corrections"), found)

    before, newest = (profile_of(home, "rooms", day)[0] for day in ("2025-12-31", "2026-01-01"))

    assert (before["retracted"], newest["retracted"]) == (0, 2)
    with connected(home.tables) as connection:
        page = Page(is_file=True).overview(
            "Quality", [Asked(home, connection).report("rooms", date(2026, 1, 1))]
        )
    assert "at most 2 were retracted since, and the figures still count them" in page
