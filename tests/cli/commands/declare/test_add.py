from __future__ import annotations

import gzip
import json
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.settings import read_settings
from tests.cli.conftest import Tidemark
from tests.ingest.forms.test_remote_write import SCRAPE

DATA = Path(__file__).parents[5] / "shared" / "data"
TOA5 = """"TOA5","SITE_A","CR1000X","1"
"TIMESTAMP","RECORD","AirTC","Volt"
"TS","RN","C","V"
"","","Smp","Smp"
""" + "".join(f'"2026-02-{day:02} 00:00:00",{day},{day}.5,12.5\n' for day in range(1, 21))
FILES = {
    "station.dat": (TOA5, {"column": "TIMESTAMP", "unit": "iso"}, ["airtc", "volt"]),
    "meter.csv": (
        "Datum;Uhrzeit;Leistung\n" + "".join(f"{day:02}.02.2026;10:15;{day},5 kW\n" for day in range(1, 21)),
        {"columns": ["Datum", "Uhrzeit"], "format": "%d.%m.%Y %H:%M"},
        ["leistung"],
    ),
    "epochs.csv": (
        "ts,device,temp\n"
        + "".join(f"{1769904000000 + 60000 * n},{'ab'[n % 2]},{n / 2}\n" for n in range(40)),
        {"column": "ts", "unit": "ms"},
        ["temp"],
    ),
    "blanks.txt": (
        "# a remark\n" + "".join(f"2026-02-{day:02}T00:00:00   {day}.5   -9999.9\n" for day in range(1, 21)),
        {"column": "time_0", "unit": "iso"},
        ["c_1", "c_2"],
    ),
    "pumps.csv": (
        '"Date","Time","Pump 1 (A)"\n'
        '"11/01/2026","12:05:00 AM","1,204.5"\n"11/01/2026","1:05:00 PM","900"\n"11/02/2026","1:05:00 PM","1,300"\n',
        {"columns": ["Date", "Time"], "format": "%m/%d/%Y %I:%M:%S %p"},
        ["pump_1_a"],
    ),
    "plant.csv": (
        "Zeitpunkt;Anlage;Zähler\n01.11.2026 00:00:00;A;1,5\n01.11.2026 00:15:00;A;n/a\n01.11.2026 00:00:00;B;3,25\n",
        {"column": "Zeitpunkt", "format": "%d.%m.%Y %H:%M:%S"},
        ["zahler"],
    ),
    "lines.ndjson": (
        "".join(
            json.dumps({"time": f"2026-02-{day:02}T00:00:00Z", "data": {"temp": day}}) + "\n"
            for day in range(1, 21)
        ),
        {"column": "time", "unit": "iso"},
        ["data_temp"],
    ),
    "history.json": (
        json.dumps(
            {
                "meta": {"rows": 20, "names": ["time", "temp"]},
                "data": {
                    "rows": [{"time": f"2026-02-{day:02}T00:00:00Z", "temp": day} for day in range(1, 21)]
                },
            },
            indent=2,
        ),
        {"column": "time", "unit": "iso"},
        ["temp"],
    ),
    "sunny.csv": (
        "sep=;\nVersion CSV1|Tool SBC|Linebreaks CR/LF|Delimiter semicolon|Decimalpoint comma|Precision 3\n\n"
        ";SN: 2100012345;SN: 2100012345\n;SB 5000TL-21;SB 5000TL-21\n;2100012345;2100012345\n"
        ";Total yield;Power\n;Counter;Analog\ndd.MM.yyyy HH:mm;kWh;kW\n"
        + "".join(f"14.03.2026 06:{n:02};1234,{n:03};0,250\n" for n in range(0, 60, 5)),
        {"column": "dd.MM.yyyy HH:mm", "format": "%d.%m.%Y %H:%M"},
        ["kwh", "kw"],
    ),
    "pond.csv": (
        '"Plot Title: Pond"\n"#","Date Time, GMT+01:00","Temp, °C (LGR S/N: 1)"\n'
        + "".join(f"{n},03/14/26 06:{n:02}:00 PM,14.{n}\n" for n in range(1, 40)),
        {"column": "Date Time, GMT+01:00", "format": "%m/%d/%y %I:%M:%S %p", "timezone": "Etc/GMT-1"},
        ["temp_c_lgr_s_n_1"],
    ),
    "history.csv": (
        "entity_id,state,last_changed\n"
        + "".join(f"sensor.{'ab'[n % 2]}_temp,2{n}.5,2026-03-14T06:{n:02}:00.000Z\n" for n in range(40))
        + "sensor.a_temp,unavailable,2026-03-14T09:00:00.000Z\n",
        {"column": "last_changed", "unit": "iso"},
        ["state"],
    ),
    "plug.json": (
        "".join(
            json.dumps(
                {"Time": f"2026-03-14T06:{n:02}:00", "ENERGY": {"Since": "2025-01-01T00:00:00", "Power": n}}
            )
            + "\n"
            for n in range(20)
        ),
        {"column": "Time", "unit": "iso"},
        ["energy_power"],
    ),
    "modbus.csv": (
        "timestamp,slave,register,value\n"
        + "".join(
            f"2026-03-14 06:{n:02}:00,{1 + n % 2},{r},{n + r}.5\n" for n in range(20) for r in (40001, 40003)
        ),
        {"column": "timestamp", "unit": "iso"},
        ["value"],
    ),
    "list.json": (
        json.dumps([{"time": f"2026-02-{day:02}T00:00:00Z", "temp": day} for day in range(1, 21)]),
        {"column": "time", "unit": "iso"},
        ["temp"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_declared_as_it_is_and_all_its_rows_are_accepted(
    called: Tidemark, tmp_path: Path, name: str
) -> None:
    text, time, measures = FILES[name]
    (tmp_path / name).write_text(text)

    ended = called("add", tmp_path / name, "--json")

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    declared = tomllib.loads(found["toml"])["streams"][found["stream"]]
    assert (declared["event_time"], declared["measures"]) == (time, measures)
    assert found["trial"]["accepted"] == found["trial"]["rows"] > 0
    stream = read_settings(Path(found["config"])).stream(found["stream"])
    assert stream.measures == tuple(measures)


def test_keys_identity_levels_and_counters_follow_from_what_the_rows_say(
    called: Tidemark, tmp_path: Path
) -> None:
    lines = (f"{1769904000 + 10 * (n // 3)},{'abc'[n % 3]},{n * 10},{n % 7}" for n in range(300))
    (tmp_path / "meters.csv").write_text("ts,meter,total_kwh,volt\n" + "\n".join(lines) + "\n")

    declared = tomllib.loads(json.loads(called("add", tmp_path / "meters.csv", "--json").stdout)["toml"])

    stream = declared["streams"]["meters"]
    assert (stream["keys"], stream["identity"], stream["counters"]) == (
        ["meter"],
        ["ts", "meter"],
        ["total_kwh"],
    )
    assert stream["levels"][0] == "1s for 1h"


def test_a_day_and_month_that_could_be_either_is_a_doubt_that_is_told(
    called: Tidemark, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("at,v\n" + "".join(f"0{n}/0{n}/2026 00:00,{n}\n" for n in range(1, 7)))

    found = json.loads(called("add", tmp_path / "a.csv", "--dry-run", "--json").stdout)

    both = {"%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"}
    named = tomllib.loads(found["toml"])["streams"]["a"]["event_time"]["format"]
    assert named in both
    same_everywhere = not any("could be of the format" in doubt for doubt in found["doubts"])
    # Days that are their months are the same moment in both: nothing to doubt.
    assert same_everywhere and found["config"] is None
    (tmp_path / "b.csv").write_text("at,v\n" + "".join(f"0{n}/05/2026 00:00,{n}\n" for n in range(1, 7)))
    doubts = json.loads(called("add", tmp_path / "b.csv", "--dry-run", "--json").stdout)["doubts"]
    assert any("could be of the format" in doubt for doubt in doubts)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_of_a_folder_all_files_of_the_kind_are_read(called: Tidemark, tmp_path: Path, ending: str) -> None:
    write = gzip.open if ending.endswith(".gz") else open
    (tmp_path / "meters").mkdir()
    for month in ("01", "02"):
        with write(tmp_path / "meters" / f"meters.2026-{month}.{ending}", "wt") as file:
            file.write(f"at,v\n2026-{month}-01,1\n2026-{month}-02,2\n")

    called("add", tmp_path / "meters")

    [found] = json.loads(called("check", "--json").stdout)
    assert (found["files"], found["accepted"]) == (2, 4)


@pytest.mark.parametrize(
    ("name", "content", "time", "source", "measures"),
    [
        ("a.lp", "cpu,host=a idle=1.5 {}000000000\n", ("time", "ns"), {"format": "influx"}, ["fields_idle"]),
        (
            "a.prom",
            '# TYPE up gauge\nup{{job="a"}} 1.5 {}000\n',
            ("time", "ms"),
            {"format": "prometheus"},
            ["value"],
        ),
        (
            "a.json",
            '{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"m","gauge":{{"dataPoints":['
            '{{"timeUnixNano":"{}000000000","asDouble":1.5}}]}}}}]}}]}}]}}\n',
            ("points.timeUnixNano", "ns"),
            {"format": "otlp", "explode": "points"},
            ["points_asdouble", "points_value"],
        ),
    ],
)
def test_lines_of_metrics_are_known_by_their_form(
    called: Tidemark,
    tmp_path: Path,
    name: str,
    content: str,
    time: tuple[str, str],
    source: Any,
    measures: list[str],
) -> None:
    (tmp_path / name).write_text("".join(content.format(1_769_904_000 + n) for n in range(20)))

    found = json.loads(called("add", tmp_path / name, "--json").stdout)

    declared = tomllib.loads(found["toml"])["streams"]["a"]
    assert (declared["event_time"]["column"], declared["event_time"]["unit"]) == time
    assert declared["source"] == {"path": name} | source
    assert declared["measures"] == measures
    assert found["trial"]["accepted"] == found["trial"]["rows"] == 20


def test_the_records_of_xml_are_the_elements_that_come_most_often(called: Tidemark, tmp_path: Path) -> None:
    points = (
        f'<trkpt lat="48.{n}" lon="11"><time>2026-02-01T00:00:{n}Z</time></trkpt>' for n in range(10, 40)
    )
    (tmp_path / "a.gpx").write_text(f"<gpx><trk><name>A</name><trkseg>{''.join(points)}</trkseg></trk></gpx>")

    found = json.loads(called("add", tmp_path / "a.gpx", "--json").stdout)

    declared = tomllib.loads(found["toml"])["streams"]["a"]
    assert declared["source"] == {"path": "a.gpx", "format": "xml", "record_path": "gpx.trk.trkseg.trkpt"}
    assert (declared["event_time"], declared["keys"]) == ({"column": "time", "unit": "iso"}, ["trk_name"])
    assert (found["trial"]["accepted"], any("gpx.trk" in doubt for doubt in found["doubts"])) == (30, True)


def test_files_of_a_folder_that_disagree_are_a_doubt(called: Tidemark, tmp_path: Path) -> None:
    folder = tmp_path / "meters"
    folder.mkdir()
    head = "at,v,w\n"
    (folder / "1.csv").write_text(head + "2026-02-01,1,1\n2026-02-02,2,2\n")
    (folder / "2.csv").write_text(head + "2026-02-03,1,1\n2026-02-04,2,2\n")
    (folder / "3.csv").write_text(head.replace("w", "x") + "2026-02-05,1,1\n2026-02-06,2,2\n")
    (folder / "4.csv").write_text(head + "03.02.2026,1,a\n04.02.2026,2,b\n")

    of_three = json.loads(called("add", folder, "--dry-run", "--json").stdout)
    (folder / "4.csv").rename(folder / "2b.csv")
    of_others = json.loads(called("add", folder, "--dry-run", "--json").stdout)

    assert of_three["trial"]["files"] == of_others["trial"]["files"] == 3
    assert "the event time of 4.csv is {'column': 'at', 'format': '%d.%m.%Y'}" in of_three["doubts"]
    assert "w is string in 4.csv, int in the first file" in of_three["doubts"]
    assert "3.csv lacks w; has besides x" in of_others["doubts"]


def test_nothing_is_written_on_a_dry_run_and_no_stream_twice(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,v\n2026-02-01,1\n2026-02-02,2\n")

    tried = called("add", tmp_path / "a.csv", "--dry-run")
    first, second = (called("add", tmp_path / "a.csv") for _ in range(2))

    assert (tried.returncode, first.returncode, second.returncode) == (0, 0, 2)
    assert "[streams.a]" in tried.stdout
    assert "declares a stream 'a' already; --name gives another one" in second.stderr


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "the file is empty"),
        (b"[1, 2]\n", "no JSON object"),
        (b"a,b\nx,y\nz,w\n", "no column is a time in all rows"),
        (b"\xd4\xc3\xb2\xa1" + b"\0" * 20, 'preset = "pcap"'),
        (b"a.csv".ljust(257, b"\0") + b"ustar\0" + b"00".ljust(249, b"\0"), "an archive of files (tar)"),
        (SCRAPE, 'preset = "prometheus-remote-write"'),
        (b"ts,te,td,sa,da,sp,dp\n2026-02-01 00:00:00,,0,a,b,1,2\n", 'preset = "nfdump"'),
    ],
)
def test_a_file_that_cannot_be_declared_says_why(
    called: Tidemark, tmp_path: Path, content: bytes, expected: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content)

    ended = called("add", tmp_path / "a.csv")

    assert (ended.returncode, expected in ended.stderr) == (2, True), ended.stderr


def test_a_declaration_is_tried_on_files_without_writing(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,v\n2026-02-01,1\n2026-02-02,2\n")
    called("add", tmp_path / "a.csv")
    (tmp_path / "bad.csv").write_text("at,v\n2026-02-01,x\nno time,2\n2026-02-03,3\n")

    ended = called("check", "a", tmp_path / "bad.csv", "--json")

    [found] = json.loads(ended.stdout)
    assert (found["rows"], found["accepted"]) == (3, 1)
    assert {each["reason"]: each["rows"] for each in found["rejected"]} == {
        "bad_value": 1,
        "bad_event_time": 1,
    }
    assert [each["examples"][0]["line"] for each in found["rejected"]] in ([2, 3], [3, 2])
    declaration = (tmp_path / "tidemark.toml").read_text().splitlines()
    lines = {each["reason"]: declaration[each["declared_line"] - 1] for each in found["rejected"]}
    assert lines["bad_event_time"].startswith("event_time = ")
    assert lines["bad_value"].startswith("columns.v = ") or '"v"' in lines["bad_value"]


def test_the_line_of_a_rule_is_told_with_what_breaks_it(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,v\n2026-02-01,1\n2026-02-02,2\n")
    called("add", tmp_path / "a.csv")
    rule = """
[[streams.a.rules]]
expect = "column_values_to_be_between"
column = "v"
max_value = 9
on_failure = "quarantine"
"""
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text() + rule)
    (tmp_path / "bad.csv").write_text("at,v\n2026-02-01,10\n")

    shown = called("check", "a", tmp_path / "bad.csv")
    [found] = json.loads(called("check", "a", tmp_path / "bad.csv", "--json").stdout)

    [rejected] = found["rejected"]
    assert config.read_text().splitlines()[rejected["declared_line"] - 1] == "[[streams.a.rules]]"
    assert f" {rejected['declared_line']} " in shown.stdout


def test_a_key_that_rows_do_not_need_and_one_of_numbers_are_doubts_that_are_told(
    called: Tidemark, tmp_path: Path
) -> None:
    lines = (f"{1773468000 + 60 * n},{('N', 'SW')[n % 2]},{n % 4},{n / 2}" for n in range(40))
    (tmp_path / "a.csv").write_text("ts,wind,host a,temp\n" + "\n".join(lines) + "\n")

    found = json.loads(called("add", tmp_path / "a.csv", "--dry-run", "--json").stdout)

    assert tomllib.loads(found["toml"])["streams"]["a"]["keys"] == ["wind", "host_a"]
    assert any("wind: texts that come again are read as a key" in doubt for doubt in found["doubts"])
    assert any("host a: whole numbers are read as a key" in doubt for doubt in found["doubts"])


def test_of_an_archive_the_largest_file_and_those_named_like_it_are_declared(
    called: Tidemark, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "station.zip", "w") as archive:
        archive.writestr("about.txt", "what a station is\n" * 5)
        for month in (1, 2):
            lines = (f"2026-0{month}-{day:02}T00:00:00Z,{day / 2}" for day in range(1, 20))
            archive.writestr(f"data/values_2026{month}.csv", rows_of("at,temp", lines))

    found = json.loads(called("add", tmp_path / "station.zip", "--json").stdout)

    source = tomllib.loads(found["toml"])["streams"]["station"]["source"]
    assert source["members"] == "(^|/)values_"
    assert found["trial"]["accepted"] == found["trial"]["rows"] == 38
    assert any("the largest file and those of like names" in doubt for doubt in found["doubts"])


def rows_of(head: str, lines: Iterable[str]) -> str:
    return f"{head}\n" + "".join(f"{line}\n" for line in lines)


# A file, and what its declaration says of it.
TOLD: dict[str, tuple[str, dict[str, Any], str]] = {
    "numbers that are no amounts are kept, and no measures": (
        rows_of(
            "ts,host,PID,fPort,devAddr,cpu",
            (f"{1769904000 + n},{'ab'[n % 2]},{4711 + n % 3},{n % 4},0{n % 3},{n / 4}" for n in range(60)),
        ),
        {"keys": ["host", "devaddr"], "measures": ["cpu"]},
        "",
    ),
    "a gauge is no clock, though its numbers could be hours and minutes": (
        rows_of("day,flow", (f"2026-02-{n:02},{n + 100}" for n in range(1, 21))),
        {"event_time": {"column": "day", "unit": "iso"}, "measures": ["flow"], "levels": ["1d forever"]},
        "",
    ),
    "a clock that was never set is a doubt": (
        rows_of(
            "time,freq,temp",
            (f"{1980 if n % 10 == 7 else 2026}-02-01T00:{n:02}:00Z,868100000,{n}.5" for n in range(40)),
        ),
        {"event_time": {"column": "time", "unit": "iso"}, "measures": ["freq", "temp"]},
        "4 of 40 texts of time are no time that can be",
    ),
    "a counter is one for each meter": (
        rows_of(
            "ts,meter,kwh",
            (f"{1769904000 + 60 * (n // 2)},{'ab'[n % 2]},{n % 2 * 900 + n}" for n in range(60)),
        ),
        {"counters": ["kwh"], "identity": ["ts", "meter"]},
        "kwh: it never falls: read as a counter",
    ),
    "flows have no counters, and may be alike but for their bytes": (
        rows_of(
            "first,src,dst,dport,bytes", (f"{1769904000 + n},a{n % 2},b{n % 3},443,{n}" for n in range(60))
        ),
        {"identity": ["*"], "keys": ["src", "dst"], "measures": ["bytes"]},
        "",
    ),
    "keys that hardly two rows share are groupings of their own": (
        rows_of(
            "ts,station,sensor,v",
            (f"{1769904000 + n},s{n % 17},x{n % 13},{n % 5}.5" for n in range(221)),
        ),
        {"groupings": [["station"], ["sensor"], []]},
        "",
    ),
    "a column has the zone of each row": (
        rows_of(
            "at,tz,v",
            (f"2026-02-01 00:{n:02}:00,{('Europe/Berlin', 'Asia/Tokyo')[n % 2]},{n}.5" for n in range(40)),
        ),
        {"event_time": {"column": "at", "unit": "iso", "timezone_column": "tz"}, "measures": ["v"]},
        "",
    ),
    "when rows were received, and how late, is what a column says": (
        rows_of(
            "at,received_at,v",
            (f"2026-02-01T00:{n:02}:00Z,2026-02-0{1 + n // 12}T01:00:00Z,{n % 7}.5" for n in range(40)),
        ),
        {"arrival_time": {"column": "received_at", "unit": "iso"}, "latest": "4d"},
        "received_at is read as the time of arrival",
    ),
    "a row that was sent twice counts once": (
        rows_of("ts,meter,v", (f"{1769904000 + 60 * (n - n // 139)},a,{n - n // 139}.5" for n in range(140))),
        {"identity": ["ts", "meter"]},
        "1 of 140 rows are there twice: they count once",
    ),
    "events that are alike are events": (
        rows_of("ts,meter,v", (f"{1769904000 + 60 * (n // 2)},a,{n // 2 % 5}.5" for n in range(140))),
        {"measures": ["v"]},
        "no columns tell rows apart",
    ),
    "few words among numbers, and a column of one sentinel, are missing values": (
        rows_of("ts,a,b", (f"{1769904000 + n},{'Error' if n == 5 else n},-9999" for n in range(40))),
        {"measures": ["a", "b"]},
        "'Error' among numbers is read as a missing value",
    ),
    "seconds since the start are no measure": (
        rows_of("at,Time,temp", (f"2026-02-01T00:00:{n:02}Z,{n - 10},{n % 7}.5" for n in range(60))),
        {"measures": ["temp"]},
        "",
    ),
    "levels keep the history that there is": (
        rows_of("day,v", (f"{1990 + n // 12}-{1 + n % 12:02}-01T0{n % 9}:00:00Z,{n}.5" for n in range(48))),
        {"levels": ["1d forever"], "event_time_bounds": ["1850-01-01", "2100-01-01"]},
        "",
    ),
    "minutes of a month are kept": (
        rows_of("ts,v", (f"{1769904000 + 60 * n + (n == 39) * 86400 * 30},{n}.5" for n in range(40))),
        {"levels": ["1m for 31d", "1h for 1y", "1d forever"]},
        "",
    ),
    "the only record of a document is one": (
        json.dumps({"at": "2026-02-01T00:00:00Z", "v": 1.5, "gateways": [{"rssi": 5}]}, indent=1),
        {"measures": ["v"]},
        "lists are left out: gateways; explode makes rows of their items",
    ),
    "elements in a record come more often than it": (
        '<m:feed xmlns:m="urn:x" version="1.1">'
        + "".join(
            f"<m:r><m:at>2026-02-01T00:00:{n}Z</m:at><m:q>{n}.5</m:q><m:flag>1</m:flag><m:flag>2</m:flag></m:r>"
            for n in range(10, 40)
        )
        + "</m:feed>",
        {"measures": ["q"], "event_time": {"column": "at", "unit": "iso"}},
        "rows are the elements feed.r",
    ),
}


@pytest.mark.parametrize("what", TOLD)
def test_a_declaration_says_what_a_column_is(called: Tidemark, tmp_path: Path, what: str) -> None:
    content, expected, doubt = TOLD[what]
    (tmp_path / "a.txt").write_text(content)

    ended = called("add", tmp_path / "a.txt", "--dry-run", "--json")

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    declared = tomllib.loads(found["toml"])["streams"]["a"]
    assert {name: declared.get(name) for name in expected} == expected
    assert any(doubt in each for each in found["doubts"]) or not doubt
    assert found["trial"]["accepted"] == found["trial"]["rows"] - (4 if "clock" in what and doubt else 0)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real sets are absent")
@pytest.mark.parametrize(
    ("file", "unit"),
    [
        ("backbone-atm-a/packets_first_half.csv.gz", "s"),
        ("env-telemetry/telemetry_first_half.ndjson.gz", "s"),
        ("lorawan-sensors/FTD_0018B20000020.ndjson.gz", "ms"),
        ("office-rooms/room_413.csv.gz", "iso"),
        ("smart-meter-water/Water_WHW-1.csv.gz", "s"),
        ("soccer-gnss/U18_ID1.csv.gz", "excel"),
    ],
)
def test_a_real_file_is_declared_unaided(called: Tidemark, tmp_path: Path, file: str, unit: str) -> None:
    with gzip.open(DATA / file, "rt") as source:
        content = "".join(line for _, line in zip(range(2_000), source, strict=False))
    (tmp_path / "real.txt").write_text(content)

    found = json.loads(called("add", tmp_path / "real.txt", "--json").stdout)

    assert tomllib.loads(found["toml"])["streams"]["real"]["event_time"]["unit"] == unit
    assert found["trial"]["accepted"] >= 0.99 * found["trial"]["rows"] > 1_000


def test_a_zone_that_is_none_is_refused_as_in_a_configuration(called: Tidemark, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,v\n2026-02-01,1\n2026-02-02,2\n")

    ended = called("add", tmp_path / "a.csv", "--timezone", "Mars/North")

    assert ended.returncode == 2
    assert "expected a time zone name" in ended.stderr
