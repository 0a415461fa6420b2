"""Files as loggers and their programs write them, read as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import ingest, requeue
from lakehouse.config.checks import stream_problems
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.numbered import located_lines
from lakehouse.settings import Settings
from tests.support.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[[str], Settings]
TOA5 = """"TOA5","SITE_A","CR1000X","1"
"TIMESTAMP","RECORD","temp","Volt"
"TS","RN","C","V"
"","","Smp","Smp"
"2026-02-01 00:00:00",0,0.5,12.5
"2026-02-01 01:00:00",1,1.5,12.5
"""
RDB = """# gauge file
# second line
site\tat\ttemp
5s\t10d\t14n
X\t2026-02-01 00:00\t0.5
# a remark
X\t2026-02-01 01:00\t1.5
"""
TITLED = "Plot of pond\nMade by a logger\n\nTime and data:\nat,temp\n2026-02-01 00:00:00,0.5\n2026-02-01 01:00:00,1.5\n"
BLANKS = "  at      temp   b\n 2026-02-01T00:00:00   0.5    -9999.9\n\t2026-02-01T01:00:00\t 1.5    -9999.9\n"
FILES: dict[str, tuple[str, bytes]] = {
    "a line of names and two of units": ("header = { line = 2, data = 5 }", TOA5.encode()),
    "comments, names and a line of widths": (
        r'separator = "\t", comment = "#", header = { line = 1, data = 3 }',
        RDB.encode(),
    ),
    "names behind a line that is known": (
        'header = { skip_until = "^Time and data", line = 2 }',
        TITLED.encode(),
    ),
    "names in the second line": (
        "header = { line = 2 }",
        b"Pond\nat,temp\n2026-02-01,0.5\n2026-02-01T01:00,1.5\n",
    ),
    "a blank line before the names": ("quote = '\"'", b"\nat,temp\n2026-02-01,0.5\n2026-02-01T01:00,1.5\n"),
    "runs of blanks": ('separator = "whitespace"', BLANKS.encode()),
    "names that end with a separator": (
        "ragged = true",
        b"at,temp,level,\n2026-02-01,0.5,0\n2026-02-01T01:00,1.5,1\n",
    ),
    "rows that end with a separator": (
        "ragged = true",
        b"at,temp,level\n2026-02-01,0.5,0,\n2026-02-01T01:00,1.5,1,,\n",
    ),
    "rows without their last fields": (
        "ragged = true",
        b"at,temp,level\n2026-02-01,0.5\n2026-02-01T01:00,1.5,\n",
    ),
    "fields of fixed width": (
        "widths = [17, 6, 3]",
        b"at                 temp   \n2026-02-01          0.5  x\n2026-02-01T01:00   1.5\n",
    ),
    "headers in between and a footer": (
        """skip = '^(at,|Total)'""",
        b"at,temp\n2026-02-01,0.5\nat,temp\n2026-02-01T01:00,1.5\nTotal,2\n",
    ),
    "a decimal comma": ('separator = ";", decimal = ","', b"at;temp\n2026-02-01;0,5\n2026-02-01T01:00;1,5\n"),
    "UTF-16": (
        'encoding = "utf-16"',
        "at,temp\r\n2026-02-01,0.5\r\n2026-02-01T01:00,1.5\r\n".encode("utf-16"),
    ),
}


def taken_in(
    lakehouse_of: Make, session: SparkSession, source: str, content: bytes, column: str = '"double"'
) -> Settings:
    time = "TIMESTAMP" if b"TIMESTAMP" in content else "at"
    settings = lakehouse_of(f"""
        home = "var"
        [streams.logger]
        event_time = {{ column = "{time}", unit = "iso" }}
        measures = ["temp"]
        levels = ["1d forever"]
        columns.temp = {column}
        source = {{ path = "landing/*", format = "csv", settle = 0, {source} }}
        """)
    folder = settings.home.parent / "landing"
    folder.mkdir()
    (folder / "a.txt").write_bytes(content)
    ingest.run(settings, session, "logger")
    return settings


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_it_is(lakehouse_of: Make, session: SparkSession, name: str) -> None:
    source, content = FILES[name]

    settings = taken_in(lakehouse_of, session, source, content)

    rows = sorted(table_rows(settings.layout.raw("logger"), "event_us", "temp"))
    first = 1_769_904_000_000_000
    assert rows == [(first, 0.5), (first + 3_600_000_000, 1.5)]
    assert table_rows(settings.layout.quarantine("logger"), "reason") == []


def test_a_name_in_latin_1_is_the_column_that_it_spells(lakehouse_of: Make, session: SparkSession) -> None:
    content = "at,Core Temp [°C]\n2026-02-01,0.5\n".encode("latin-1")

    settings = taken_in(
        lakehouse_of, session, 'encoding = "latin-1"', content, '{ type = "double", path = "Core Temp [°C]" }'
    )

    assert table_rows(settings.layout.raw("logger"), "temp") == [(0.5,)]


def test_what_is_rejected_in_another_encoding_comes_in_once_it_is_declared_right(
    lakehouse_of: Make, session: SparkSession
) -> None:
    content = "at,temp\n2026-02-01,5 µm\n".encode("cp1252")
    settings = taken_in(lakehouse_of, session, 'encoding = "cp1252"', content)
    config = settings.config
    assert config is not None and table_rows(settings.layout.raw("logger"), "temp") == []

    text = config.read_text().replace(
        'columns.temp = "double"', 'columns.temp = { type = "double", strip = " µm" }'
    )
    settings = lakehouse_of(text)
    requeue.run(settings, session, "logger")

    assert table_rows(settings.layout.raw("logger"), "temp") == [(5.0,)]


HEADED = """# station: Pond 7
# started 2026-02-01
at,temp
00:00:00,0.5
01:00:00,x
"""


def test_what_stands_once_in_the_head_belongs_to_each_row_and_to_those_put_through_again(
    lakehouse_of: Make, session: SparkSession
) -> None:
    declared = """
        home = "var"
        [streams.s]
        event_time = { columns = ["day", "at"], unit = "iso" }
        keys = ["station"]
        measures = ["temp"]
        levels = ["1d forever"]
        [streams.s.source]
        path = "landing/*"
        format = "csv"
        comment = "#"
        settle = 0
        constants = { station = "station: (.+)", day = "started (.+)" }
        [streams.s.columns]
        temp = "double"
        """
    settings = lakehouse_of(declared)
    folder = settings.home.parent / "landing"
    folder.mkdir()
    (folder / "a.csv").write_text(HEADED)
    (folder / "b.csv").write_text(HEADED.replace("Pond 7", "Pond 8").replace("x", "1.5"))
    ingest.run(settings, session, "s")
    settings = lakehouse_of(declared.replace('"double"', '{ type = "double", missing = "x" }'))
    requeue.run(settings, session, "s")

    rows = sorted(table_rows(settings.layout.raw("s"), "station", "event_us", "temp"), key=str)

    first, second = 1_769_904_000_000_000, 1_769_907_600_000_000
    assert rows == [
        ("Pond 7", first, 0.5),
        ("Pond 7", second, None),
        ("Pond 8", first, 0.5),
        ("Pond 8", second, 1.5),
    ]


def test_units_of_a_head_are_columns_properties_and_a_change_of_one_is_recorded(
    lakehouse_of: Make, session: SparkSession
) -> None:
    settings = taken_in(
        lakehouse_of, session, "header = { line = 1, units = 2 }", b"at,temp\n,C\n2026-02-01,1\n"
    )
    (settings.home.parent / "landing" / "b.txt").write_text("at,temp\n,F\n2026-02-02,33\n")

    ingest.run(settings, session, "logger")

    assert sorted(table_rows(settings.layout.raw("logger"), "temp")) == [(1.0,), (33.0,)]
    changes = [text for (text,) in table_rows(settings.layout.ledger("logger"), "schema_changes") if text]
    assert [list(each) for each in changes] == [["b.txt: temp was text in C, is text in F"]]


def column_of(column: Any, texts: list[str], **source: Any) -> list[dict[str, Any]]:
    declared = {
        "name": "logger",
        "event_time": {"column": "at", "unit": "s"},
        "levels": ["1d forever"],
        "columns": {"v": column},
        "source": {"path": "*", "format": "csv", "separator": ";"} | source,
    }
    stream = Stream.model_validate(declared)
    assert stream_problems(stream) == []
    records = pa_records([f"1769904000;{text}" for text in texts])
    return list(Parser.of(stream, [("at", "v")]).parse(records).to_pylist())


def pa_records(lines: list[str]) -> Any:
    numbers = pa.array(range(1, len(lines) + 1), pa.int64())
    return located_lines(numbers, pa.array([line.encode() for line in lines], pa.binary()), "a.csv")


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ({"type": "double", "decimal": ","}, "-0,5", -0.5),
        ({"type": "double", "decimal": ",", "thousands": "."}, "1.234.567,25", 1234567.25),
        ({"type": "double", "decimal": ",", "thousands": "."}, "1234567,25", 1234567.25),
        ({"type": "int", "thousands": "'"}, "1'234", 1234),
        ({"type": "int", "thousands": " "}, "-1 234 567", -1234567),
        ({"type": "double", "strip": [" kWh", " Wh"]}, "12.5 kWh", 12.5),
        ({"type": "double", "strip": "%"}, "99.5 %", 99.5),
        ({"type": "double", "strip": "$"}, "$ 3", 3.0),
        ({"type": "int", "hex": True}, "0xFF", 255),
        ({"type": "int", "hex": True}, "ff", 255),
        ({"type": "double", "missing": [-999, "n/a"]}, "-999.0", None),
        ({"type": "double", "missing": [-999, "n/a"]}, "n/a", None),
        ({"type": "double", "missing": [-999]}, "-99.9", -99.9),
        ({"type": "int", "missing": -1}, "-1", None),
        ({"type": "double", "missing": [-999, "n/a"], "decimal": ","}, "n/a", None),
        ({"type": "double", "missing": [-999, "n/a"], "decimal": ","}, "-999,0", None),
        ({"type": "double", "missing": ["-", -1], "strip": " kWh", "thousands": "."}, "- kWh", None),
        ({"type": "int", "missing": ["FFFF"], "hex": True}, "FFFF", None),
        ({"type": "string", "missing": ["-1"]}, "-1.0", "-1.0"),
        ({"type": "boolean", "true": ["ein", "On"], "false": ["aus", "Off"]}, "EIN", True),
        ({"type": "boolean", "true": ["ein", "On"], "false": ["aus", "Off"]}, "off", False),
        ({"type": "boolean", "true": ["ein"]}, "no", False),
    ],
)
def test_a_value_is_read_as_its_column_spells_it(column: dict[str, Any], text: str, expected: Any) -> None:
    [row] = column_of(column, [text])

    assert (row["reason"], row["v"]) == (None, expected)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ({"type": "double", "decimal": ","}, "1.5"),
        ({"type": "double", "decimal": ",", "thousands": "."}, "1.5"),
        ({"type": "double", "decimal": ",", "thousands": "."}, "1.23.456,5"),
        ({"type": "double", "strip": " kWh"}, "12 MWh"),
        ({"type": "int", "hex": True}, "xyz"),
        ({"type": "int", "thousands": ","}, "12,34"),
    ],
)
def test_a_value_in_another_spelling_is_rejected_as_it_stands(column: dict[str, Any], text: str) -> None:
    [row] = column_of(column, [text])

    assert (row["reason"], row["detail"]) == ("bad_value", f"v is '{text}', expected {column['type']}")


@given(st.integers(-(10**15), 10**15), st.sampled_from([".", "'", " "]), st.integers(0, 3))
def test_a_number_reads_back_however_it_is_grouped(number: int, mark: str, decimals: int) -> None:
    whole, part = divmod(abs(number), 10**decimals)
    text = f"{whole:,}".replace(",", mark) + (f",{part:0{decimals}}" if decimals else "")
    column = {"type": "decimal", "decimals": decimals, "decimal": ",", "thousands": mark}

    [row] = column_of(column, [("-" if number < 0 else "") + text])

    assert int(row["v"].scaleb(decimals)) == number


def test_no_line_of_a_head_is_lost_or_taken_for_data_whatever_it_holds(
    lakehouse_of: Make, session: SparkSession
) -> None:
    head = "".join(f"line {number}\n" for number in range(9_999))
    content = f"{head}at,temp\n2026-02-01,0.5\n2026-02-02,x\n".encode()

    settings = taken_in(lakehouse_of, session, "header = { line = 10000 }", content)

    assert table_rows(settings.layout.raw("logger"), "temp") == [(0.5,)]
    assert len(table_rows(settings.layout.quarantine("logger"), "reason")) == 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("header = { line = 2, data = 2 }", "data behind line 2"),
        ("header = { line = 0 }", "1"),
        ("header = { line = 2, units = 2 }", "units between line 2"),
        ('constants = { station = "station: .+" }', "one group"),
        ('separator = "ab"', "one character"),
        ('encoding = "ebcdic"', "utf-8"),
    ],
)
def test_a_head_that_cannot_be_is_refused(
    lakehouse_of: Make, session: SparkSession, source: str, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        taken_in(lakehouse_of, session, source, b"")
