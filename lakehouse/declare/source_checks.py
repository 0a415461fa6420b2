"""Which keys, formats and paths go with which kind of source: every combination that means nothing is a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from lakehouse.declare.columns import HEADER, MESSAGE_FIELDS, TOPIC_LEVEL, is_message_field
from lakehouse.declare.kafka_checks import kafka_problems
from lakehouse.declare.landed_checks import landed_problems
from lakehouse.declare.problems import Problem
from lakehouse.declare.store_address import is_url
from lakehouse.declare.store_checks import store_problems
from lakehouse.declare.stream import Source, Stream


@dataclass(frozen=True)
class Kind:
    """What belongs to a kind of source: the keys it needs, the others that are its own, the formats it has."""

    needed: tuple[str, ...]
    own: tuple[str, ...]
    formats: tuple[str, ...]


_BATCHES = ("settle", "batch_bytes", "batch_files", "follow_links", "max_record_bytes", "keep_files")
_ROLLS = ("roll_after", "roll_bytes")
_LOGIN = ("username", "password_env", "ca", "cert", "key")
# All other keys belong to each kind.
KINDS = {
    "files": Kind(
        ("path",),
        ("header", "endpoint", "key_order", "full_listing", *_BATCHES),
        ("csv", "ndjson", "zeek", "parquet", "pcap", "nfdump"),
    ),
    "kafka": Kind(
        ("servers", "topics"),
        ("start", "batch_rows", "fields", "schema_file", "schema_files", "options"),
        ("csv", "ndjson", "avro"),
    ),
    "mqtt": Kind(
        ("path", "broker", "topics"),
        (
            *_LOGIN,
            *("client_id", "protocol", "in_flight", "session"),
            *_ROLLS,
            *_BATCHES,
        ),
        ("ndjson",),
    ),
    "host": Kind(("path",), ("records", "every", *_ROLLS, *_BATCHES), ("ndjson",)),
}
_SUCH_AS = {"broker": 'an address such as "mqtt://localhost:1883"'}
_FAMILIES = {"kafka": f"{HEADER}NAME", "mqtt": f"{TOPIC_LEVEL}N (a level of it, from 0)"}
# Columns that a flow's shape says more about than their type.
_SHAPED = ("proto", "src_port", "dst_port")


def source_problems(stream: Stream) -> Iterator[Problem]:
    """Yield every problem of a stream's source, and of its columns' places in the source's records."""
    for check in (_keys, _formats, _positions, _file_names, _paths):
        yield from check(stream)
    yield from store_problems(stream)
    if stream.source.kind == "kafka":
        yield from kafka_problems(stream)
    if stream.source.kind in ("mqtt", "host") and not is_url(stream.source.path):
        yield from landed_problems(stream)


def _keys(stream: Stream) -> Iterator[Problem]:
    source, kind = stream.source, KINDS[stream.source.kind]
    for name in kind.needed:
        if not getattr(source, name):
            yield Problem(f"source.{name}", "nothing", _SUCH_AS.get(name, "a value"))
    for key in sorted(source.model_fields_set - {*kind.needed, *kind.own}):
        kinds = " or ".join(
            f'"{name}"' for name, other in KINDS.items() if key in (*other.needed, *other.own)
        )
        if kinds:
            yield Problem(f"source.{key}", f"kind {source.kind!r}", f"kind {kinds}, to which it belongs")
    if source.format not in kind.formats:
        formats = ", ".join(map(repr, kind.formats))
        yield Problem("source.format", f"{source.format!r} with kind {source.kind!r}", f"one of {formats}")


def _formats(stream: Stream) -> Iterator[Problem]:
    source, found = stream.source, f"format {stream.source.format!r}"
    if source.explode and source.format not in ("ndjson", "avro"):
        yield Problem("source.explode", found, 'format "ndjson" or "avro"; others hold no lists')
    if source.unpivot:
        yield from _unpivot(stream)
    if source.header != "names" and source.format != "csv":
        yield Problem("source.header", found, 'format "csv"; others name their own fields')
    for name in _SHAPED if source.shape else ():
        if name not in stream.all_columns:
            found = f"{source.shape!r} without the column {name!r}"
            yield Problem("source.shape", found, 'it, as preset = "flow" has')


def _unpivot(stream: Stream) -> Iterator[Problem]:
    """Wide records: which fields of a line are rows is known from a header's names."""
    source, unpivot = stream.source, stream.source.unpivot
    if unpivot is None:
        return
    if source.format != "csv" or source.header != "names" or source.kind != "files":
        found = f"format {source.format!r} with kind {source.kind!r} and header {source.header!r}"
        yield Problem("source.unpivot", found, 'format "csv" in files with header "names"')
    if unpivot.name == unpivot.value:
        yield Problem(
            "source.unpivot.value", repr(unpivot.value), "another name than that of the field's name"
        )
    paths = {column.path or name for name, column in stream.all_columns.items()}
    for key in ("name", "value"):
        if getattr(unpivot, key) not in paths:
            path = getattr(unpivot, key)
            yield Problem(
                f"source.unpivot.{key}", f"no column that reads {path!r}", "one, by its name or path"
            )


def _positions(stream: Stream) -> Iterator[Problem]:
    source = stream.source
    if source.format == "csv" and source.header != "names":
        named = [n for n, c in stream.all_columns.items() if c.position is None and c.file is None]
        times = [t.column for t in (stream.event_time, stream.arrival_time) if t]
        for name in dict.fromkeys(named + [t for t in times if t not in stream.all_columns]):
            yield Problem(
                f"columns.{name}",
                f"no position, with header = {source.header!r}",
                f"a position: {name} = {{ position = 0 }}",
            )
    elif source.format != "csv":
        for name, column in stream.columns.items():
            if column.position is not None:
                key, found = f"columns.{name}.position", f"format {source.format!r}"
                yield Problem(key, found, "path; only csv has positions")


def _file_names(stream: Stream) -> Iterator[Problem]:
    """Columns from the path of the file, which messages of a topic do not have and no record's bytes hold."""
    for name in (name for name, column in stream.columns.items() if column.file is not None):
        if stream.source.kind == "kafka":
            yield Problem(
                f"columns.{name}.file", 'kind "kafka"', "path, such as $topic: messages are in no file"
            )
        if stream.identity_is_record:
            expected = f"names of columns, {name!r} among them where it tells records apart"
            yield Problem("identity", f'["*"] beside {name!r}, which is not in the record', expected)


def _paths(stream: Stream) -> Iterator[Problem]:
    paths = {f"columns.{name}.path": column.path or "" for name, column in stream.columns.items()}
    times = {"event_time": stream.event_time, "arrival_time": stream.arrival_time}
    paths |= {f"{key}.column": time.column for key, time in times.items() if time}
    for key, path in paths.items():
        expected = _beside_the_record(stream.source, path)
        if expected:
            yield Problem(key, repr(path), expected)


def _beside_the_record(source: Source, path: str) -> str | None:
    """What is expected of a path that would lead out of the record, None where it is right or stays inside."""
    if not path.startswith("$") or is_message_field(path, source.kind):
        return None
    if source.kind in MESSAGE_FIELDS:
        fields = MESSAGE_FIELDS[source.kind]
        close = get_close_matches(path, fields, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return f"one of {', '.join(fields)}, {_FAMILIES[source.kind]}{hint}"
    owners = [f'"{kind}"' for kind in MESSAGE_FIELDS if is_message_field(path, kind)]
    if owners:
        return f"a field of the record; only messages of kind {' or '.join(owners)} have this one beside it"
    return None
