"""A batch that is judged on the driver becomes the same rows, rejections and counts as one that Spark judges."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse.declare.settings import load_settings
from lakehouse.declare.stream import Stream
from lakehouse.streams import small_batch
from lakehouse.streams.sources.fields import with_fields
from lakehouse.streams.sources.lines import LINE_SCHEMA
from lakehouse.streams.sources.plain_lines import can_be_plain, read_plain
from lakehouse.streams.sources.rows import typed_rows
from lakehouse.streams.sources.split import NUMBERED
from tests.readings_lake import Lake

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
]
TEXTS = [
    *["a", "", " ", "a b", " a", "device-1", "ü", '"q"', '"', "#x", "NULL", "-", "1.50"],
    "'",
    "\t",
    "x\ty",
    "a\\b",
    "\x7f",
]
TRUTHS = ["true", "false", "True", "t", "yes", "1", "0", "no", "", "maybe", "null"]
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
            "event_time": {"column": "ts", "unit": unit},
            "arrival_time": {"column": "received", "unit": unit, **plus},
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


CASES = [
    *((kind, unit, {}) for kind in ("csv", "ndjson") for unit in ("s", "ms", "us", "iso")),
    ("csv", "s", {"plus": True}),
    ("ndjson", "us", {"ts": "int"}),
    ("csv", "s", {"ts": "double"}),
    ("ndjson", "s", {"ts": "string"}),
]


@pytest.mark.parametrize(("file_format", "unit", "more"), CASES)
def test_a_plain_line_is_the_row_that_spark_makes_of_it(
    spark: SparkSession, file_format: str, unit: str, more: dict[str, Any]
) -> None:
    pick, stream = random.Random(f"{file_format} {unit} {more}"), declared(file_format, unit, **more)
    line = csv_line if file_format == "csv" else json_line
    texts = [line(pick, unit) for _ in range(3000)]
    texts = [text for text in texts if text.strip()]
    records = pa.array([text.encode() for text in texts], pa.binary())
    numbers = pa.array(range(len(texts)), pa.int64())
    lines = pa.record_batch([numbers, records, pa.nulls(len(texts), pa.string())], schema=NUMBERED)
    layout = KEYS if file_format == "csv" else None

    found = read_plain(lines, layout, stream)

    places = [pa.repeat("f", len(texts)), numbers, pa.repeat(pa.scalar(0, pa.int32()), len(texts))]
    frame = spark.createDataFrame(pa.table([*places, records, lines.column(2)], schema=LINE_SCHEMA))
    judged = typed_rows(with_fields(frame, stream, (layout,)), stream).toArrow().to_pylist()
    by_spark = {row["source_line"]: row for row in judged}
    assert can_be_plain(stream)
    assert 500 < found.rows.num_rows == found.is_plain.sum()
    for row in found.rows.to_pylist():
        expected = by_spark[row["source_line"]]
        assert expected["reason"] is None, (texts[row["source_line"]], expected["detail"])
        assert row == {name: expected[name] for name in row}, texts[row["source_line"]]
    # Nearly all that are good and usual are plain: the way over Spark is for what is odd.
    assert found.rows.num_rows > 0.4 * sum(row["reason"] is None for row in judged)


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
        bound = "OTHER_BYTES" if batch == 1 else "SMALL_BYTES"
        with monkeypatch.context() as patch:
            patch.setattr(small_batch, bound, -1)
            large.ingest()

    for table, columns in COLUMNS.items():
        assert small.rows(table, *columns) == large.rows(table, *columns), table
    for row in small.rows("ledger", "received", "accepted", "quarantined", "duplicates"):
        assert row[0] == sum(row[1:])


def line(pick: random.Random) -> str:
    second = pick.randrange(12)
    record: dict[str, Any] = {"ts": T0 + second, "received": T0 + second, "device": pick.choice("ab")}
    record |= {"temp": float(pick.randrange(2)), "count": pick.choice([1, 1, 1, None, "x"])}
    text = json.dumps(record)
    return pick.choice([text] * 9 + [text[:-1], text.replace("device", "dev\\u0069ce")]) + "\n"
