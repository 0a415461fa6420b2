"""Rules of a stream over time: what each says of rows whose times and faults are known, and what now is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs import build_rollups, check_quality, ingest
from lakehouse.checks.checks import measure, open_tables
from lakehouse.checks.time_rules import timeline_of
from lakehouse.config.stream import instant_us
from lakehouse.engine.local import LocalEngine
from lakehouse.settings import Settings
from lakehouse.storage.checked import Checked
from quality.gate import GateFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[[str], Settings]
CONFIG = """
[streams.meters]
event_time = { column = "at", unit = "iso" }
identity = ["at", "device"]
keys = ["device"]
measures = ["energy"]
counters = ["energy"]
groupings = [["device"], []]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
columns.energy = "int"
source = { path = "landing/*.csv", format = "csv", settle = 0 }
"""
RULE = "[[streams.meters.rules]]\n"
Row = tuple[str, str, int | str]


def declared(lakehouse_of: Make, *rules: str) -> Settings:
    return lakehouse_of(CONFIG + "".join(f"{RULE}{rule}\n" for rule in rules))


def land(settings: Settings, name: str, rows: Iterable[Row], header: str = "at,device,energy") -> None:
    folder = settings.home.parent / "landing"
    folder.mkdir(exist_ok=True)
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def take_in(settings: Settings, session: SparkSession) -> None:
    ingest.run(settings, session, "meters")
    build_rollups.run(settings, session, "meters")


def judged(settings: Settings, now: str | None = None, checked: Checked | None = None) -> Mapping[str, Any]:
    """Return the verdicts of the rules over time, without Great Expectations."""
    layout, stream = settings.layout, settings.streams["meters"]
    tables = open_tables(layout, stream, checked or Checked())
    assert tables is not None
    line = timeline_of(
        layout, stream, (tables.since, tables.through), tables.checked.live, instant_us(now) if now else None
    )
    frames, _ = measure(tables, LocalEngine(), line)
    return {
        name: (frame.rows[0][name], seen)
        for frame in frames
        if frame.says
        for name, seen in frame.seen.items()
    }


def test_the_newest_row_is_measured_against_now(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, 'freshness = "15m"')
    land(settings, "a", [("2026-11-03T10:00:00", "a", 1), ("2026-11-03T09:00:00", "a", 0)])
    take_in(settings, session)

    assert judged(settings, "2026-11-03T10:15:00")["freshness"] == (
        0,
        "it is of 2026-11-03 10:00:00, 15m before 2026-11-03 10:15:00",
    )
    assert judged(settings, "2026-11-03T12:15:01")["freshness"][0] == 2 * 3600 + 1


def test_a_clock_that_is_ahead_hides_nothing(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, 'freshness = "15m"')
    land(settings, "a", [("2026-11-03T10:00:00", "a", 1)])
    take_in(settings, session)

    assert judged(settings, "2026-11-03T09:50:00")["freshness"][0] == 0
    assert judged(settings, "2026-11-03T08:00:00")["freshness"] == (
        7200,
        "it is of 2026-11-03 10:00:00, 2h ahead of 2026-11-03 08:00:00, and hides how old the others are",
    )


def test_now_is_where_a_backfill_ends_and_the_clock_once_a_batch_came_in_time(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = declared(lakehouse_of, 'freshness = "15m"', 'silent = { key = "device", after = "30m" }')
    hours = [f"2020-01-01T{hour:02}:00:00" for hour in range(3)]
    land(settings, "a", [(hour, "a", 1) for hour in hours] + [(hours[0], "b", 1)])
    take_in(settings, session)

    found = judged(settings)

    assert found["freshness"] == (
        0,
        "it is of 2020-01-01 02:00:00, 0s before 2020-01-01 02:00:00, where a backfill ends",
    )
    assert found["silent_device"][1].endswith(": device 'x' since 2020-01-01 00:00:00 (2h)")
    now = datetime.now(UTC)
    land(settings, "b", [(now.isoformat(), "a", 1)])
    take_in(settings, session)
    live = judged(settings)["freshness"]
    assert live[0] == 0
    assert f"before {now:%Y-%m-%d}" in live[1]
    assert "backfill" not in live[1]
    # An older ledger row is not read again: that the stream is live is remembered.
    assert "backfill" not in judged(settings, checked=Checked(through=2, live=True))["freshness"][1]


def test_whoever_is_silent_is_named_with_when_it_was_last_heard(
    lakehouse_of: Make, session: SparkSession
) -> None:
    rules = [
        'silent = { key = "device", after = "30m", within = "2d" }',
        'name = "named"\nsilent = { key = "device", after = "30m", within = "2d", masked = false }',
    ]
    settings = declared(lakehouse_of, *rules)
    rows = [("2026-11-03T10:00:00", "on-1", 1), ("2026-11-03T09:40:00", "on-2", 1)]
    rows += [("2026-11-03T09:29:59", "off-3", 1), ("2026-11-02T10:00:00", "off-4", 1)]
    land(settings, "a", [*rows, ("2026-10-31T10:00:00", "gone-5", 1), ("2026-11-03T09:00:00", "off-3", 1)])
    take_in(settings, session)

    found = judged(settings, "2026-11-03T10:00:00")

    assert found["named"] == (
        2,
        "2 of 4 heard within 2d are silent at 2026-11-03 10:00:00: device off-3 since 2026-11-03 09:29:59 (30m1s), "
        "device off-4 since 2026-11-02 10:00:00 (1d)",
    )
    assert "'xxx-9' since 2026-11-03 09:29:59" in found["silent_device"][1]


def test_periods_with_too_few_or_too_many_rows_are_named(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, 'volume = { per = "1h", min = 2, max = 3, wait = 0 }')
    rows: list[Row] = []
    for hour, count in ((3, 2), (4, 1), (6, 3), (7, 5), (8, 2)):
        rows += [(f"2026-11-03T{hour:02}:{minute:02}:00", "a", 1) for minute in range(count)]
    # A row in the middle of an hour: what came before it is not known.
    rows += [("2026-11-03T02:30:00", "a", 1)]
    land(settings, "a", rows)
    take_in(settings, session)

    assert judged(settings, "2026-11-03T08:59:59")["volume"] == (
        3,
        "3 of 5 times 1h from 2026-11-03 03:00:00 to 2026-11-03 08:00:00 do not: 2026-11-03 05:00:00 has 0, "
        "2026-11-03 07:00:00 has 5, 2026-11-03 04:00:00 has 1",
    )


def test_a_period_is_judged_once_rows_had_time_to_come(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, 'volume = { min = 1, wait = "20m" }')
    land(settings, "a", [("2026-11-03T08:00:00", "a", 1), ("2026-11-03T10:00:00", "a", 1)])
    take_in(settings, session)

    assert judged(settings, "2026-11-03T10:19:00")["volume"][0] == 0
    assert judged(settings, "2026-11-03T10:20:00")["volume"][0] == 1


def test_a_learned_volume_is_that_of_the_same_hour_of_the_week(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = declared(lakehouse_of, 'volume = { learned = true, over = "2h", wait = 0 }')
    rows: list[Row] = []
    for week in range(6):
        # 1 September 2026 is a Tuesday. The hours before and after have other volumes, as people do.
        day = datetime(2026, 9, 1 + 7 * week if week < 5 else 6, tzinfo=UTC).replace(
            month=9 if week < 5 else 10
        )
        night = 1 if week < 5 else 20
        rows += [(f"{day:%Y-%m-%d}T02:{second // 60:02}:{second % 60:02}", "a", 1) for second in range(night)]
        rows += [
            (f"{day:%Y-%m-%d}T03:{second // 60:02}:{second % 60:02}", "a", 1) for second in range(100 + week)
        ]
    land(settings, "a", [("2026-08-30T00:00:00", "a", 1), *rows])
    take_in(settings, session)

    assert judged(settings, "2026-10-06T04:00:00")["volume"] == (
        1,
        "1 of 2 times 1h from 2026-10-06 02:00:00 to 2026-10-06 04:00:00 do not: 2026-10-06 02:00:00 has 20 "
        "where 1 are usual, with a spread of 1 in 5 weeks",
    )
    early = judged(settings, "2026-09-22T04:00:00")["volume"]
    assert early[0] == 0
    assert "2 are not judged, with fewer than 4 weeks before them" in early[1]


def test_shares_of_late_and_missing_rows_are_of_what_is_new(
    lakehouse_of: Make, session: SparkSession
) -> None:
    rules = ["late_share = { max = 0.25 }", 'missing_share = { column = "energy", max = 0.5 }']
    settings = declared(lakehouse_of, *rules)
    land(settings, "a", [(f"2026-11-03T10:{minute:02}:00", "a", 1) for minute in range(4)])
    take_in(settings, session)
    rows: list[Row] = [
        ("2026-11-03T10:00:30", "a", ""),
        ("2026-11-03T10:05:00", "a", ""),
        ("2026-11-03T10:06:00", "a", ""),
    ]
    land(settings, "b", [*rows, ("2026-11-03T10:01:30", "a", 1)])
    take_in(settings, session)

    everything, new = judged(settings), judged(settings, checked=Checked(through=1))

    assert everything["late_share"] == (0, "2 of 8 new rows are late (25.00%)")
    assert everything["missing_share_energy"] == (0, "3 of 8 new rows lack it (37.50%)")
    assert new["late_share"] == (1, "2 of 4 new rows are late (50.00%)")
    assert new["missing_share_energy"] == (1, "3 of 4 new rows lack it (75.00%)")


def test_a_backfill_of_a_live_stream_is_not_late(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, "late_share = { max = 0 }")
    land(settings, "a", [(datetime.now(UTC).isoformat(), "a", 1)])
    take_in(settings, session)
    land(settings, "b", [("2026-01-01T00:00:00", "a", 1)])
    take_in(settings, session)

    assert judged(settings)["late_share"] == (0, "0 of 1 new rows are late; 1 more are a backfill")


def test_fields_that_no_file_had_before_are_named_unless_they_are_declared_or_ignored(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = declared(lakehouse_of, 'new_columns = { ignore = ["note"] }')
    land(settings, "a", [("2026-11-03T10:00:00", "a", "x")], "at,device,old")
    take_in(settings, session)
    assert judged(settings)["new_columns"] == (0, "0 fields are new")
    land(settings, "b", [("2026-11-03T10:01:00", "a", "1,x,y,z")], "at,device,energy,old,note,fw")
    take_in(settings, session)

    assert judged(settings)["new_columns"] == (1, "1 fields are new: fw")
    assert judged(settings, checked=Checked(through=2)) == {}


def test_falls_of_a_counter_are_counted_by_meter_and_day(lakehouse_of: Make, session: SparkSession) -> None:
    settings = declared(lakehouse_of, 'counter_resets = { column = "energy", max = 1, masked = false }')
    readings = {"good": [5, 6, 7, 8, 1, 2], "bad": [5, 1, 4, 2, 3, 1]}
    rows = [
        (f"2026-11-03T{10 + place}:00:{second:02}", name, value)
        for name, values in readings.items()
        for place, value in enumerate(values)
        for second in (0,)
    ]
    land(settings, "a", rows[::2])
    take_in(settings, session)
    land(settings, "b", rows[1::2])
    take_in(settings, session)

    assert judged(settings, "2026-11-03T18:00:00")["counter_resets_energy"] == (
        1,
        "1 of 2 times 1d of a meter since 2026-11-02 00:00:00 do not: "
        "device bad falls 3 times from 2026-11-03 00:00:00 on",
    )


def test_a_day_is_compared_with_the_same_weekday_before(lakehouse_of: Make, session: SparkSession) -> None:
    rules = ['drift = { column = "energy" }', 'drift = { column = "device", max = 0.05, masked = false }']
    settings = declared(lakehouse_of, *rules)
    # Tuesdays; the last one has twice the values, and another device has most of them.
    for week, day in enumerate(("2026-10-13", "2026-10-20", "2026-10-27", "2026-11-03")):
        rows: list[Row] = []
        for minute in range(200):
            device, other = ("b", 2) if week == 3 and minute % 4 else ("a", 1)
            time = f"{day}T{minute // 60:02}:{minute % 60:02}:00"
            rows.append((time, device, (minute % 100) * other))
        land(settings, day, [*rows, (f"{day}T23:00:00", "b", "")])
    take_in(settings, session)

    found = judged(settings, "2026-11-04T00:00:00")

    assert found["drift_device"][1] == (
        "on 2026-11-03 it is 4.78 from 3 such days before; most by b: 75.1% of the values, 0.5% before"
    )
    assert found["drift_device"][0] > 4
    assert found["drift_energy"][0] > 0
    assert (
        "from 3 such days before; most by above 89: 44.0% of the values, 10.0% before"
        in found["drift_energy"][1]
    )
    early = judged(settings, "2026-10-28T00:00:00")
    assert early["drift_energy"][0] == early["drift_device"][0] == 0
    assert "on 2026-10-27 it is 0.00 from 2 such days before" in early["drift_energy"][1]
    assert judged(settings, "2026-11-05T00:00:00")["drift_energy"] == (
        0,
        "2026-11-04, or that weekday before, has fewer than 100 values",
    )


def test_a_rule_over_time_fails_without_anything_new_and_holds_again(
    lakehouse_of: Make, session: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    settings = declared(
        lakehouse_of, 'freshness = "15m"\non_failure = "withhold"', "volume = { min = 2, wait = 0 }"
    )
    land(settings, "a", [("2026-11-03T09:00:00", "a", 1), ("2026-11-03T10:00:00", "a", 1)])
    take_in(settings, session)

    def at(text: str) -> dict[str, Any]:
        return check_quality.run(settings, session, "meters", now_us=instant_us(text))

    with caplog.at_level(logging.WARNING):
        assert at("2026-11-03T10:00:00")["warned"] == 1
    assert (
        "each 1h has at least 2 rows: 1 of 1 times 1h from 2026-11-03 09:00:00 to 2026-11-03 10:00:00 do not"
        in caplog.text
    )
    with pytest.raises(
        GateFailed, match=r"the newest row is at most 15m old: it is of 2026-11-03 10:00:00, 20m before"
    ):
        at("2026-11-03T10:20:00")
    assert at("2026-11-03T10:10:00")["failed"] == 0
    # Without a time that is asked for, the backfill's own end is now; nothing is skipped as unchanged.
    for _ in range(2):
        assert "unchanged" not in check_quality.run(settings, session, "meters")


OFFICES = """
[streams.meters]
event_time = {{ column = "timestamp", unit = "iso" }}
keys = ["room"]
measures = ["temperature"]
groupings = [["room"], []]
levels = ["1m for 2d", "1h for 1y", "1d forever"]
columns.room = {{ file = 'room_(.+)\\.csv' }}
source = {{ path = "{data}/office-rooms/room_640.csv.gz", format = "csv", settle = 0 }}
[[streams.meters.rules]]
volume = {{ per = "1h", min = 1, over = "30d" }}
[[streams.meters.rules]]
freshness = "15m"
"""


def test_hours_in_which_a_real_room_is_not_heard_are_named(
    lakehouse_of: Make, session: SparkSession, data: Path
) -> None:
    settings = lakehouse_of(OFFICES.format(data=data))
    take_in(settings, session)

    verdicts = judged(settings)

    assert verdicts["freshness"][0] == 0
    assert verdicts["volume"][0] == 51
    assert verdicts["volume"][1].startswith(
        "51 of 185 times 1h from 2013-08-24 00:00:00 to 2013-08-31 17:00:00 do not"
    )
