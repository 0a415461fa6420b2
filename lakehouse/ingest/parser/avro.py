"""Avro records as the JSON texts that all other formats' records are, or become.

A record is the bytes of one value without a file around it. With ``schema_files`` it begins with five bytes, as
Confluent's serialisers write them: a zero, and the number of the schema, big endian. Numbers, times among them, stay
as they are stored; decimals become texts of their digits, bytes texts of one character each.
"""

import io
import json
import struct
from collections.abc import Mapping
from typing import Any

from lakehouse.config.avro_schema import read_schema
from lakehouse.config.stream import Source
from lakehouse.ingest.parser.verdicts import Rejected

_PREFIX = struct.Struct(">bI")
Schemas = Mapping[int, Any]


def schemas_of(source: Source) -> Schemas:
    """Return the schemas of a stream's records by number, one alone as 0; none where they are not Avro."""
    if source.schema_file:
        return {0: read_schema(source.schema_file)}
    return {int(number): read_schema(path) for number, path in source.schema_files.items()}


def read_avro(record: bytes, schemas: Schemas, has_prefix: bool) -> str:
    """Return a record's JSON text.

    A record that ends early or goes on behind its last field was not written with the schema: it is refused whole.
    Raises Rejected when it cannot be read.
    """
    schema, content = _parted(record, schemas) if has_prefix else (schemas[0], record)
    return _read(content, schema)


def _parted(record: bytes, schemas: Schemas) -> tuple[Any, bytes]:
    if len(record) < _PREFIX.size or record[0] != 0:
        raise Rejected("malformed: expected a zero and the number of a schema before the Avro record")
    _, number = _PREFIX.unpack_from(record)
    if number not in schemas:
        known = ", ".join(map(str, sorted(schemas)))
        raise Rejected(f"unknown_schema: the record is of schema {number}; source.schema_files has {known}")
    return schemas[number], record[_PREFIX.size :]


def _read(content: bytes, schema: Any) -> str:
    from fastavro import schemaless_reader

    stream = io.BytesIO(content)
    try:
        text = json.dumps(schemaless_reader(stream, schema, None), ensure_ascii=False, default=_text)
    except Exception as error:
        # Bytes that are no such record can fail in any way.
        raise Rejected(f"malformed: no Avro record of the schema: {type(error).__name__} {error}") from None
    rest = len(content) - stream.tell()
    if rest:
        raise Rejected(f"malformed: {rest} bytes more than an Avro record of the schema has")
    return text


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
