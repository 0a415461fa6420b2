from __future__ import annotations

import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.config.avro_schema import read_schema
from lakehouse.ingest.parser.avro import read_avro
from lakehouse.ingest.parser.verdicts import Rejected

READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "device", "type": "string"},
        {"name": "temp", "type": ["null", "double"]},
        {"name": "volts", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}},
        {"name": "heard", "type": {"type": "array", "items": "string"}},
    ],
}
VALUE = {"ts": 1_600_000_000_123, "device": "a", "temp": 20.5, "volts": Decimal("3.300"), "heard": ["x"]}


def written(tmp_path: Path, schema: Any = READING) -> Any:
    path = tmp_path / "reading.avsc"
    path.write_text(json.dumps(schema))
    return read_schema(str(path))


def avro(schema: Any, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, schema, value)
    return out.getvalue()


def test_a_record_becomes_json_with_times_as_stored_and_decimals_digit_by_digit(tmp_path: Path) -> None:
    schema = written(tmp_path)

    text = read_avro(avro(schema, VALUE), {0: schema}, has_prefix=False)

    assert json.loads(text) == VALUE | {"volts": "3.300"}


@pytest.mark.parametrize("cut", [0, 1, 5, -1])
def test_a_record_that_ends_early_or_goes_on_is_malformed(tmp_path: Path, cut: int) -> None:
    schema = written(tmp_path)
    record = avro(schema, VALUE)

    for broken in (record[:cut], record + b"\x00"):
        with pytest.raises(Rejected, match=r"^malformed: "):
            read_avro(broken, {0: schema}, has_prefix=False)


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_whatever_the_bytes_are_they_are_a_text_or_a_fault(record: bytes) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": {"type": "map", "values": "int"}}],
    }

    try:
        assert isinstance(json.loads(read_avro(record, {0: schema}, has_prefix=False)), dict)
    except Rejected as verdict:
        assert str(verdict).startswith("malformed: ")


def test_the_number_before_a_record_says_which_schema_it_was_written_with(tmp_path: Path) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "b", "type": "string"}, {"name": "a", "type": "int"}],
    }
    records = (
        struct.pack(">bI", 0, 7) + avro(old, {"a": 1}),
        struct.pack(">bI", 0, 9) + avro(new, {"b": "", "a": 2}),
    )

    found = [read_avro(record, {7: old, 9: new}, has_prefix=True) for record in records]

    assert [json.loads(text)["a"] for text in found] == [1, 2]


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            struct.pack(">bI", 0, 8) + b"\x02",
            "unknown_schema: the record is of schema 8; source.schema_files has 7",
        ),
        (b"\x01\x00\x00\x00\x07\x02", "malformed: expected a zero and the number of a schema"),
        (b"\x00\x00", "malformed: expected a zero and the number of a schema"),
    ],
)
def test_a_record_without_a_known_schema_is_told(record: bytes, told: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}

    with pytest.raises(Rejected) as raised:
        read_avro(record, {7: schema}, has_prefix=True)
    assert str(raised.value).startswith(told)
