"""Present values that cannot be read reject their record with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.config.durations import spelled_duration
from lakehouse.config.stream import Source
from lakehouse.ingest.parser.verdicts import date_text, expected_fields, missing_columns
from lakehouse.settings import load_settings
from tests.ingest.no_session import no_session
from tests.support.readings_lake import Lake

CONFIG = """
home = "var"
[streams.s]
event_time = {{ column = "at", unit = "{unit}" }}
measures = ["v"]
levels = ["1h for 7d", "1d forever"]
source = {{ path = "landing/*", settle = 0, {source} }}
columns.v = {v}
"""
T0 = 1_767_225_600
CSV, JSON = 'format = "csv"', 'format = "ndjson"'
OUT = "out_of_bounds: at is '{}', read as {}, expected 2000-01-01 to 2100-01-01 (event_time_bounds)"
REJECTED = [
    (
        *(CSV, "us", "at,v\n1767225600000000000,1\n", '"int"'),
        OUT.format(f"{T0}000000000", "us: 57971-02-25") + "; the unit may be wrong: as ns it is 2026-01-01",
    ),
    (
        *(CSV, "s", f"at,v\n{T0}000,1\n", '"int"'),
        OUT.format(f"{T0}000", "s: 57971-02-25") + "; the unit may be wrong: as ms it is 2026-01-01",
    ),
    (
        *(JSON, "ms", f'{{"at": {T0}, "v": 1}}\n', '"int"'),
        OUT.format(T0, "ms: 1970-01-21") + "; the unit may be wrong: as s it is 2026-01-01",
    ),
    (
        *(CSV, "iso", "at,v\n1999-12-31T23:59:59Z,1\n", '"int"'),
        OUT.format("1999-12-31T23:59:59Z", "iso: 1999-12-31"),
    ),
    (*(CSV, "s", "at,v\n-1,1\n", '"int"'), OUT.format("-1", "s: 1969-12-31")),
    (*(CSV, "s", f"at,v\n{T0},1,2\n", '"int"'), "malformed: expected 2 fields, as in line 1 of a, found 3"),
    (*(CSV, "s", f'at,v\n"{T0}"\n', '"int"'), "malformed: expected 2 fields, as in line 1 of a, found 1"),
    (
        *(CSV, "s", f'at,v\n"{T0}","1,5","a ""b"", c"\n', '"int"'),
        "malformed: expected 2 fields, as in line 1 of a, found 3",
    ),
    (
        *(f'{CSV}, header = "none"', "s", f"{T0},1\n{T0},1,2\n", '{ position = 1, type = "int" }'),
        "malformed: expected 2 fields, as in line 1 of a, found 3",
    ),
    (
        *(
            f'{CSV}, separator = ";"',
            "s",
            f"at;v\n{T0};0,5\n",
            '{ type = "decimal", decimals = 3, optional = true }',
        ),
        "bad_value: v is '0,5', expected decimal",
    ),
    (
        *(JSON, "s", f'{{"at": {T0}, "v": "0,5"}}\n', '{ type = "double", optional = true }'),
        "bad_value: v is '0,5', expected double",
    ),
    (
        *(JSON, "s", f'{{"at": {T0}, "v": 1, "v": 2}}\n', '"int"'),
        "malformed: the record has the member 'v' more than once",
    ),
    (
        *(JSON, "s", f'{{"at": {T0}, "v": 1, "\\u0076": 2}}\n', '"int"'),
        "malformed: the record has the member 'v' more than once",
    ),
]
BESIDE = ", expected an object; a list has values only where explode names it"
NESTED = {
    '{"v": 1, "v": 2}': "malformed: the record has the member 'd.v' more than once",
    '{"v": 1}, "d": {"v": 2}': "malformed: the record has the member 'd' more than once",
    '[{"v": 1}, {"v": 2}]': f'bad_value: d is \'[{{"v":1}},{{"v":2}}]\'{BESIDE}',
    '"v"': f"bad_value: d is 'v'{BESIDE}",
    **dict.fromkeys(("null", "{}", "[]", '{"x": {"v": 1}}', '{"v": null}, "e": {"v": 1, "v": 2}')),
    '{"v": 7}': None,
}


def lake(folder: Path, unit: str, source: str, v: str) -> Lake:
    config = folder / "tidemark.toml"
    text = CONFIG.format(unit=unit, source=source, v=v)
    if 'header = "none"' in source:
        text += "columns.at = { position = 0 }\n"
    config.write_text(text, encoding="utf-8")
    settings = load_settings(config)
    return Lake(no_session(settings), settings, "s")


@pytest.mark.parametrize(("source", "unit", "content", "v", "verdict"), REJECTED)
def test_a_record_that_cannot_be_read_is_rejected_with_its_reason(
    *,
    tmp_path: Path,
    source: str,
    unit: str,
    content: str,
    v: str,
    verdict: str,
) -> None:
    made = lake(tmp_path, unit, source, v)
    made.land("a", content)
    made.ingest()
    [(reason, detail)] = made.rows("quarantine", "reason", "detail")
    assert f"{reason}: {detail}" == verdict


def test_a_wrong_clock_is_measured_from_the_arrival_to_its_own_side(tmp_path: Path) -> None:
    source = f'{JSON} }}\narrival_time = {{ column = "came", unit = "us" }}\n'
    source += 'clock_bounds = { ahead = "5m", behind = "1d" '
    made = lake(tmp_path, "s", source, '"int"')
    arrivals = {
        T0 * 10**6 - 10_800_000_000: "3h ahead of its arrival; expected at most 5m",
        T0 * 10**6 - 300_000_001: "5m1us ahead of its arrival; expected at most 5m",
        T0 * 10**6 + 2 * 86_400_000_000 + 500_000: "2d500ms behind its arrival; expected at most 1d",
        -(2**63): f"{spelled_duration(T0 * 10**6 + 2**63)} ahead of its arrival; expected at most 5m",
        T0 * 10**6: None,
    }
    made.land("a", "".join(f'{{"at": {T0}, "v": 1, "came": {arrival}}}\n' for arrival in arrivals))
    made.ingest()
    found = made.rows("quarantine", "source_line", "reason", "detail")
    assert found == [
        (line, "clock", f"event time is {text} (clock_bounds)")
        for line, text in enumerate(arrivals.values(), start=1)
        if text
    ]


def test_a_path_that_meets_no_object_and_a_member_that_repeats_reject_their_record_alone(
    tmp_path: Path,
) -> None:
    made = lake(tmp_path, "s", JSON, '{ path = "d.v", type = "int", optional = true }')
    made.land("a", "".join(f'{{"at": {T0}, "d": {inner}}}\n' for inner in NESTED))

    made.ingest()

    found = made.rows("quarantine", "source_line", "reason", "detail")
    assert {line: f"{reason}: {detail}" for line, reason, detail in found} == {
        number: verdict for number, verdict in enumerate(NESTED.values(), start=1) if verdict
    }
    assert sorted(v for (v,) in made.rows("raw", "v") if v is not None) == [7]


def test_a_list_inside_an_exploded_list_is_no_missing_value(tmp_path: Path) -> None:
    source = f'{JSON}, explode = "list"'
    made = lake(tmp_path, "s", source, '{ path = "list.gw.v", type = "int" }')
    items = [{"gw": [{"v": 1}]}, {"gw": {"v": 2}}, {"gw": {"v": 3, "w": {"v": 4}}}, {}]
    made.land("a", f'{{"at": {T0}, "list": {str(items).replace(chr(39), chr(34))}}}\n')

    made.ingest()

    assert made.rows("quarantine", "reason", "source_item") == [("bad_value", 0)]
    assert made.rows("raw", "v", "source_item") == [(2, 1), (3, 2), (None, 3)]


def test_a_column_may_count_texts_that_are_not_of_its_type_as_missing(tmp_path: Path) -> None:
    made = lake(tmp_path, "s", JSON, '{ type = "double", unreadable = "missing" }')
    made.land("a", f'{{"at": {T0}, "v": "off"}}\n{{"at": {T0}, "v": "21.5"}}\n')
    made.ingest()
    assert made.rows("raw", "v") == [(21.5,), (None,)]


def test_any_time_of_64_bits_has_a_date() -> None:
    found = [date_text(time) for time in (-(2**63), -1, 2**63 - 1)]
    assert found == ["-290308-12-21", "1969-12-31", "294247-01-10"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"path": "x", "format": "csv"}, "malformed: expected 2 fields, as in line 1 of a.csv, found "),
        ({"path": "x", "format": "zeek"}, "malformed: expected 2 fields, as in the #fields of a.csv, found "),
        (
            {"kind": "kafka", "servers": ["s:1"], "topics": ["t"], "format": "csv", "fields": ["a", "b"]},
            "malformed: expected 2 fields, as in source.fields, found ",
        ),
    ],
)
def test_a_wrong_number_of_fields_is_measured_by_what_names_them(
    source: dict[str, object], expected: str
) -> None:
    assert expected_fields(("a", "b"), Source.model_validate(source), "x/a.csv", "3") == f"{expected}3"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (("at", "w"), "'v', 'x' not among at, w"),
        (("at;v;x",), "'v', 'x' not among at;v;x: the header is one field, which separator = ';' would cut"),
        (
            ("at\tv\tx",),
            "'v', 'x' not among at\tv\tx: the header is one field, which separator = '\\t' would cut",
        ),
        (("at",), "'v', 'x' not among at"),
    ],
)
def test_columns_that_a_header_lacks_are_named_once_with_a_separator_that_it_may_have(
    header: tuple[str, ...], said: str
) -> None:
    assert missing_columns(["v", "x", "v"], header) == f"missing_column: {said}"
