"""Wrong rows by values of every type, and the text that a correction keeps of them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.config.stream import Stream
from lakehouse.corrections.wrong_rows import RetractRefused, Wrong
from lakehouse.settings import load_settings
from tests.support.readings import declared

KINDS = pa.schema(
    {
        **{"event_us": pa.int64(), "batch": pa.int64(), "source_file": pa.string(), "device": pa.string()},
        **{"temp": pa.float64(), "count": pa.int64(), "on": pa.bool_(), "volts": pa.decimal128(38, 2)},
    }
)


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    text = declared() + 'on = "boolean"\nvolts = { type = "decimal", decimals = 2 }\nlater = "int"\n'
    (tmp_path / "tidemark.toml").write_text(text, encoding="utf-8")
    return load_settings(tmp_path / "tidemark.toml").stream("readings")


def rows(**values: list[Any]) -> pa.Table:
    size = len(next(iter(values.values())))
    whole = {"event_us": list(range(size)), "batch": [1] * size} | values
    return pa.table(
        {field.name: pa.array(whole.get(field.name, [None] * size), field.type) for field in KINDS},
        KINDS,
    )


@pytest.mark.parametrize(
    ("column", "text", "values", "found"),
    [
        ("device", "it's \\ b", ["it's \\ b", "b", None], [True, False, False]),
        ("temp", "1.50", [1.5, 1.25, None], [True, False, False]),
        ("count", "9007199254740993", [9007199254740993, 9007199254740992], [True, False]),
        ("on", "true", [True, False, None], [True, False, False]),
        ("volts", "1.5", [Decimal("1.50"), Decimal("1.51")], [True, False]),
        # No row of raw has this column yet.
        ("later", "1", [], []),
    ],
)
def test_a_value_is_compared_as_its_column_is_typed(
    stream: Stream, column: str, text: str, values: list[Any], found: list[bool]
) -> None:
    wrong = Wrong(where={column: text}).rows_of(stream, 1)

    table = rows(**{column: values}) if column in KINDS.names else rows(device=[])
    assert wrong(table).to_pylist() == found


def test_all_that_is_given_must_hold(stream: Stream) -> None:
    wrong = Wrong("a.ndjson", {"device": "a"}, from_us=0, to_us=3).rows_of(stream, 1)
    table = rows(
        event_us=[-1, 0, 2, 3, 2, 2, 2],
        batch=[1, 1, 1, 1, 2, 1, 1],
        source_file=["a.ndjson"] * 5 + ["b.ndjson", "a.ndjson"],
        device=["a"] * 6 + ["b"],
    )

    assert wrong(table).to_pylist() == [False, True, True, False, False, False, False]


def test_what_a_correction_records_is_read_again(stream: Stream) -> None:
    for wrong in (Wrong("a b.ndjson"), Wrong(where={"device": 'x"'}, from_us=0, to_us=5)):
        assert Wrong.read(wrong.recorded()) == wrong


def test_what_cannot_be_compared_is_refused(stream: Stream) -> None:
    with pytest.raises(
        RetractRefused, match="column temp: found 'warm'; expected a value of its type, double"
    ):
        Wrong(where={"temp": "warm"}).rows_of(stream, 1)
    with pytest.raises(RetractRefused, match="no column 'devise'; there are device, ts, "):
        Wrong(where={"devise": "a"}).rows_of(stream, 1)
