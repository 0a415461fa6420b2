"""Times as loggers write them: formats, several columns, spreadsheets' days, nanoseconds, shifts and fallbacks."""

from __future__ import annotations

import calendar
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config.checks import stream_problems
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.numbered import located_lines

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FORMATS = (
    "%Y/%m/%d %H:%M:%S.%f",
    "%d.%m.%Y %H:%M:%S,%f",
    "%m/%d/%Y %I:%M:%S %p",
    "%y%m%d %H%M",
    "%Y-%jT%H:%M:%S",
    "%d %b %Y %H:%M",
    "%Y%m%dT%H%M%S%z",
    "%Y %j %k",
)


def stream_of(event_time: dict[str, Any], **more: Any) -> Stream:
    declared = {
        "name": "logger",
        "event_time": event_time,
        "levels": ["1d forever"],
        "columns": {"v": "int"},
        "event_time_bounds": ["1969-01-01", "2069-01-01"],
        "source": {"path": "*", "format": "csv", "separator": ";"},
    }
    stream = Stream.model_validate(declared | more)
    assert stream_problems(stream) == []
    return stream


def rows_of(stream: Stream, names: tuple[str, ...], lines: list[str]) -> list[dict[str, Any]]:
    records = pa.array([line.encode() for line in lines], pa.binary())
    table = located_lines(pa.array(range(1, len(lines) + 1), pa.int64()), records, "a.csv")
    return list(Parser.of(stream, [names]).parse(table).to_pylist())


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


@pytest.mark.parametrize("form", FORMATS)
@given(moments=st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), min_size=1, max_size=5))
def test_a_time_in_any_format_is_the_moment_that_it_spells(form: str, moments: list[datetime]) -> None:
    stream, lines, expected = stream_of({"column": "at", "format": form}), [], []
    for moment in moments:
        text = moment.replace(tzinfo=UTC).strftime(form.replace("%k", "%H%M"))
        lines.append(f"{text.lstrip('0') if form.endswith('%M %p') else text};1")
        read = datetime.strptime(text, form.replace("%k", "%H%M"))
        expected.append(micros(read.replace(tzinfo=UTC)))

    assert [row["event_us"] for row in rows_of(stream, ("at", "v"), lines)] == expected


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("%d.%m.%Y %H:%M", "01.02.2026 10:00", "2026-02-01T10:00:00"),
        ("%d.%m.%Y %H:%M", "01.02.2026 24:00", "2026-02-02T00:00:00"),
        ("%Y-%m-%d %H:%M:%S", "2026-02-01 23:59:60", "2026-02-02T00:00:00"),
        ("%d/%m/%y %k", "1/2/26 5", "2026-02-01T00:05:00"),
        ("%d/%m/%y %k", "1/2/26 2400", "2026-02-02T00:00:00"),
        ("%m/%d/%Y %I:%M:%S %p", "2/1/2026 12:00:00 am", "2026-02-01T00:00:00"),
        ("%m/%d/%Y %I:%M:%S %p", "2/1/2026  5:45:20 PM", "2026-02-01T17:45:20"),
        ("%d-%b-%Y %H:%M", "1-FEB-2026 10:00", "2026-02-01T10:00:00"),
        ("%d %b %Y", "1 September 2026", "2026-09-01T00:00:00"),
        ("%Y-%m-%d %H:%M:%S.%f %z", "2026-02-01 10:00:00.607158889 -0330", "2026-02-01T13:30:00.607158"),
        ("%Y%m%dT%H%M%S%z", "20260201T100000Z", "2026-02-01T10:00:00"),
        ("%Y-%j", "2026-032", "2026-02-01T00:00:00"),
        ("%Y-%j", "2025-366", None),
        ("%d.%m.%Y", "29.02.2026", None),
        ("%d.%m.%Y", "2026-02-01", None),
        ("%d.%m.%Y %H:%M", "01.02.2026 24:01", None),
        ("%m/%d/%Y %I:%M %p", "2/1/2026 13:00 PM", None),
        ("%Y 100%% %m %d", "2026 100% 2 1", "2026-02-01T00:00:00"),
    ],
)
def test_a_text_is_read_as_its_format_says_or_rejected_as_it_stands(
    form: str, text: str, expected: str | None
) -> None:
    [row] = rows_of(stream_of({"column": "at", "format": form}), ("at", "v"), [f"{text};1"])

    if expected is None:
        assert row["reason"] == "bad_event_time"
        assert row["detail"] == f"at is '{text}', expected format {form}"
    else:
        assert row["event_us"] == micros(datetime.fromisoformat(expected).replace(tzinfo=UTC))


def test_a_local_time_in_a_format_is_of_the_clocks_of_its_zone() -> None:
    stream = stream_of({"column": "at", "format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"})

    rows = rows_of(stream, ("at", "v"), ["01.07.2026 12:00;1", "29.03.2026 02:30;1", "25.10.2026 02:30;1"])

    assert rows[0]["event_us"] == micros(datetime(2026, 7, 1, 10, tzinfo=UTC))
    assert [row["reason"] for row in rows[1:]] == ["skipped_time", "ambiguous_time"]


@pytest.mark.parametrize("reading", [{"format": "%Y-%m-%d %H:%M"}, {"unit": "iso"}])
@pytest.mark.parametrize(("zone", "hour"), [("+05:30", 6), ("-03:00", 15)])
def test_clocks_whose_offset_never_changes_show_each_time_once(
    reading: dict[str, str], zone: str, hour: int
) -> None:
    stream = stream_of({"column": "at", "timezone": zone} | reading)
    days = ["01.07.2026", "29.03.2026", "25.10.2026"]
    moments = [datetime.strptime(day, "%d.%m.%Y").replace(hour=12, tzinfo=UTC) for day in days]

    rows = rows_of(stream, ("at", "v"), [f"{each:%Y-%m-%d %H:%M};1" for each in moments])

    minute = 30 if zone == "+05:30" else 0
    assert [row["event_us"] for row in rows] == [
        micros(each.replace(hour=hour, minute=minute)) for each in moments
    ]


def test_a_day_and_a_clock_in_two_columns_are_one_time() -> None:
    stream = stream_of({"columns": ["day", "clock"], "unit": "iso"})

    rows = rows_of(stream, ("day", "clock", "v"), ["2026-02-01;05:30:00;1", "2026-02-01;;1", ";;1"])

    assert rows[0]["event_us"] == micros(datetime(2026, 2, 1, 5, 30, tzinfo=UTC))
    assert [row["detail"] for row in rows[1:]] == ["day or clock is missing"] * 2


def test_three_columns_are_one_time_of_a_format() -> None:
    stream = stream_of({"columns": ["year", "day", "hhmm"], "format": "%Y %j %k"})

    [row] = rows_of(stream, ("year", "day", "hhmm", "v"), ["2026;32;1015;1"])

    assert row["event_us"] == micros(datetime(2026, 2, 1, 10, 15, tzinfo=UTC))


@given(
    st.integers(0, 2_000_000_000_000_000_000),
    st.sampled_from(["ns", "us", "ms", "s"]),
)
def test_a_number_of_any_unit_is_rounded_down_to_the_microsecond(nanos: int, unit: str) -> None:
    power = {"ns": 0, "us": 3, "ms": 6, "s": 9}[unit]
    stream = stream_of({"column": "at", "unit": unit})
    text = str(nanos // 10**power)

    [row] = rows_of(stream, ("at", "v"), [f"{text};1"])

    assert row["event_us"] == int(text) * 10**power // 1000


def test_a_day_of_a_spreadsheet_is_read_to_the_millisecond() -> None:
    stream = stream_of({"column": "at", "unit": "excel"})

    rows = rows_of(stream, ("at", "v"), ["46054.4166666667;1", "46054;1", "x;1"])

    assert rows[0]["event_us"] == micros(datetime(2026, 2, 1, 10, tzinfo=UTC))
    assert rows[1]["event_us"] == micros(datetime(2026, 2, 1, tzinfo=UTC))
    assert rows[2]["reason"] == "bad_event_time"


@pytest.mark.parametrize(("unit", "text"), [("iso", "2026-02-01T10:00:00"), ("s", "1769940000")])
def test_a_shift_is_added_to_what_a_clock_says(unit: str, text: str) -> None:
    [row] = rows_of(stream_of({"column": "at", "unit": unit, "shift": "-1h"}), ("at", "v"), [f"{text};1"])

    assert row["event_us"] == micros(datetime(2026, 2, 1, 9, tzinfo=UTC))


def test_a_fallback_is_read_where_the_clock_says_nothing_that_can_be() -> None:
    stream = stream_of(
        {"column": "at", "unit": "iso", "or": "gateway"}, event_time_bounds=["2020-01-01", "2030-01-01"]
    )
    lines = ["2026-02-01T10:00:00;2026-02-01T10:00:05;1", *(f"{bad};2026-02-01T10:00:05;1" for bad in BAD)]

    rows = rows_of(stream, ("at", "gateway", "v"), [*lines, "1980-01-06T00:00:00;;1"])

    second = micros(datetime(2026, 2, 1, 10, 0, 5, tzinfo=UTC))
    assert [row["event_us"] for row in rows[:-1]] == [second - 5_000_000, *[second] * len(BAD)]
    assert rows[-1]["reason"] is not None


BAD = ("", "1980-01-06T00:00:00", "0001-01-01T00:00:00", "2036-02-07T06:28:15", "no time")


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ({"column": "at", "format": "%d.%m %H:%M"}, "a year, month and day"),
        ({"column": "at", "format": "%d.%m.%Y %q"}, "the codes"),
        ({"column": "at", "format": "%d.%m.%Y %I"}, "the hour once"),
        ({"column": "at", "format": "%d.%m.%Y", "unit": "s"}, "a format belongs to no unit"),
        ({"column": "at", "columns": ["day"], "unit": "iso"}, "one of column and columns"),
        ({"column": "at", "unit": "iso", "shift": "an hour"}, "whole numbers with units"),
    ],
)
def test_a_time_that_cannot_be_read_is_refused(time: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        stream_of(time)


def test_every_month_has_its_english_names() -> None:
    stream = stream_of({"column": "at", "format": "%d %b %Y"})
    names = [*calendar.month_name[1:], *calendar.month_abbr[1:]]

    rows = rows_of(stream, ("at", "v"), [f"1 {name} 2026;1" for name in names])

    assert [row["event_us"] for row in rows] == [
        micros(datetime(2026, m, 1, tzinfo=UTC)) for m in [*range(1, 13)] * 2
    ]


ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "+05:30", "UTC", "Australia/Lord_Howe")


@given(
    st.lists(
        st.tuples(st.datetimes(datetime(1970, 1, 2), datetime(2068, 12, 30)), st.sampled_from(ZONES)),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["%d.%m.%Y %H:%M:%S", None]),
)
def test_a_record_is_read_by_the_clocks_of_the_zone_that_it_names(
    records: list[tuple[datetime, str]], form: str | None
) -> None:
    reading = {"format": form} if form else {"unit": "iso"}
    both = stream_of({"column": "at", "timezone_column": "tz"} | reading)
    texts = [moment.strftime(form or "%Y-%m-%d %H:%M:%S") for moment, _ in records]

    rows = rows_of(
        both, ("at", "tz", "v"), [f"{text};{zone};1" for text, (_, zone) in zip(texts, records, strict=True)]
    )

    for row, text, (_, zone) in zip(rows, texts, records, strict=True):
        [one] = rows_of(stream_of({"column": "at", "timezone": zone} | reading), ("at", "v"), [f"{text};1"])
        assert (row["event_us"], row["reason"]) == (one["event_us"], one["reason"])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+02:00"])
def test_a_time_with_an_offset_needs_no_zone_and_one_without_needs_one_that_exists(zone: str) -> None:
    stream = stream_of({"column": "at", "unit": "iso", "timezone_column": "tz"})
    lines = ["2026-07-01T12:00:00Z;;1", "2026-07-01T12:00:00;;1", "2026-07-01T12:00:00;Mars/Base;1"]

    rows = rows_of(stream, ("at", "tz", "v"), [*lines, f"2026-07-01 14:00;{zone};1", f"noon;{zone};1"])

    noon = micros(datetime(2026, 7, 1, 12, tzinfo=UTC))
    assert [row["event_us"] if row["reason"] is None else row["reason"] for row in rows] == [
        noon,
        "bad_event_time",
        "bad_event_time",
        noon,
        "bad_event_time",
    ]
    assert rows[2]["detail"].startswith("tz is 'Mars/Base', expected a time zone name")


def test_as_many_zones_that_do_not_exist_as_lines_cost_no_more_than_one() -> None:
    stream = stream_of({"column": "at", "unit": "iso", "timezone_column": "tz"})
    lines = [f"2026-07-01 12:00:00Z;x{number};1" for number in range(30_000)]

    rows = rows_of(stream, ("at", "tz", "v"), lines)

    assert {row["event_us"] for row in rows} == {micros(datetime(2026, 7, 1, 12, tzinfo=UTC))}


def test_times_that_a_records_clocks_show_twice_or_never_are_rejected_as_such() -> None:
    stream = stream_of({"column": "at", "unit": "iso", "timezone_column": "tz"}, measures=["v"])
    lines = ["2026-10-25 02:30;Europe/Berlin;7", "2026-03-29 02:30;Europe/Berlin;7", "2026-03-29 02:30;UTC;7"]

    rows = rows_of(stream, ("at", "tz", "v"), lines)

    assert [row["reason"] for row in rows] == ["ambiguous_time", "skipped_time", None]
    assert (rows[0]["v"], rows[0]["event_us"]) == (7, micros(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)))
    assert "in Europe/Berlin" in rows[0]["detail"]


@given(
    st.datetimes(datetime(1975, 1, 1), datetime(2060, 1, 1)),
    st.decimals(-100_000, 10_000_000, places=6),
    st.sampled_from([("s", 10**6), ("ms", 1000), ("us", 1)]),
)
def test_a_time_since_another_is_exactly_so_many_units_behind_it(
    start: datetime, count: Decimal, unit: tuple[str, int]
) -> None:
    stream = stream_of({"column": "t", "unit": unit[0], "since": "start"})

    [row] = rows_of(stream, ("start", "t", "v"), [f"{start.isoformat(' ')};{count};1"])

    assert row["event_us"] == micros(start.replace(tzinfo=UTC)) + math.floor(count * unit[1])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (";5;1", "no_event_time"),
        ("01.07.2026 10:00;;1", "no_event_time"),
        ("2026-07-01 10:00;5;1", "bad_event_time"),
        ("01.07.2026 10:00;x;1", "bad_event_time"),
        ("25.10.2026 02:30;5;1", "bad_event_time"),
        ("01.07.2026 10:00;1e300;1", "bad_event_time"),
    ],
)
def test_a_time_since_none_is_none(line: str, reason: str) -> None:
    declared = {"column": "t", "unit": "s", "since": "start", "format": "%d.%m.%Y %H:%M"}
    stream = stream_of(declared | {"timezone": "Europe/Berlin"})

    [good, row] = rows_of(stream, ("start", "t", "v"), ["01.07.2026 10:00;90;1", line])

    assert good["event_us"] == micros(datetime(2026, 7, 1, 8, 1, 30, tzinfo=UTC))
    assert row["reason"] == reason


@pytest.mark.parametrize(
    ("time", "refused"),
    [
        ({"column": "at", "unit": "s", "timezone_column": "tz"}, 'only "iso" has one'),
        ({"column": "at", "unit": "iso", "timezone_column": "tz", "timezone": "Asia/Tokyo"}, "found both"),
        ({"column": "at", "unit": "iso", "since": "start"}, "a number of unit s, ms, us or ns"),
    ],
)
def test_a_zone_or_a_start_that_means_nothing_is_refused(time: dict[str, str], refused: str) -> None:
    with pytest.raises((ValueError, AssertionError), match=refused):
        stream_of(time)
