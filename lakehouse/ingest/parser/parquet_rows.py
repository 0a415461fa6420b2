"""Parquet files -> typed rows: values that fit the declaration as they are, rows with others by their JSON.

An object is fetched to the task's own disk first. Disk: one object for each task at work.
"""

import base64
import json
import math
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.config.landing import located
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.parser.plain_values import Mask, typed
from lakehouse.ingest.parser.texts import BLANKS
from lakehouse.ingest.sources.landed_content import fault_of, landing_of, opened
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.ingest.sources.numbered import faulty_line, located_lines

# Texts that a file holds once may be long in each row.
_ROWS, _ROWS_AT_ONCE, _BYTES_AT_ONCE = 20_000, 100_000, 64 * 1024 * 1024
# Texts of Arrow have 2 GB in one array.
_LARGE = 2**30


def parsed_values(rows: pa.RecordBatch, numbers: pa.Array, parser: Parser, path: str) -> pa.Table:
    """Return rows of a file, of their numbers, as the parser has them of lines."""
    fits, values = _fitting(rows, path, parser.stream)
    others = pa.array(~fits)
    numbered = located_lines(numbers.filter(others), json_records(rows.filter(others)), path)
    of_json = parser.parse(numbered)
    kept, count = pa.array(fits), int(fits.sum())
    found = {
        name: column.filter(kept) for name, column in zip(values.column_names, values.columns, strict=True)
    }
    found |= {"source_file": pa.repeat(path, count), "source_line": numbers.filter(kept)}
    found |= {"source_item": pa.repeat(pa.scalar(0, pa.int32()), count)}
    if parser.keeps_records:
        found["record"] = json_records(rows.filter(kept))
    missing = (field for field in parser.schema if field.name not in found)
    found |= {field.name: pa.nulls(count, field.type) for field in missing}
    typed_rows = pa.table({name: found[name] for name in parser.schema.names}).cast(parser.schema)
    both = pa.concat_tables([typed_rows, of_json])
    return both.take(pa.array(np.argsort(both["source_line"].to_numpy(), kind="stable")))


def _fitting(rows: pa.RecordBatch, path: str, stream: Stream) -> tuple[Mask, pa.Table]:
    """Return which rows have values that fit the declaration as they are, and the typed columns of all rows."""
    fields, count = FieldMap.of(stream), rows.num_rows
    # Of a row whose text may mean "no value", or whose record is its identity, the JSON counts.
    times = [time for time in (stream.event_time, stream.arrival_time) if time is not None]
    is_usual = not stream.source.nulls and not any(time.is_spelt for time in times)
    is_plain = np.full(count, is_usual and not stream.identity_is_record)
    texts: dict[str, pa.Array] = {}
    for name, column in fields.fields.items():
        if column.file is not None:
            told = column.from_file(located(stream.source.path, path))
            texts[name] = pa.repeat(pa.scalar(told, pa.string()), count)
            continue
        value, is_found = _value_at(rows, fields.path(name).split("."))
        is_plain &= is_found
        texts[name] = pc.ascii_trim(value, BLANKS) if pa.types.is_string(value.type) else value
    values, is_good = typed(texts, count, stream)
    return is_plain & is_good, values


def _value_at(rows: pa.RecordBatch, parts: list[str]) -> tuple[pa.Array, bool]:
    """Return the values that a path leads to, and False where it leads through something else than structs."""
    value: pa.Array = rows.to_struct_array()
    for part in parts:
        if pa.types.is_null(value.type):
            break
        if not pa.types.is_struct(value.type):
            return pa.nulls(rows.num_rows, pa.string()), False
        place = value.type.get_field_index(part)
        if place < 0:
            # Of several columns of one name none is the one that is meant.
            return pa.nulls(rows.num_rows, pa.string()), part not in value.type.names
        value = _usual(pc.struct_field(value, place))
    return (value.cast(pa.string()) if pa.types.is_null(value.type) else value), True


def _usual(values: pa.Array) -> pa.Array:
    """Return values of one type for each kind of thing."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _usual(values.dictionary_decode())
    if pa.types.is_large_string(kind) and values.nbytes < _LARGE:
        return values.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.unit not in ("ms", "us"):
        return values.cast(pa.timestamp("us", kind.tz), safe=False)
    return values


def json_records(rows: pa.RecordBatch) -> pa.Array:
    """Return each row as one JSON object, without what is null: numbers digit by digit, times in ISO 8601."""
    names = [json.dumps(name, ensure_ascii=False) for name in rows.schema.names]
    columns = [_json_values(column) for column in rows.columns]
    records = []
    for row in zip(*columns, strict=True) if columns else iter(()):
        members = (f"{name}:{value}" for name, value in zip(names, row, strict=True) if value is not None)
        records.append(("{" + ",".join(members) + "}").encode("utf-8", "replace"))
    return pa.array(records, pa.binary())


def _json_values(values: pa.Array) -> list[str | None]:
    values = _usual(values)
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        # Arrow writes years that Python's times do not have.
        is_moment = pa.types.is_timestamp(values.type) and values.type.tz
        shown = values.cast(pa.timestamp("us", "UTC")) if is_moment else values
        return [None if text is None else json.dumps(text) for text in shown.cast(pa.string()).to_pylist()]
    is_short = pa.types.is_float32(values.type) or pa.types.is_float16(values.type)
    if is_short:
        numbers = values.to_numpy(zero_copy_only=False)
        valid = values.is_valid().to_pylist()
        return [
            _json_number(float(str(n))) if is_there else None
            for n, is_there in zip(numbers, valid, strict=True)
        ]
    return [None if value is None else _json(value) for value in _listed(values)]


def _listed(values: pa.Array) -> list[Any]:
    try:
        return list(values.to_pylist())
    except (ValueError, OverflowError):
        # Of times inside, which Python's cannot be.
        return [str(value) if value.is_valid else None for value in values]


def _json_number(value: float) -> str:
    return repr(value) if math.isfinite(value) else json.dumps(str(value))


def _json(value: Any) -> str:
    if isinstance(value, float):
        return _json_number(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode("ascii"))
    if isinstance(value, datetime | date | time):
        return json.dumps(value.isoformat())
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    if isinstance(value, dict):
        members = (
            f"{json.dumps(str(n), ensure_ascii=False)}:{_json(v)}" for n, v in value.items() if v is not None
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def parsed_parquet(file: LandedFile, parser: Parser, only: pa.Array | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a file, or ``only`` some, block by block; last a faulty line if it does not end well."""
    read = 0
    for rows in _blocks(file, parser.stream.source):
        if isinstance(rows, Exception):
            yield parser.parse(faulty_line(file.path, fault_of(rows, read)))
            return
        numbers = pa.array(np.arange(read + 1, read + 1 + rows.num_rows))
        read += rows.num_rows
        if only is not None:
            is_wanted = pc.is_in(numbers, only)
            numbers, rows = numbers.filter(is_wanted), rows.filter(is_wanted)
        if rows.num_rows:
            yield parsed_values(rows, numbers, parser, file.path)


def _blocks(file: LandedFile, source: Source) -> Iterator[pa.RecordBatch | Exception]:
    """Yield about as many rows as are typed at once, fewer of wide ones; last the error that ends the file early."""
    held, count, size = list[pa.RecordBatch](), 0, 0
    fault: Exception | None = None
    with ExitStack() as kept:
        try:
            content = _content(kept, file, source)
            for rows in pq.ParquetFile(content, coerce_int96_timestamp_unit="us").iter_batches(_ROWS):
                held, count, size = [*held, rows], count + rows.num_rows, size + rows.nbytes
                if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
                    yield from pa.Table.from_batches(held).combine_chunks().to_batches()
                    held, count, size = [], 0, 0
        except Exception as error:
            fault = error
        if held:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
        if fault:
            yield fault


def _content(kept: ExitStack, file: LandedFile, source: Source) -> IO[bytes]:
    path = located(source.path, file.path)
    content = kept.enter_context(opened(path, landing_of(source, file.seen)))
    if not is_remote(path):
        return content
    fetched = kept.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    shutil.copyfileobj(content, fetched, 1024 * 1024)
    fetched.seek(0)
    return fetched
