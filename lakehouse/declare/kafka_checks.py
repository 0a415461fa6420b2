"""What one key of a Kafka source cannot tell alone: topics, fields of CSV messages, schemas, options of the client."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakehouse.declare.problems import Problem
from lakehouse.declare.stream import Source, Stream

_VARIABLE = re.compile(r"\$\{\w+\}")
# Options of Kafka's client that decide what is read, or how: these are not for the configuration.
_SET_BY_US = {
    "bootstrap.servers": "source.servers",
    "auto.offset.reset": "source.start",
    "isolation.level": "none: only committed messages are read",
    "enable.auto.commit": "none: manifests say what was read",
    "key.deserializer": "none: keys are read as bytes",
    "value.deserializer": "none: values are read as bytes",
    "interceptor.classes": "none: messages are read as they are",
}


def kafka_problems(stream: Stream) -> Iterator[Problem]:
    """Yield what is wrong with a source of kind kafka, beyond keys and formats of another kind."""
    source = stream.source
    yield from _topics(source)
    yield from _csv_fields(stream)
    yield from _schemas(source)
    yield from _options(source)


def _topics(source: Source) -> Iterator[Problem]:
    for topic in sorted({topic for topic in source.topics if source.topics.count(topic) > 1}):
        yield Problem("source.topics", f"{topic!r} {source.topics.count(topic)} times", "each topic once")


def _csv_fields(stream: Stream) -> Iterator[Problem]:
    fields = stream.source.fields
    if stream.source.format != "csv":
        if fields:
            yield Problem(
                "source.fields", f"format {stream.source.format!r}", 'format "csv"; others name their own'
            )
        return
    if not fields:
        yield Problem("source.fields", "nothing", "the names of a message's fields, in order")
        return
    for name, column in stream.all_columns.items():
        path = column.path or name
        if column.position is not None and column.position >= len(fields):
            expected = f"below {len(fields)}, the number of source.fields"
            yield Problem(f"columns.{name}.position", str(column.position), expected)
        if column.position is None and path not in fields and not path.startswith("$"):
            yield Problem(f"columns.{name}", f"no field {path!r}", f"one of source.fields, {list(fields)}")
    for key, time in (("event_time", stream.event_time), ("arrival_time", stream.arrival_time)):
        known = time is None or time.column in (*fields, *stream.all_columns) or time.column.startswith("$")
        if time and not known:
            yield Problem(f"{key}.column", repr(time.column), f"one of source.fields, {list(fields)}")


def _schemas(source: Source) -> Iterator[Problem]:
    given = [name for name in ("schema_file", "schema_files") if getattr(source, name)]
    if source.format != "avro":
        for name in given:
            yield Problem(f"source.{name}", f"format {source.format!r}", 'format "avro"')
        return
    for number in source.schema_files:
        if not number.isdecimal():
            yield Problem(
                f"source.schema_files.{number}", repr(number), "the number that the registry gave a schema"
            )
    if len(given) != 1:
        either = 'schema_file = "FILE", or schema_files = { "ID" = "FILE" } where messages begin with the id of theirs'
        yield Problem("source.schema_file", "nothing" if not given else "schema_files as well", either)


def _options(source: Source) -> Iterator[Problem]:
    for name, value in source.options.items():
        key = f"source.options.{name}"
        # The value itself may be a secret: it is never told.
        if name in _SET_BY_US:
            yield Problem(key, "a value", _SET_BY_US[name])
        if "${" in _VARIABLE.sub("", value):
            yield Problem(
                key, '"${" that begins no ${NAME}', "the name of a variable of the environment: ${NAME}"
            )
