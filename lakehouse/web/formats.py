"""Rows as JSON, CSV or Arrow: the same values in each, to the last bit.

JSON is one object with ``rows``; CSV has a header and lists and maps as JSON; Arrow is an IPC stream whose schema's
metadata holds what JSON says beside the rows. What a double cannot say in JSON (infinities, NaN) is null there.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lakehouse.serving.sandbox.sandbox import distinct
from lakehouse.serving.sandbox.worker import plain

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_BATCH_ROWS = 10_000
# A spreadsheet takes a text for a formula, and runs it, if it begins so, behind blanks too and with full-width signs.
_FORMULA = re.compile(r"\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r\n]")
# Behind one of these a spreadsheet or another reader could begin a cell or a row: a text with one is quoted.
_SEPARATORS = ";\t\r\n"


class Format(StrEnum):
    """Format of rows."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"


MEDIA_TYPES = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8",
    Format.ARROW: "application/vnd.apache.arrow.stream",
}


@dataclass(frozen=True)
class Rows:
    """Rows in the order of ``columns``, and what is said beside them (version, question, ``truncated``, ``next``).

    ``types``: DuckDB's names of the columns' types, from which Arrow's follow.
    """

    columns: Sequence[str]
    types: Sequence[str]
    rows: Sequence[Sequence[Any]]
    about: Mapping[str, Any] = field(default_factory=dict)


def written(found: Rows, form: Format) -> bytes:
    """Return rows in one format."""
    if form is Format.CSV:
        return _csv(found)
    if form is Format.ARROW:
        return _arrow(found)
    names = distinct(found.columns)
    rows = [{name: json_value(v) for name, v in zip(names, row, strict=True)} for row in found.rows]
    return json_bytes({**found.about, "columns": names, "rows": rows})


def json_bytes(document: Any) -> bytes:
    """Return a document as JSON; a text that is no Unicode, as a file's name may be, is made one."""
    return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def json_value(value: Any) -> Any:
    """Return a value as JSON knows it: doubles it does not know are null, times ISO text, bytes hexadecimal."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    return plain(value)


def _csv(found: Rows) -> bytes:
    line, lines = io.StringIO(), list[str]()
    # The writer quotes what has a sign of the end of a line.
    writer = csv.writer(line, lineterminator=_SEPARATORS)
    # Decimals are text here, and no formula.
    numbers = [kind.startswith("DECIMAL") and not kind.endswith("]") for kind in found.types]
    for row in ([_cell(name) for name in found.columns], *found.rows):
        writer.writerow([v if is_number else _cell(v) for v, is_number in zip(row, numbers, strict=True)])
        lines.append(line.getvalue().removesuffix(_SEPARATORS) + "\n")
        line.seek(0)
        line.truncate()
    return "".join(lines).encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    """Return a value as a cell; a text that a spreadsheet would run gets an apostrophe before it."""
    if isinstance(value, float | int) or value is None:
        return value
    if isinstance(value, dict | list | tuple):
        value = json.dumps(json_value(value), ensure_ascii=False)
    shown = plain(value)
    return f"'{shown}" if isinstance(shown, str) and _FORMULA.match(shown) else shown


def _arrow(found: Rows) -> bytes:
    import pyarrow as pa

    about = {"tidemark": json_bytes(json_value(found.about))}
    names = distinct(found.columns)
    schema = pa.schema(
        [(name, _arrow_type(kind)) for name, kind in zip(names, found.types, strict=True)], metadata=about
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for first in range(0, len(found.rows), ARROW_BATCH_ROWS):
            part = found.rows[first : first + ARROW_BATCH_ROWS]
            arrays = [
                pa.array([_of_type(row[place], one.type) for row in part], one.type)
                for place, one in enumerate(schema)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
    return sink.getvalue()


def _of_type(value: Any, kind: pa.DataType) -> Any:
    """Return a value as a column of a type takes it; what the sandbox wrote as text is read again."""
    import pyarrow.types as types

    if value is None:
        return None
    if types.is_map(kind):
        return list(value.items())
    if types.is_list(kind):
        return [_of_type(one, kind.value_type) for one in value]
    if not isinstance(value, str):
        return json.dumps(json_value(value)) if types.is_string(kind) else value
    if types.is_floating(kind):
        return float(value)
    if types.is_binary(kind):
        return bytes.fromhex(value)
    return datetime.fromisoformat(value) if types.is_temporal(kind) else value


def _arrow_type(duckdb_type: str) -> pa.DataType:
    """Return Arrow's type of a column; what has none of its own (a struct, a union, a huge integer) is text."""
    import pyarrow as pa

    simple = {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "TIMESTAMP": pa.timestamp("us"),
        "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
        "DATE": pa.date32(),
        "BLOB": pa.binary(),
        "MAP(VARCHAR, VARCHAR)": pa.map_(pa.string(), pa.string()),
        "MAP(VARCHAR, BIGINT)": pa.map_(pa.string(), pa.int64()),
    }
    if duckdb_type.endswith("[]"):
        inner = _arrow_type(duckdb_type[:-2])
        return pa.string() if inner == pa.string() and duckdb_type != "VARCHAR[]" else pa.list_(inner)
    return simple.get(duckdb_type, pa.string())
