"""Avro schemas that a configuration names: read, or reported as a problem."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse.config.problems import Problem
from lakehouse.config.stream import Source

# Dates and times stay the numbers that they are stored as: a stream's own declaration says their unit.
_AS_NUMBERS = ("date", "time-", "timestamp-", "local-timestamp-")


def read_schema(path: str) -> Any:
    """Return the schema of a file as fastavro reads records with it.

    Raises OSError when the file cannot be read; ValueError when it holds no JSON, or no Avro schema.
    """
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    content = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        return parse_schema(_without_times(content))
    except (SchemaParseException, UnknownType, KeyError, TypeError) as error:
        raise ValueError(f"no Avro schema: {type(error).__name__} {error}") from None


def schema_problems(source: Source) -> Iterator[Problem]:
    """Return which of a source's schema files cannot be read."""
    named = {f"schema_files.{number}": path for number, path in source.schema_files.items()}
    if source.schema_file:
        named["schema_file"] = source.schema_file
    for key, path in named.items():
        try:
            read_schema(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            yield Problem(f"source.{key}", f"{path}: {why}", "a file with an Avro schema as JSON")


def _without_times(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_times(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value if key == "default" else _without_times(value) for key, value in schema.items()}
    if str(kept.get("logicalType", "")).startswith(_AS_NUMBERS):
        del kept["logicalType"]
    return kept
