"""Small awkward files kept beside the checkout, each read as the right declaration says: rows, times and values."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.checks import stream_problems
from lakehouse.config.presets import with_preset
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.files import landed
from lakehouse.ingest.sources.landed_content import seen
from lakehouse.ingest.sources.lines import parsed_file

CASES = Path(__file__).parents[3] / "shared" / "cases"
HOUR_US, FEBRUARY_US = 3_600_000_000, 1_769_904_000_000_000
HOURLY = [(FEBRUARY_US + hour * HOUR_US, hour + 0.5) for hour in range(24)]
TOA5 = {"header": {"line": 2, "data": 5}}
Declared = dict[str, Any]
# By file: what its declaration has beside its format, and the times and values that it holds.
FILES: dict[str, tuple[Declared, list[tuple[int, Any]]]] = {
    "fail-4/land/toanames/a.dat": ({"time": "TIMESTAMP", "value": "Temp(1)", "source": TOA5}, HOURLY),
    "fail-4/land/toanone/a.dat": (
        {"time": "TIMESTAMP", "value": "Volt", "source": TOA5},
        [(at, float(f"12.{hour}")) for hour, (at, _) in enumerate(HOURLY)],
    ),
    "fail-4/land/title/a.csv": ({"value": "temp", "source": {"header": {"line": 2}}}, HOURLY),
    "fail-4/land/rdb/a.txt": (
        {
            "time": "day",
            "value": "flow",
            "source": {"separator": "\t", "comment": "#", "header": {"line": 1, "data": 3}},
        },
        [(FEBRUARY_US + (day - 1) * 24 * HOUR_US, day) for day in range(1, 20)],
    ),
    "fail-4/land/ws/a.txt": (
        {
            "columns": {"at": {"position": 0}, "v": {"position": 1, "type": "double"}},
            "source": {"separator": "whitespace", "header": "none"},
        },
        HOURLY,
    ),
    "fail-5/land/trailing/a.csv": ({"value": "temp", "source": {"ragged": True}}, HOURLY),
    "fail-5/land/trailing2/a.csv": ({"value": "temp", "source": {"ragged": True}}, HOURLY),
    "fail-5/land/short/a.tsv": (
        {"value": "mean", "source": {"ragged": True, "separator": "\t"}},
        [(at, None if hour % 3 == 0 else value) for hour, (at, value) in enumerate(HOURLY)],
    ),
    "fail-6/land/ns/a.csv": (
        {"event_time": {"column": "at", "unit": "ns"}, "value": "v"},
        [(1_767_225_600_000_000 + second * 1_000_000, 1) for second in range(20)],
    ),
    "fail-6/land/twocol/a.csv": (
        {"event_time": {"columns": ["day", "clock"], "unit": "iso"}, "value": "v"},
        [(at, 1) for at, _ in HOURLY],
    ),
    "fail-8/land/comma/a.csv": ({"value": "power", "source": {"separator": ";", "decimal": ","}}, HOURLY),
    "fail-8/land/commaopt/a.csv": (
        {
            "columns": {"v": {"path": "power", "type": "double", "optional": True}},
            "source": {"separator": ";", "decimal": ","},
        },
        HOURLY,
    ),
    "fail-8/land/units/a.csv": (
        {"columns": {"v": {"path": "height", "type": "double", "strip": " m"}}},
        HOURLY,
    ),
    "fail-8/land/latinrow/a.csv": ({"value": "temp", "source": {"encoding": "latin-1"}}, HOURLY),
    "fail-8/land/latinname/a.csv": ({"value": "Core Temp [°C]", "source": {"encoding": "latin-1"}}, HOURLY),
    "fail-8/land/twinname/a.csv": ({"value": "CPU Temp_1"}, [(at, value + 0.25) for at, value in HOURLY]),
    "fail-9/land/jsonarray/a.json": (
        {"event_time": {"column": "ts", "unit": "s"}, "value": "v", "source": {"format": "json"}},
        [(1_767_225_600_000_000, 1), (1_767_225_660_000_000, 2)],
    ),
    "fail-9/land/jsonpretty/a.json": (
        {"event_time": {"column": "ts", "unit": "s"}, "value": "v", "source": {"format": "json"}},
        [(1_767_225_600_000_000, 1)],
    ),
    "fail-9/land/nested/a.ndjson": (
        {
            "event_time": {"column": "list.ts", "unit": "ms"},
            "value": "list.gw.rssi",
            "source": {"format": "ndjson", "explode": ["list", "list.gw"]},
        },
        [(1_767_225_600_000_000, -80), (1_767_225_600_000_000, -90), (1_767_225_601_000_000, -70)],
    ),
    "fail-9/land/parallel/a.ndjson": (
        {
            "event_time": {"column": "ts", "unit": "ms"},
            "value": "value.value",
            "source": {"format": "ndjson", "explode": ["value", ["value.property", "value.value"]]},
        },
        [(1_767_225_600_000_000, value) for value in (21.5, 40, 22)],
    ),
}


def read(name: str, declared: Declared) -> pa.Table:
    """Return the rows of a case's file, by its declaration."""
    path = CASES / name
    if not path.is_file():
        pytest.skip(f"absent beside this checkout: {path}")
    table = with_preset(
        {
            "name": "s",
            "event_time": declared.get("event_time", {"column": declared.get("time", "at"), "unit": "iso"}),
            "levels": ["1d forever"],
            "columns": declared.get("columns", {"v": {"path": declared.get("value"), "type": "double"}}),
            "source": {"path": str(path), "format": "csv", **declared.get("source", {})},
            **declared.get("stream", {}),
        }
    )
    stream = Stream.model_validate(table)
    assert stream_problems(stream) == []
    file = landed(str(path), seen(str(path)), stream.source)
    return pa.concat_tables(parsed_file(file, 0, Parser.of(stream, [file.fields], True)))


@pytest.mark.parametrize("name", FILES)
def test_a_file_holds_what_its_description_says(name: str) -> None:
    declared, expected = FILES[name]

    rows = read(name, declared)

    assert rows["detail"].drop_null().to_pylist() == []
    assert list(zip(rows["event_us"].to_pylist(), rows["v"].to_pylist(), strict=True)) == expected


def moment(text: str) -> int:
    """Return microseconds of an ISO text."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


# How each of the times is declared that are no ISO texts, and the moment of each.
TIMES: list[tuple[str, int]] = [
    ("%Y/%m/%d %H:%M:%S", moment("2026-02-01T10:00")),
    ("%d.%m.%Y %H:%M", moment("2026-02-01T10:00")),
    ("%m/%d/%Y %I:%M:%S %p", moment("2026-02-01T17:45:20")),
    ("%y/%m/%d %H:%M:%S", moment("2026-02-01T11:00")),
    ("%d/%m/%y %H", moment("2026-02-01T00:00")),
    ("%Y-%m-%d %H:%M:%S.%f %z UTC m=%*", moment("2026-02-01T10:00") + 607_158),
    ("", moment("2026-02-01T08:00")),
    ("%Y-%m-%dT%H:%M:%S,%f%z", moment("2026-02-01T10:00") + 250_000),
    ("%Y%m%dT%H%M%S%z", moment("2026-02-01T10:00")),
    ("", moment("2026-02-01T10:00")),
    ("", moment("2026-02-01T00:00")),
    ("%Y-%m-%dT%H:%M:%S%z", moment("2026-02-02T00:00")),
    ("", moment("2026-02-01T10:00")),
    ("", moment("2026-02-01T10:00") + 607_158),
    ("", moment("2026-02-01T08:00")),
    ("%Y-%m-%d %I:%M:%S %p", moment("2026-02-01T22:00")),
    ("", moment("2026-02-01T09:05:07")),
    ("", moment("2026-02-01T10:00") + 123_456),
    ("%Y-%m-%d %H:%M:%S", moment("2026-02-02T00:00")),
    ("%Y-%m-%dT%H:%M:%S Europe/Paris", moment("2026-02-01T09:00")),
    ("%Y-%jT%H:%M:%S%z", moment("2026-02-01T10:00")),
]


@pytest.mark.parametrize("number", range(len(TIMES)))
def test_a_time_is_read_however_it_is_written(number: int) -> None:
    form, expected = TIMES[number]
    zone = {"timezone": "Europe/Paris"} if "Paris" in form else {}
    time = {"column": "at", **({"format": form} if form else {"unit": "iso"}), **zone}

    rows = read("fail-6/land/times/a.csv", {"event_time": time, "value": "v"})

    assert (rows["event_us"][number].as_py(), rows["detail"][number].as_py()) == (expected, None)


def test_columns_of_one_name_are_channels_of_their_own() -> None:
    unpivot = {"unpivot": {"columns": "Temp|Load"}}
    columns = {"channel": "string", "value": "double"}

    rows = read("fail-11/land/1.csv", {"columns": columns, "source": unpivot})

    sums = rows.group_by("channel").aggregate([("value", "sum")]).to_pylist()
    assert {row["channel"]: row["value_sum"] for row in sums} == {
        "Core Temp": 400,
        "GPU Temp": 600,
        "Core Temp_1": 405,
        "Load": 70,
    }
    latin = read(
        "fail-8/land/latin/a.csv",
        {"columns": columns, "source": {"encoding": "latin-1", "unpivot": {"columns": "Temp|Fan"}}},
    )
    assert set(latin["channel"].to_pylist()) == {"Core Temp [°C]", "Fan [rpm]"}
    twins = read("fail-8/land/twins/a.csv", {"columns": columns, "source": {"unpivot": {"columns": "Temp"}}})
    assert len(twins) == 72 and set(twins["channel"].to_pylist()) == {"CPU Temp", "GPU Temp", "CPU Temp_1"}


def test_an_hour_that_comes_twice_is_read_by_the_order_of_its_file() -> None:
    time = {"column": "at", "unit": "iso", "timezone": "Europe/Berlin"}

    rows = read("fail-7/land/1.csv", {"event_time": time, "value": "kwh"})

    start = moment("2026-10-25T00:00")
    hours = [(at - start) // HOUR_US for at in rows["event_us"].to_pylist()]
    values = list(zip(hours, rows["v"].to_pylist(), strict=True))
    assert [sum(value for hour, value in values if hour == each) for each in (0, 1)] == [38, 54]


def test_a_gateway_with_a_wrong_clock_is_read_by_another_time() -> None:
    time = {"column": "time", "unit": "iso", "or": "rxInfo.nsTime"}
    arrival = {"column": "rxInfo.nsTime", "unit": "iso", "or": "rxInfo.gwTime"}
    preset = {"preset": "chirpstack", "arrival_time": arrival}

    rows = read(
        "fail-13/land/1.ndjson",
        {"event_time": time, "columns": {}, "source": {"format": "ndjson"}, "stream": preset},
    )

    assert len(rows) == 26
    assert rows["detail"].drop_null().to_pylist() == []
    assert {datetime.fromtimestamp(at / 1e6, UTC).year for at in rows["event_us"].to_pylist()} == {2023}
