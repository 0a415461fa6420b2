"""Avro records as the JSON texts that all other formats' records are, or become.

A record is the bytes of one value without a file around it. With ``schema_files`` it begins with five bytes, as
Confluent's serialisers write them: a zero, and the number of the schema, big endian. Numbers, times among them, stay
as they are stored; decimals become texts of their digits, bytes texts of one character each.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.declare.avro_schema import read_schema
from lakehouse.declare.stream import Source

_PREFIX = struct.Struct(">bI")
Schemas = Mapping[int, Any]


class _Unreadable(ValueError):
    """Why a record cannot be read, as reason and detail."""


def with_avro_text(lines: DataFrame, source: Source) -> DataFrame:
    """Add ``text``, the JSON of each record, and a ``fault`` to those that cannot be read."""
    if source.schema_file:
        decode = _decoder({0: read_schema(source.schema_file)}, has_prefix=False)
    else:
        schemas = {int(number): read_schema(path) for number, path in source.schema_files.items()}
        decode = _decoder(schemas, has_prefix=True)
    schema = T.StructType([*lines.schema.fields, T.StructField("text", T.StringType())])
    return lines.withColumn("record", F.col("record").cast("binary")).mapInArrow(decode, schema)


def _decoder(
    schemas: Schemas, has_prefix: bool
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read = [json_of(record, schemas, has_prefix) for record in batch.column("record").to_pylist()]
            texts = pa.array([text for text, _ in read], pa.string())
            found = pa.array([fault for _, fault in read], pa.string())
            place = batch.schema.get_field_index("fault")
            faults = pa.compute.coalesce(batch.column(place), found)
            columns = [*batch.columns[:place], faults, *batch.columns[place + 1 :], texts]
            yield pa.record_batch(columns, [*batch.schema.names, "text"])

    return decode


def json_of(record: bytes | None, schemas: Schemas, has_prefix: bool) -> tuple[str | None, str | None]:
    """Return a record's JSON text, or the fault that keeps it from being read; nothing is neither.

    A record that ends early or goes on behind its last field was not written with the schema: it is refused whole.
    """
    if record is None:
        return None, None
    try:
        schema, content = _parted(record, schemas) if has_prefix else (schemas[0], record)
        return _read(content, schema), None
    except _Unreadable as error:
        return None, str(error)


def _parted(record: bytes, schemas: Schemas) -> tuple[Any, bytes]:
    if len(record) < _PREFIX.size or record[0] != 0:
        raise _Unreadable("malformed: expected a zero and the number of a schema before the Avro record")
    _, number = _PREFIX.unpack_from(record)
    if number not in schemas:
        known = ", ".join(map(str, sorted(schemas)))
        raise _Unreadable(
            f"unknown_schema: the record is of schema {number}; source.schema_files has {known}"
        )
    return schemas[number], record[_PREFIX.size :]


def _read(content: bytes, schema: Any) -> str:
    from fastavro import schemaless_reader

    stream = io.BytesIO(content)
    try:
        text = json.dumps(schemaless_reader(stream, schema, None), ensure_ascii=False, default=_text)
    except Exception as error:
        # Bytes that are no such record can fail in any way.
        raise _Unreadable(
            f"malformed: no Avro record of the schema: {type(error).__name__} {error}"
        ) from None
    rest = len(content) - stream.tell()
    if rest:
        raise _Unreadable(f"malformed: {rest} bytes more than an Avro record of the schema has")
    return text


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
