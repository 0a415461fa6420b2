"""A batch that is judged on the driver becomes the same rows, rejections and counts as one that Spark judges."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.declare.settings import Settings, load_settings
from lakehouse.declare.stream import Stream
from lakehouse.streams import file_chunks, small_batch
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.lines import NUMBERED
from lakehouse.streams.sources.numbered import LINE_SCHEMA
from lakehouse.streams.sources.odd_lines import read_odd
from lakehouse.streams.sources.plain_lines import can_be_plain, read_plain
from lakehouse.streams.sources.rows import typed_rows
from tests import readings
from tests.faults.inputs import READINGS
from tests.readings_lake import Lake
from tests.streams import hostile
from tests.streams.hostile_values import BYTES
from tests.streams.no_session import no_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
T0 = 1_600_000_000
UNITS = {"s": T0, "ms": T0 * 1000, "us": T0 * 10**6}
NUMBERS = [
    *[
        "0",
        "1",
        "-1",
        "20.5",
        "-0",
        "-0.0",
        "007",
        "1.",
        ".5",
        "+1",
        "1e3",
        "1E-5",
        "1d",
        "0x10",
        "1_000",
        "--1",
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "null",
        "NA",
        "",
        " 1",
        "1 ",
        "1 2",
    ],
    *[
        "0.1234567890123456789",
        "1.005",
        "2.675",
        "0.30000000000000004",
        "5e-324",
        "1e99",
        "1e400",
        "1,5",
        "true",
    ],
    *("9" * digits for digits in (17, 18, 19, 40)),
    *("12 °C", "1,234.5", "123456789012345678901.5", "99999999999999999.999", "1e18", "9223372036854775808"),
    *(
        "-9223372036854775808",
        "0.005",
        "-0.015",
        "1e-3",
        "1.5e2",
        "1e30",
        "1e38",
        "+.5",
        "-.5",
        ".",
        "e5",
        "1e+",
    ),
    *("1f", "0x1p3", "+Infinity", "INF", "NAN", "+NaN", "\u0661", "1\x00", "a'b", "{}", "[1]"),
    *("7.2500", "12345678.25", "0.00012", "23.400000000000002", "1" + "0" * 600),
]
TEXTS = [
    *["a", "", " ", "a b", " a", "device-1", "ü", '"q"', '"', "#x", "NULL", "-", "1.50"],
    "'",
    "\t",
    "x\ty",
    "a\\b",
    "\x7f",
    *["é", "日本", "a\u00a0", "\u2007x", "\U0001f600", "a/b", "x\u2028y"],
]
TRUTHS = [
    "TRUE",
    "y",
    "n",
    "F",
    "f",
    "truex",
    "true",
    "false",
    "True",
    "t",
    "yes",
    "1",
    "0",
    "no",
    "",
    "maybe",
    "null",
]
ISO = [
    *["2020-09-13T12:26:40", "2020-09-13 12:26:40.123456", "2020-09-13T12:26:40Z", "2020-09-13T12:26:40.1Z"],
    *[
        "2020-09-13",
        "2020-02-30T00:00:00",
        "2020-09-13T24:00:00",
        "2020-09-13T12:26:60",
        "2020-9-13T1:2:3",
        "noon",
        "",
    ],
    *[
        "2020-09-13T12:26:40+02:00",
        "2020-09-13T12:26",
        "T10:00",
        "1999-01-01T00:00:00",
        "0000-00-00T00:00:00",
    ],
    *["2020-10-25T02:00:00", "2020-10-25 02:59:59.9", "2020-03-29 02:30:00", "2020-10-25T02:30:00+02:00"],
    *["2020-04-05 01:45:00", "2020-10-04T02:29:59", "2020-10-04 02:30:00", "1883-11-18T12:00:00"],
    *["0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "10000-01-01T00:00:00Z", "2021-02-29T05:00:00"],
    *["2016-12-31T23:59:60Z", "2020-02-29T05:00:00", "2020-09-13T12:26:40.123456789", "2020-09-13T12:26:40z"],
    *["2020-09-13T12:26:40 UTC", "2020-09-13T12:26:40-00:30", "2020-09-13T12:26:40+18:00", "2020-09-13x"],
    *[
        "2020-09-13T12:26:40+19:00",
        "2020-09-13T12:60:40Z",
        "20200913T122640",
        "13.09.2020",
        "1e400",
        "-1e400",
    ],
]
KEYS = ("ts", "received", "text", "number", "real", "exact", "truth", "lasting")


def declared(file_format: str, unit: str, **more: Any) -> Stream:
    columns: dict[str, Any] = {"text": "string", "number": "int", "real": "double", "truth": "boolean"}
    columns |= {"exact": {"type": "decimal", "decimals": 2}, **({"ts": more["ts"]} if "ts" in more else {})}
    plus = {"plus": "lasting"} if more.get("plus") else {}
    return Stream.model_validate(
        {
            "name": "s",
            "source": {"path": "x", "format": file_format},
            "event_time": {"column": "ts", "unit": unit, "timezone": more.get("zone", "UTC")},
            "arrival_time": {"column": "received", "unit": unit, "timezone": more.get("zone", "UTC"), **plus},
            "clock_bounds": {"behind": "1h", "ahead": "1m"},
            "measures": ("real",),
            "levels": ["1d forever"],
            "columns": columns,
        }
    )


def texts_of(pick: random.Random, unit: str) -> dict[str, str]:
    """Most values are as usual, since a line with two odd ones tests one of them only."""

    def usually(usual: Any, odd: list[str]) -> str:
        return str(usual) if pick.random() < 0.85 else pick.choice(odd)

    start = UNITS.get(unit, 0)
    times = [str(start), f"{start}.5", f"{start}.123456", f"{start}.1234567891", f"{start}.", *NUMBERS]
    odd_times = ISO if unit == "iso" else times
    usual = ISO[0] if unit == "iso" else start + pick.randrange(50)
    return {
        "ts": usually(usual, odd_times),
        "received": usually(usual, odd_times),
        "text": usually("abc", TEXTS),
        "number": usually(pick.randrange(-99, 99), NUMBERS),
        "real": usually(round(pick.random() * 40, 3), NUMBERS),
        "exact": usually(round(pick.random() * 9, 2), NUMBERS),
        "truth": usually("true", TRUTHS),
        "lasting": usually(pick.choice(["1", "0.25", ""]), NUMBERS),
    }


def csv_line(pick: random.Random, unit: str) -> str:
    texts = [texts_of(pick, unit)[key] for key in KEYS]
    if pick.random() < 0.3:
        # As many writers do it: texts, or all fields, in quotes.
        texts = [pick.choice([text, f'"{text}"', f'"{text}"', f'"{text}"']) for text in texts]
    if pick.random() < 0.05:
        odd = pick.choice(['"a,1"', '"a""b"', 'a"b', '"a"b', '""', '"a', 'a"', '" a"', '"a "', ' "a"'])
        texts[pick.randrange(len(texts))] = odd
    cut = len(texts) + (pick.choice([-1, 1]) if pick.random() < 0.05 else 0)
    return pick.choice([",", ",", ",", ", "]).join([*texts, "more"][:cut])


def json_line(pick: random.Random, unit: str) -> str:
    texts = texts_of(pick, unit)
    keys = [key for key in KEYS if pick.random() < 0.97]
    if pick.random() < 0.1:
        pick.shuffle(keys)
    if pick.random() < 0.03:
        keys.append(pick.choice(KEYS))
    members = [f'"{key}": {_member(pick, key, texts[key], unit)}' for key in keys]
    if pick.random() < 0.1:
        members.insert(0, '"other": ' + pick.choice(["1", '"x"', "{}", "[1]", "null"]))
    line = pick.choice([", ", ","]).join(members)
    return (
        pick.choice(["{%s}"] * 20 + ["{%s", "[{%s}]", "{%s} ", " {%s}", "{ %s }", "{%s}{}", "{%s,}"]) % line
    )


def _member(pick: random.Random, key: str, text: str, unit: str) -> str:
    is_text = key == "text" or (unit == "iso" and key in ("ts", "received"))
    if is_text != (pick.random() < 0.05):
        return json.dumps(text) if pick.random() < 0.9 else f'"{text}"'
    return text or "null"


def damaged(pick: random.Random, line: str) -> bytes:
    """Return a line that is cut off, or has something in it."""
    at, content = pick.randrange(len(line) + 1), line.encode()
    return line[:at].encode() if pick.random() < 0.3 else content[:at] + pick.choice(ADDED) + content[at:]


ADDED = [
    *(
        b'"',
        b"'",
        b",",
        b",,",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\\",
        b"\\u00e9",
        b"\\ud800",
        b":",
        b"1",
        b"null",
        b"//",
        b"#",
    ),
    *(b"\x00", b"\x0b", b"\x1f", b"\t", b" ", b"\r", b'""', b"0", b"-", b".", b"\xc3\xbc"),
    *(line for line in BYTES if b"\n" not in line),
]
CASES = [
    *((kind, unit, {}) for kind in ("csv", "ndjson") for unit in ("s", "ms", "us", "iso")),
    ("csv", "s", {"plus": True}),
    ("ndjson", "us", {"ts": "int"}),
    ("csv", "s", {"ts": "double"}),
    ("ndjson", "s", {"ts": "string"}),
    ("csv", "iso", {"zone": "Europe/Berlin"}),
    ("ndjson", "iso", {"zone": "Australia/Lord_Howe"}),
]


@pytest.mark.parametrize(("file_format", "unit", "more"), CASES)
def test_a_line_becomes_the_row_or_the_verdict_that_spark_makes_of_it(
    spark: SparkSession, file_format: str, unit: str, more: dict[str, Any]
) -> None:
    pick, stream = random.Random(f"{file_format} {unit} {more}"), declared(file_format, unit, **more)
    line = csv_line if file_format == "csv" else json_line
    texts = [line(pick, unit).encode() for _ in range(3000)]
    texts += [damaged(pick, line(pick, unit)) for _ in range(700)]
    texts = [text for text in texts if text.strip()]
    records = pa.array(texts, pa.binary())
    numbers = pa.array(range(len(texts)), pa.int64())
    lines = pa.record_batch([numbers, records, pa.nulls(len(texts), pa.string())], schema=NUMBERED)
    layout = KEYS if file_format == "csv" else None
    places = [pa.repeat("f", len(texts)), numbers, pa.repeat(pa.scalar(0, pa.int32()), len(texts))]
    located = pa.table([*places, records, lines.column(2)], schema=LINE_SCHEMA)

    plain = read_plain(lines, layout, stream)
    named = plain.rows.append_column("source_file", pa.repeat("f", plain.rows.num_rows))
    odd = read_odd(located, stream, (layout,), named.schema)

    frame = with_fields(spark.createDataFrame(located), stream, (layout,))
    by_spark = {row["source_line"]: row for row in typed_rows(frame, stream).toArrow().to_pylist()}
    assert can_be_plain(stream)
    assert 500 < plain.rows.num_rows == plain.is_plain.sum()
    for row in [*plain.rows.to_pylist(), *odd.rows.to_pylist()]:
        expected = by_spark[row["source_line"]]
        names = row if expected["reason"] is None else ("reason", "detail", "record", "source_line")
        assert {n: row.get(n) for n in names} == {n: expected[n] for n in names}, texts[row["source_line"]]
    # Most that are good and usual are plain, and nearly all others known: Spark is for what is left.
    assert plain.rows.num_rows > 0.4 * sum(row["reason"] is None for row in by_spark.values())
    assert (plain.is_plain | odd.is_known).mean() > 0.85


@pytest.mark.parametrize("kind", ["quoted", "not plain", "no line", "one quote"])
def test_of_lines_in_quotes_those_are_plain_whose_fields_are_cut_alike(kind: str) -> None:
    stream = declared("csv", "s")
    usual = [f'{T0}|{T0}|"abc"|1|"2.5"|1.25|true|', f'"{T0}"|{T0}|"a b"|1|2.5|1.25|"true"|']
    odd = [usual[0].replace('"abc"', text) for text in ('""', '"a|b"', '"a"b', 'a"b', '"abc', 'abc"', '"')]
    odd += [f'"|{usual[1][1:]}', f'{usual[0]}"', '"', '""', '"' * 8]
    texts = {"quoted": usual, "not plain": odd, "no line": [], "one quote": [*usual, '"', *usual]}[kind]
    records = pa.array([text.replace("|", ",").encode() for text in ["cut off", *texts]], pa.binary())[1:]
    numbers = pa.array(range(len(texts)), pa.int64())
    lines = pa.record_batch([numbers, records, pa.nulls(len(texts), pa.string())], schema=NUMBERED)
    found = read_plain(lines, KEYS, stream)
    assert found.is_plain.tolist() == [text in usual for text in texts]
    assert set(found.rows["text"].to_pylist()) <= {"abc", "a b"}


COLUMNS = {
    "raw": ("*",),
    "quarantine": ("*",),
    "ledger": (
        *("batch", "records", "received", "accepted", "quarantined", "duplicates", "reasons", "missing"),
        *("min_event_us", "max_event_us", "newest_us", "late", "lateness", "max_lateness_us"),
    ),
}


@pytest.mark.parametrize("identity", ['["device", "ts"]', '["*"]', "[]"])
def test_small_batches_and_large_ones_leave_the_same_tables(
    lake: Callable[..., Lake], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    small = lake()
    config = tmp_path / "tidemark.toml"
    config.write_text(config.read_text().replace('identity = ["device", "ts"]', f"identity = {identity}"))
    small = Lake(small.spark, load_settings(config))
    large = Lake(small.spark, load_settings(config, tmp_path / "other"))
    pick = random.Random(identity)
    for batch in range(3):
        lines = [line(pick) for _ in range(25)]
        small.land(f"{batch}a.ndjson", "".join(lines))
        small.land(
            f"{batch}b.ndjson.gz",
            gzip.compress("".join([*lines[:3], line(pick)]).encode())[: -9 * (batch == 1) or None],
        )
        if batch == 2:
            small.land("c.ndjson.gz", b"not gzip")
        monkeypatch.setattr(small_batch, "SMALL_BYTES", 10**6)
        small.ingest()
        # Too large, or one with too many lines that are not plain.
        module, bound = (file_chunks, "OTHER_BYTES") if batch == 1 else (small_batch, "SMALL_BYTES")
        with monkeypatch.context() as patch:
            patch.setattr(module, bound, -1)
            large.ingest()

    for table, columns in COLUMNS.items():
        assert small.rows(table, *columns) == large.rows(table, *columns), table
    for row in small.rows("ledger", "received", "accepted", "quarantined", "duplicates"):
        assert row[0] == sum(row[1:])


@pytest.mark.parametrize("file_format", ["ndjson", "csv"])
def test_hostile_lines_leave_the_same_tables_with_spark_and_without(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, file_format: str
) -> None:
    config = tmp_path / "tidemark.toml"
    source = f'format = "{file_format}"\npath = "landing/*"\nsettle = 0\nbatch_files = 5000\n'
    body = READINGS.format(name=file_format)
    config.write_text(
        f'home = "var"\n[streams.{file_format}]\n{body}[streams.{file_format}.source]\n{source}',
        encoding="utf-8",
    )
    here, there = (Lake(spark, load_settings(config, tmp_path / home), file_format) for home in "ab")
    for name, content in getattr(hostile, file_format)().items():
        if not name.endswith(".gz"):
            here.land(name, content)
    here.ingest()
    with monkeypatch.context() as patch:
        patch.setattr(small_batch, "ODD_LINES", -1)
        there.ingest()

    for table, columns in COLUMNS.items():
        assert here.rows(table, *columns) == there.rows(table, *columns), table


def test_a_batch_of_bad_lines_starts_no_spark(lakehouse_of: Callable[[str], Settings]) -> None:
    settings = lakehouse_of(readings.declared("ndjson"))
    lake = Lake(no_session(settings), settings)
    good = f'{{"ts": {T0}, "device": "a", "temp": 1.0, "count": 1}}\n'
    bad = [good[:-2], good.replace("1.0", '"hot"'), good.replace(str(T0), "noon"), good.replace("1.0", "2.0")]
    lake.land("a.ndjson", good + "\n".join(bad) + "\nno json\n" + good.replace('"a"', '"b\u00fcro"'))
    counts = lake.ingest()
    assert {name: counts[name] for name in ("accepted", "quarantined")} == {"accepted": 2, "quarantined": 5}


def line(pick: random.Random) -> str:
    second = pick.randrange(12)
    record: dict[str, Any] = {"ts": T0 + second, "received": T0 + second, "device": pick.choice("ab")}
    record |= {"temp": float(pick.randrange(2)), "count": pick.choice([1, 1, 1, None, "x"])}
    text = json.dumps(record)
    return pick.choice([text] * 9 + [text[:-1], text.replace("device", "dev\\u0069ce")]) + "\n"
