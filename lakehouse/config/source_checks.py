"""Keys, formats and paths by kind of source: every combination that means nothing is a problem.

Then what one key of a source cannot tell alone: landing places on an object store; topics, fields of CSV messages,
schemas and options of a Kafka source. ``landed_checks.py`` has those of what is landed first.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import urlsplit

from lakehouse.config.columns import HEADER, MESSAGE_FIELDS, TOPIC_LEVEL, is_message_field
from lakehouse.config.formats import DOCUMENTS, LINES, SPELT
from lakehouse.config.landed_checks import landed_problems
from lakehouse.config.problems import Problem
from lakehouse.config.store_address import SCHEMES, SUCH_AS, address_of, is_bucket, is_url
from lakehouse.config.stream import Source, Stream

_VARIABLE = re.compile(r"\$\{\w+\}")
# Options of Kafka's client that decide what is read, or how: these are not for the configuration.
_SET_BY_US = {
    "bootstrap.servers": "source.servers",
    "auto.offset.reset": "source.start",
    "isolation.level": "none: only committed messages are read",
    "enable.auto.commit": "none: manifests say what was read",
    "enable.partition.eof": "none: manifests say where to stop",
    "group.id": "none: no group is joined",
    "sasl.jaas.config": "sasl.username and sasl.password: options are those of librdkafka",
}
_ALONE = ("endpoint", "key_order", "full_listing")


@dataclass(frozen=True)
class Kind:
    """Kind of source: the keys that it needs, others of its own, its formats."""

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
        (
            "header",
            "constants",
            "comment",
            "skip",
            "encoding",
            "append",
            "members",
            "quoted_lines",
            "endpoint",
            "key_order",
            "full_listing",
            *_BATCHES,
        ),
        ("csv", "ndjson", "json", "xml", "zeek", "parquet", "pcap", "nfdump", *SPELT),
    ),
    "kafka": Kind(
        ("servers", "topics"),
        ("start", "batch_rows", "fields", "schema_file", "schema_files", "options"),
        ("csv", "ndjson", "avro", *SPELT),
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
    yield from _store_problems(stream)
    if stream.source.kind == "kafka":
        yield from _kafka_problems(stream)
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
    if source.explode and not (source.is_json or source.format == "avro"):
        yield Problem("source.explode", found, 'format "ndjson", "json" or "avro"; others hold no lists')
    if source.record_path and source.format not in DOCUMENTS:
        expected = 'format "json" or "xml", whose records may be deep in a document'
        yield Problem("source.record_path", found, expected)
    if source.format == "xml" and not source.record_path:
        yield Problem(
            "source.record_path", "nothing", 'the way to the records, such as "gpx.trk.trkseg.trkpt"'
        )
    if source.unpivot:
        yield from _unpivot(stream)
    if source.header != "names" and source.format != "csv":
        yield Problem("source.header", found, 'format "csv"; others name their own fields')
    for key in ("comment", "skip", "widths", "ragged", "constants"):
        if getattr(source, key) and source.format != "csv":
            yield Problem(f"source.{key}", found, 'format "csv"')
    if source.widths and {"separator", "ragged"} & source.model_fields_set:
        yield Problem("source.widths", "separator or ragged beside them", "widths alone: they cut each line")
    if source.encoding != "utf-8" and source.format not in ("csv", "ndjson", "json"):
        yield Problem("source.encoding", found, 'format "csv", "ndjson" or "json"; others say their own')
    if source.quoted_lines and (source.format != "csv" or source.append or not source.is_quoted):
        expected = 'format "csv" cut by a separator, whose files do not grow (append)'
        yield Problem("source.quoted_lines", found, expected)
    if source.append and (
        source.format not in ("csv", "ndjson", *LINES) or source.encoding == "utf-16" or is_url(source.path)
    ):
        found = f"{found}, encoding {source.encoding!r} and path {source.path!r}"
        expected = "plain text of csv, ndjson or another format of lines on this machine, but no UTF-16"
        yield Problem("source.append", found, expected)
    for name in _SHAPED if source.shape else ():
        if name not in stream.all_columns:
            found = f"{source.shape!r} without the column {name!r}"
            yield Problem("source.shape", found, 'it, as preset = "flow" has')


def _unpivot(stream: Stream) -> Iterator[Problem]:
    """Wide records: which fields of a line are rows is known from a header's names."""
    source, unpivot = stream.source, stream.source.unpivot
    if unpivot is None:
        return
    if source.format != "csv" or not source.has_names or source.kind != "files":
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
    if source.format == "csv" and not source.has_names:
        columns, known = stream.all_columns, source.constants
        named = [n for n, c in columns.items() if c.position is None and c.file is None]
        named = [name for name in named if (columns[name].path or name) not in known]
        times = [name for t in (stream.event_time, stream.arrival_time) if t for name in t.names]
        times = [name for name in times if name not in known]
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
    """Columns from the path or the head of the file, which topics do not have and no record's bytes hold."""
    for name, column in stream.all_columns.items():
        if column.file is None and (column.path or name) not in stream.source.constants:
            continue
        if stream.source.kind == "kafka" and column.file is not None:
            yield Problem(
                f"columns.{name}.file", 'kind "kafka"', "path, such as $topic: messages are in no file"
            )
        if stream.identity_is_record:
            expected = f"names of columns, {name!r} among them where it tells records apart"
            yield Problem("identity", f'["*"] beside {name!r}, which is not in the record', expected)


def _paths(stream: Stream) -> Iterator[Problem]:
    paths = {f"columns.{name}.path": column.path or "" for name, column in stream.columns.items()}
    times = {"event_time": stream.event_time, "arrival_time": stream.arrival_time}
    paths |= {
        f"{key}.{name}": name for key, time in times.items() if time for name in time.names if time.columns
    }
    paths |= {f"{key}.column": time.column for key, time in times.items() if time}
    for key, time in times.items():
        beside = (
            {"or": time.fallback, "timezone_column": time.timezone_column, "since": time.since}
            if time
            else {}
        )
        paths |= {f"{key}.{name}": path for name, path in beside.items() if path}
    for key, path in paths.items():
        expected = _beside_the_record(stream.source, path)
        if expected:
            yield Problem(key, repr(path), expected)


def _beside_the_record(source: Source, path: str) -> str | None:
    """Expectation of a path that would lead out of the record, None where it is right or stays inside."""
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


def _kafka_problems(stream: Stream) -> Iterator[Problem]:
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
    read = [("source.where", stream.source.where_fields)]
    for key, time in (("event_time", stream.event_time), ("arrival_time", stream.arrival_time)):
        read.append((f"{key}.column", list(time.names) if time else []))
    for key, names in read:
        for name in names:
            if name not in (*fields, *stream.all_columns) and not name.startswith("$"):
                yield Problem(key, repr(name), f"one of source.fields, {list(fields)}")


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


def _store_problems(stream: Stream) -> Iterator[Problem]:
    """Yield what is wrong with a landing place on an object store; nothing of a URL with a secret in it is told."""
    source = stream.source
    if not is_url(source.path):
        for key in sorted(source.model_fields_set & set(_ALONE)):
            yield Problem(f"source.{key}", f"path {source.path!r}", "a path on a store, to which it belongs")
        return
    place = address_of(source.path)
    such_as = f'one such as "{SUCH_AS.get(place.scheme, SUCH_AS["s3"])}/prefix/*.csv"'
    is_known = place.scheme in SCHEMES
    if "@" in place.bucket and not (place.scheme == "abfss" and is_bucket("abfss", place.bucket)):
        expected = f"{such_as}; credentials come from the environment, a profile or the machine's role"
        yield Problem("source.path", "a user name or password in it", expected)
    elif not is_known:
        yield Problem("source.path", repr(f"{place.scheme}://"), such_as)
    elif not is_bucket(place.scheme, place.bucket):
        expected = f"a bucket's name without a pattern: {such_as}"
        yield Problem("source.path", f"the bucket {place.bucket!r}", expected)
    elif source.kind != "files":
        expected = "a folder of this machine, into which it is landed first"
        yield Problem("source.path", f"a store with kind {source.kind!r}", expected)
    elif source.endpoint is not None and place.scheme != "s3":
        yield Problem(
            "source.endpoint", f"a path on {place.scheme}://", "a path on s3://, to which it belongs"
        )
    if "follow_links" in source.model_fields_set:
        yield Problem("source.follow_links", "a path on a store", "a folder: a store has no links")
    if "full_listing" in source.model_fields_set and source.key_order != "time":
        yield Problem("source.full_listing", "no key_order", 'key_order = "time", to which it belongs')
    yield from _endpoint(source)


def _endpoint(source: Source) -> Iterator[Problem]:
    if source.endpoint is None:
        return
    expected = '"https://HOST:PORT"'
    try:
        address = urlsplit(source.endpoint)
        is_right = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right or address.path.strip("/") or address.query or address.fragment:
        yield Problem("source.endpoint", "no such address", expected)
    elif address.username is not None:
        yield Problem("source.endpoint", "a user name or password in it", expected)
