"""A row of a Parquet file becomes the row or the verdict that its JSON becomes."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.config.columns import Column
from lakehouse.ingest.parser.parquet_rows import json_records, parsed_parquet, parsed_values
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.ingest.sources.numbered import located_lines
from tests.ingest.odd_lines import NUMBERS, T0, TEXTS, UNITS, declared

ROWS = 400
LONG_AGO = datetime(1899, 12, 31, 23, 59, 59, 999_999, UTC)
EDGES = [0, 1, -1, 127, T0, T0 * 1000, 10**12, 10**15 - 1, 10**15, 2**53 + 1, 10**18 - 1, -(2**63), 2**63 - 1]
DOUBLES = [
    *(0.0, -0.0, 0.1, 1 / 3, 2.675, 1.005, 1e-7, 1e7, 1e21, 5e-324, 1.7e308, float("nan"), float("inf")),
    *(-1.5, T0 + 0.5, T0 + 0.123, T0 + 0.123456, T0 * 1e3 + 0.25, 123456789012.34, 9007199254740993.0),
]
MOMENTS = [datetime.fromtimestamp(T0, UTC) + timedelta(microseconds=n) for n in (0, 1, 999, 10**6 - 1)]
MOMENTS += [
    LONG_AGO,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC),
    datetime(2000, 2, 29, tzinfo=UTC),
]
DECIMALS = [Decimal(text) for text in ("0.00", "1.25", "-0.01", "99999999.99", "123456.70")]
TRUTHS = [True, False]
# How a wanted field may be stored.
INT64, TEXT, MOMENT = pa.int64(), pa.string(), pa.timestamp("us", "UTC")
STORED: dict[str, list[Any]] = {
    "whole": [
        pa.int8(),
        pa.int32(),
        INT64,
        pa.uint32(),
        pa.uint64(),
        TEXT,
        pa.float64(),
        pa.null(),
        pa.bool_(),
    ],
    "real": [pa.float64(), INT64, pa.float32(), TEXT, pa.decimal128(10, 2), MOMENT],
    "exact": [pa.decimal128(10, 2), pa.decimal128(20, 0), pa.decimal128(10, 3), pa.float64(), INT64, TEXT],
    "truth": [pa.bool_(), TEXT, pa.int8()],
    "text": [
        TEXT,
        pa.dictionary(pa.int32(), TEXT),
        pa.large_string(),
        INT64,
        pa.bool_(),
        pa.float64(),
        pa.binary(),
    ],
    "time": [INT64, pa.float64(), TEXT, pa.uint32(), pa.decimal128(20, 3), MOMENT],
    "iso": [MOMENT, pa.timestamp("ms", "UTC"), TEXT, pa.timestamp("us"), INT64],
}
FIELDS = {
    "ts": "time",
    "received": "time",
    "text": "text",
    "number": "whole",
    "real": "real",
    "exact": "exact",
    "truth": "truth",
}
# Turns in which a column has a type that fits no declaration, such as a short float, or a moment without a zone.
SLOW = (2, 3, 4)
CASES = [("s", 0), ("ms", 1), ("us", 2), ("iso", 3), ("s", 4), ("iso", 21), ("s", 30)]


def values(pick: random.Random, kind: pa.DataType, usual: Any) -> pa.Array:
    """Return values of a type, most of them as ``usual`` says, some missing."""
    odd = _odd(kind)
    found = [usual(n) if pick.random() < 0.85 else pick.choice([*odd, None]) for n in range(ROWS)]
    fitting = [_fitting(value, kind) for value in found]
    if pa.types.is_dictionary(kind):
        return pa.array(fitting, TEXT).dictionary_encode()
    return pa.array(fitting, kind)


def _odd(kind: pa.DataType) -> list[Any]:
    if pa.types.is_integer(kind):
        return EDGES
    if pa.types.is_floating(kind):
        return DOUBLES
    if pa.types.is_timestamp(kind):
        return MOMENTS
    if pa.types.is_decimal(kind):
        return DECIMALS
    if pa.types.is_boolean(kind):
        return TRUTHS
    return [*TEXTS, *NUMBERS]


def _fitting(value: Any, kind: pa.DataType) -> Any:
    """Return a value, or one near it, that the type can hold; null where there is none."""
    wanted = {
        **dict.fromkeys(_all_of(pa.types.is_integer), int),
        **dict.fromkeys(_all_of(pa.types.is_floating), float),
    }
    try:
        if pa.types.is_decimal(kind):
            value = Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale))
        elif pa.types.is_timestamp(kind):
            value = value if isinstance(value, datetime) else datetime.fromtimestamp(float(value), UTC)
            value = value if kind.tz else value.replace(tzinfo=None)
            value = (
                value.replace(microsecond=value.microsecond // 1000 * 1000) if kind.unit == "ms" else value
            )
        elif pa.types.is_dictionary(kind) or kind in (TEXT, pa.large_string()):
            value = None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        elif kind == pa.binary():
            value = None if value is None else str(value).encode()
        elif kind in wanted:
            value = wanted[kind](value)
        return pa.array([value], kind if not pa.types.is_dictionary(kind) else TEXT)[0].as_py()
    except (TypeError, ValueError, ArithmeticError, OSError, pa.ArrowException):
        return None


def _all_of(is_such: Callable[[pa.DataType], bool]) -> list[pa.DataType]:
    kinds = [pa.int8(), pa.int32(), INT64, pa.uint32(), pa.uint64(), pa.float32(), pa.float64()]
    return [kind for kind in kinds if is_such(kind)]


def made(pick: random.Random, unit: str, turn: int) -> pa.Table:
    """Return rows whose columns have other types at each turn; beside them what no declaration wants."""
    columns = {}
    start = UNITS.get(unit, T0)
    usual = {
        "time": lambda n: start + n % 50,
        "whole": lambda n: n % 100,
        "real": lambda n: n / 4,
        "exact": lambda n: Decimal(n) / 4,
        "truth": lambda n: n % 2 == 0,
        "text": lambda n: "1" if n % 2 else "abc",
    }
    for name, field in FIELDS.items():
        kinds = STORED["iso" if field == "time" and unit == "iso" else field]
        columns[name] = values(pick, kinds[turn % len(kinds)], usual[field])
    columns["nested"] = pa.array([{"x": [n], "y": b"\x00\xff"} for n in range(ROWS)])
    columns["Text"] = pa.array(["another"] * ROWS) if turn % 2 else pa.array([b"\xff"] * ROWS)
    del columns[("Text", "nested", "truth")[turn % 3]]
    return pa.table(columns)


@pytest.mark.parametrize(("unit", "turn"), CASES)
def test_a_row_becomes_what_its_json_becomes(unit: str, turn: int) -> None:
    pick, stream = random.Random(f"{unit} {turn}"), declared("parquet", unit)
    (rows,) = made(pick, unit, turn).combine_chunks().to_batches()
    numbers, parser = pa.array(range(ROWS), pa.int64()), Parser.of(stream, (None,))

    found = parsed_values(rows, numbers, parser, "a").to_pylist()

    expected = parser.parse(located_lines(numbers, json_records(rows), "a")).to_pylist()
    assert len(found) == ROWS
    for row, wanted in zip(found, expected, strict=True):
        assert row == wanted
    assert sum(row["reason"] is None for row in found) > 0.3 * ROWS or turn in SLOW


def test_values_are_written_as_json_digit_by_digit() -> None:
    columns = {
        "short": pa.array([0.1, None], pa.float32()),
        "nan": pa.array([float("nan"), 1e300]),
        "large": pa.array([2**64 - 1, 0], pa.uint64()),
        "exact": pa.array([Decimal("9007199254740993.001"), None]),
        "moment": pa.array([LONG_AGO, None], pa.timestamp("ns", "Europe/Berlin")),
        "local": pa.array([datetime(2020, 1, 1), None], pa.timestamp("ms")),
        "bytes": pa.array([b"\xff", b""]),
        "nested": pa.array([{"a": [1, None], "b": None}, None]),
        "\u00fc": pa.array(['"', "\n"]),
    }
    first, second = json_records(pa.RecordBatch.from_pydict(columns)).to_pylist()
    assert first.decode() == (
        '{"short":0.1,"nan":"nan","large":18446744073709551615,"exact":9007199254740993.001,'
        '"moment":"1899-12-31 23:59:59.999999Z","local":"2020-01-01 00:00:00.000","bytes":"/w==",'
        '"nested":{"a":[1,null]},"\u00fc":"\\""}'
    )
    assert second.decode() == '{"nan":1e+300,"large":0,"bytes":"","\u00fc":"\\n"}'


def test_damage_inside_a_file_leaves_the_rows_before_it(tmp_path: Path) -> None:
    stream = declared("parquet", "s")
    stream = stream.model_copy(update={"source": stream.source.model_copy(update={"path": f"{tmp_path}/*"})})
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"ts": [T0] * 30_000}), path, row_group_size=10_000, use_dictionary=False)
    last = pq.read_metadata(path).row_group(2).column(0).data_page_offset
    content = path.read_bytes()
    path.write_bytes(content[:last] + b"\xff" * 60 + content[last + 60 :])

    found = pa.concat_tables(
        parsed_parquet(LandedFile(path.name, path.stat().st_size, 0, ()), Parser.of(stream, (None,)))
    )

    assert found["source_line"].to_pylist() == [*range(1, 20_001), 0]
    assert found["reason"].to_pylist()[-1] == "truncated_file"
    assert "rows from 20,001 on cannot be read" in found["detail"].to_pylist()[-1]


def test_a_path_leads_through_structs_and_to_nothing_else() -> None:
    columns: dict[str, Any] = {"v": {"path": "d.v", "type": "int"}}
    stream = declared("parquet", "s").model_copy(
        update={"columns": {"v": Column(**columns["v"])}, "measures": ()}
    )
    parser = Parser.of(stream, (None,))
    inner = [{"v": 7, "w": None}, {"v": None, "w": "x"}, None]

    def rows_of(values: pa.Array) -> list[Any]:
        table = {"ts": [T0] * len(values), "d": values}
        (rows,) = pa.table(table).combine_chunks().to_batches()
        found = parsed_values(rows, pa.array(range(len(values)), pa.int64()), parser, "a").to_pylist()
        return [row["reason"] or row["v"] for row in found]

    assert rows_of(pa.array(inner)) == [7, None, None]
    assert rows_of(pa.array([[7], [], None])) == ["bad_value", None, None]
