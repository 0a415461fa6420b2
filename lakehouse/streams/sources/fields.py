"""A line -> named texts, per format: the same struct of strings whatever the file looked like.

The struct holds one string per wanted field (``FieldMap``), and two more: ``_malformed`` (why the record cannot be
cut into fields, or null) and ``_item`` (its place in an exploded list).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import StructType

from lakehouse.declare.columns import Column as StreamColumn
from lakehouse.declare.columns import is_message_field, sql_type
from lakehouse.declare.landing import landing_folder
from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Stream, Unpivot
from lakehouse.spark.ddl import schema_of
from lakehouse.streams.sources.avro import with_avro_text
from lakehouse.streams.sources.json_members import (
    at,
    beside_paths,
    parsed,
    repeated_in,
    repeated_member,
    schema_of_paths,
)
from lakehouse.streams.sources.manifest import Layout
from lakehouse.streams.sources.messages import (
    with_envelope_fields,
    with_message,
    with_message_fields,
    with_payload,
)
from lakehouse.streams.sources.protocols import IP_PROTOCOLS, WITH_PORTS
from lakehouse.streams.sources.verdicts import MISQUOTED, NO_OBJECT, expected_fields

EVENT, ARRIVAL, PLUS = "_event", "_arrival", "_plus"
# Formats whose records are cut at each tab, with no quotes.
_BY_TAB = ("zeek", "pcap")
# Spark's own limit, less one for safety.
_MOST_FIELDS = 20_479
_KEPT = ("source_file", "source_line", "record", "fault", "message", "typed")
_CLOCK = r"^(?:(\d+)d )?(\d+):(\d\d):(\d\d(?:\.\d+)?)$"


@dataclass(frozen=True)
class FieldMap:
    """Which text of a record each wanted field is: stored columns, then the times under names of their own."""

    fields: dict[str, StreamColumn]
    kind: str
    unpivot: Unpivot | None = None

    @staticmethod
    def of(stream: Stream) -> FieldMap:
        """Return the wanted fields of a stream."""
        fields = {name: _located(name, column) for name, column in stream.all_columns.items()}
        arrival = stream.arrival_time
        times: dict[str, str | None] = {EVENT: stream.event_time.column}
        times |= {ARRIVAL: arrival.column, PLUS: arrival.plus} if arrival else {}
        for name, field in times.items():
            if field:
                fields[name] = fields.get(field, StreamColumn(path=field))
        return FieldMap(fields, stream.source.kind, stream.source.unpivot)

    @property
    def of_messages(self) -> dict[str, str]:
        """Fields that stand beside the record in a message, with their paths."""
        paths = {name: self.path(name) for name in self.fields}
        return {name: path for name, path in paths.items() if is_message_field(path, self.kind)}

    @property
    def of_files(self) -> dict[str, str]:
        """Fields that the file's path tells, with their regular expressions."""
        return {name: column.file for name, column in self.fields.items() if column.file is not None}

    @property
    def of_records(self) -> FieldMap:
        """Fields that stand in the record itself."""
        beside = {**self.of_messages, **self.of_files, **self.of_items}
        return FieldMap({n: c for n, c in self.fields.items() if n not in beside}, self.kind, self.unpivot)

    @property
    def of_items(self) -> dict[str, str]:
        """Fields that tell the name or the value of one of a wide record's fields: "name" or "value"."""
        if self.unpivot is None:
            return {}
        told = {self.unpivot.name: "name", self.unpivot.value: "value"}
        return {name: told[self.path(name)] for name in self.fields if self.path(name) in told}

    def channels(self, layout: Layout) -> list[int]:
        """Return the places of a header's fields that are rows of their own."""
        if self.unpivot is None:
            return []
        read = {self.path(name) for name in self.fields} - {self.unpivot.name, self.unpivot.value}
        pattern = re.compile(self.unpivot.columns)
        return [n for n, name in enumerate(layout or ()) if name not in read and pattern.search(name)]

    def path(self, name: str) -> str:
        """Return the source's own name of a field."""
        return self.fields[name].path or name


def _located(name: str, column: StreamColumn) -> StreamColumn:
    is_located = column.path or column.position is not None or column.file is not None
    return column if is_located else column.model_copy(update={"path": name})


def with_fields(lines: DataFrame, stream: Stream, layouts: tuple[Layout, ...]) -> DataFrame:
    """Cut each line into the stream's fields: adds ``f`` (struct of strings), ``source_item`` and ``malformed``.

    A line that is ``typed`` already has none.
    """
    wanted = FieldMap.of(stream)
    text = _with_text(_with_typed(with_message(lines), stream), stream)
    text = text.withColumn("valid", F.coalesce(F.expr("is_valid_utf8(text)"), F.lit(True)))
    is_cut = F.col("valid") & F.col("fault").isNull() & F.col("typed").isNull()
    text = text.withColumn("text", F.when(is_cut, F.col("text")))
    if stream.source.kind == "mqtt":
        text = with_payload(text)
    if stream.source.format in ("ndjson", "parquet", "avro"):
        cut = _from_json(text, stream, wanted.of_records)
    else:
        cut = _from_delimited(text, stream, wanted, layouts)
    add_fields = with_envelope_fields if stream.source.kind == "mqtt" else with_message_fields
    cut = _with_file_fields(
        add_fields(cut, wanted.of_messages), wanted.of_files, landing_folder(stream.source.path)
    )
    return cut.withColumn("f", _as_flow(F.col("f"))) if stream.source.shape == "flow" else cut


def _with_file_fields(cut: DataFrame, patterns: Mapping[str, str], folder: str) -> DataFrame:
    """Add to the fields ``f`` those that the file's path tells."""
    if not patterns:
        return cut
    file = F.col("source_file")
    is_whole = file.startswith("/") & F.lit(not is_remote(folder))
    path = F.when(is_whole, file).otherwise(F.concat(F.lit(folder), file))
    found = {name: F.trim(F.regexp_extract(path, pattern, 1)) for name, pattern in patterns.items()}
    texts = (F.when(text != "", text).alias(name) for name, text in found.items())
    return cut.withColumn("f", F.struct("f.*", *texts))


def _with_text(lines: DataFrame, stream: Stream) -> DataFrame:
    if stream.source.format == "avro":
        return with_avro_text(lines, stream.source)
    return lines.withColumn("text", F.col("record").cast("string"))


def _from_delimited(
    text: DataFrame, stream: Stream, every: FieldMap, layouts: tuple[Layout, ...]
) -> DataFrame:
    wanted = every.of_records
    # Parsed in a projection of its own: inside one expression Spark would parse the line once per field.
    rows = {f"row{n}": F.when(F.col("layout") == n, _cut(stream, layout)) for n, layout in enumerate(layouts)}
    cut = F.lit(None)
    for number, layout in enumerate(layouts):
        fields = _delimited(stream, wanted, layout, F.col(f"row{number}"))
        cut = fields if len(layouts) == 1 else F.when(F.col("layout") == number, fields).otherwise(cut)
    if not layouts:
        cut = _nothing(wanted, "")
    json = []
    if stream.source.format == "zeek":
        # Zeek writes either form; which one is told by the line itself, so that a requeued record needs no file.
        json = [F.startswith("text", F.lit("{")).alias("is_json"), _flat_json(wanted).alias("json")]
        cut = F.when(F.col("is_json"), _json_members(wanted)).otherwise(cut)
    named = (row.alias(name) for name, row in rows.items())
    parts = text.select(*_KEPT, "layout", "valid", "text", *named, *json)
    fields_cut = parts.select(*_KEPT, "valid", F.lit(0).alias("source_item"), cut.alias("f"))
    if every.unpivot is not None:
        return _unpivoted(fields_cut, every)
    return fields_cut.select("*", F.col("f._malformed").alias("malformed"))


def _unpivoted(cut: DataFrame, every: FieldMap) -> DataFrame:
    """Make a row of each item of ``f._items``, and one of a record that has none."""
    items = cut.select(*_KEPT, "valid", "f", F.posexplode_outer("f._items").alias("place", "item"))
    texts = [F.col(f"f.{name}").alias(name) for name in every.of_records.fields]
    texts += [F.col(f"item.{told}").alias(name) for name, told in every.of_items.items()]
    lacking = F.when(F.col("place").isNull(), F.lit(no_items(every)))
    return items.select(
        *_KEPT,
        "valid",
        F.coalesce("place", F.lit(0)).alias("source_item"),
        F.struct(*texts).alias("f"),
        F.coalesce("f._malformed", lacking).alias("malformed"),
    )


def no_items(wanted: FieldMap) -> str:
    """Return the verdict on a wide record none of whose fields is a row."""
    pattern = wanted.unpivot.columns if wanted.unpivot else ""
    return f"no_items: no field of the header matches {pattern}"


def _flat_json(wanted: FieldMap) -> Column:
    """A JSON object without nesting, whose members may have dots in their names."""
    members = dict.fromkeys(wanted.path(name) for name in wanted.fields)
    schema = T.StructType([T.StructField(member, T.StringType()) for member in members])
    return F.when(F.startswith("text", F.lit("{")), parsed(F.col("text"), schema))


def _json_members(wanted: FieldMap) -> Column:
    texts = [F.trim(F.col("json")[wanted.path(name)]).alias(name) for name in wanted.fields]
    malformed = F.when(F.col("json").isNull(), F.lit(NO_OBJECT))
    # Names may have dots here, and lead nowhere.
    names: dict[tuple[str, ...], list[str]] = {(): [*dict.fromkeys(map(wanted.path, wanted.fields))]}
    repeats = repeated_member(F.col("text"), names)
    return F.struct(*texts, F.coalesce(malformed, repeats).alias("_malformed"))


def _cut(stream: Stream, layout: Layout) -> Column:
    source = stream.source
    if source.format in _BY_TAB:
        return F.split("text", "\t", -1)
    schema = ", ".join(f"_c{place} string" for place in range(len(layout or ()))) + ", _all string"
    options = {
        "sep": source.separator,
        "quote": source.quote,
        "escape": source.quote,
        "ignoreLeadingWhiteSpace": "true",
        "ignoreTrailingWhiteSpace": "true",
        "columnNameOfCorruptRecord": "_all",
    }
    return F.from_csv(_narrow(source.separator, len(layout or ())), schema.removeprefix(", "), options)


def _narrow(separator: str, fields: int) -> Column:
    """The line, or one of too many fields in place of one that has more than Spark can cut: it would end the batch."""
    without = F.octet_length(F.replace(F.col("text"), F.lit(separator), F.lit("")))
    size = F.octet_length("text")
    is_wide = (size > _MOST_FIELDS) & (size - without >= _MOST_FIELDS * len(separator.encode()))
    return F.when(is_wide, F.lit(separator * (fields + 1))).otherwise(F.col("text"))


def _file_name() -> Column:
    return F.substring_index("source_file", "/", -1)


def _count(separator: str, quote: str) -> Column:
    """How many fields a line has, if its quotes are around whole fields."""
    mark, sign = re.escape(quote), re.escape(separator)
    text = F.replace(F.col("text"), F.lit(quote * 2), F.lit(""))
    text = F.regexp_replace(text, rf"(^|{sign})[ \t]*{mark}[^{mark}]*{mark}", "$1")
    return F.char_length(text) - F.char_length(F.replace(text, F.lit(separator), F.lit(""))) + 1


def _delimited(stream: Stream, wanted: FieldMap, layout: Layout, row: Column) -> Column:
    """Fields of one header's lines: by position, or by the header's names."""
    if not layout:
        return _nothing(wanted, "missing_column: the file names no fields")
    places = {name: _place(column, name, layout) for name, column in wanted.fields.items()}
    absent = [
        wanted.path(name)
        for name, place in places.items()
        if place is None and not wanted.fields[name].optional
    ]
    if absent:
        return _nothing(
            wanted, f"missing_column: {', '.join(map(repr, absent))} not among {', '.join(layout)[:500]}"
        )
    first, *behind = map(F.lit, expected_fields(layout, stream.source))
    expected = F.concat(first, *(part for each in behind for part in (_file_name(), each)))
    nothing = F.lit(None).cast("string")
    if stream.source.format in _BY_TAB:
        texts = {n: nothing if place is None else F.get(row, F.lit(place)) for n, place in places.items()}
        fault = F.when(F.size(row) != len(layout), F.concat(expected, F.size(row).cast("string")))
    else:
        texts = {n: nothing if place is None else row[f"_c{place}"] for n, place in places.items()}
        number = _count(stream.source.separator, stream.source.quote)
        count = F.when(number == len(layout), F.lit(MISQUOTED)).otherwise(number.cast("string"))
        fault = F.when(row["_all"].isNotNull(), F.concat(expected, count))
    if stream.source.format == "nfdump":
        texts |= {n: _as_seconds(text) for n, text in texts.items() if wanted.path(n) == "duration"}
    items = [_items(wanted, layout, row, fault)] if wanted.unpivot else []
    trimmed = (F.trim(text).alias(name) for name, text in texts.items())
    return F.struct(*trimmed, fault.alias("_malformed"), *items)


def _items(wanted: FieldMap, layout: tuple[str, ...], row: Column, fault: Column) -> Column:
    places = wanted.channels(layout)
    each = [F.struct(F.lit(layout[n]).alias("name"), F.trim(row[f"_c{n}"]).alias("value")) for n in places]
    is_cut = row.isNotNull() & fault.isNull()
    return F.when(is_cut, F.array(*each) if each else _no_items()).alias("_items")


def _no_items() -> Column:
    return F.lit(None).cast("array<struct<name string, value string>>")


def _place(column: StreamColumn, name: str, layout: tuple[str, ...]) -> int | None:
    if column.position is not None:
        return column.position if column.position < len(layout) else None
    path = column.path or name
    return layout.index(path) if path in layout else None


def _nothing(wanted: FieldMap, why: str) -> Column:
    texts = [F.lit(None).cast("string").alias(name) for name in wanted.fields]
    items = [_no_items().alias("_items")] if wanted.unpivot else []
    return F.struct(*texts, F.lit(why).alias("_malformed"), *items)


def _from_json(text: DataFrame, stream: Stream, wanted: FieldMap) -> DataFrame:
    """Fields by dotted path. The record is parsed as the one element of a list: whatever follows it is then seen."""
    explode, is_payload = stream.source.explode, stream.source.kind == "mqtt"
    kept = [*_KEPT, "valid", *(["envelope"] if is_payload else [])]
    paths = [wanted.path(name) for name in wanted.fields]
    json = parsed(F.col("text"), schema_of_paths(paths, explode))
    # Rows of Parquet and Avro have each member once.
    is_text = stream.source.format == "ndjson" and paths
    repeats = repeated_in(F.col("text"), paths, explode) if is_text else F.lit(None).cast("string")
    read = text.select(*kept, "text", json.alias("json"), repeats.alias("repeated"))
    expected = NO_OBJECT + (" as the payload" if is_payload else "")
    # A payload that nothing is read inside of may be anything.
    is_opaque = is_payload and not wanted.fields and not explode
    malformed = F.when(F.col("json").isNull() & F.lit(not is_opaque), F.lit(expected))
    malformed = F.coalesce(malformed, F.col("repeated"))
    if explode:
        items = at(F.col("json"), explode.split("."))
        read = read.select("*", F.posexplode_outer(items).alias("place", "item"))
        no_items = F.when(F.col("place").isNull(), F.lit(f"no_items: no list, or an empty one, at {explode}"))
        malformed = F.coalesce(malformed, no_items)
    texts = [_json_text(wanted.path(name), explode).alias(name) for name in wanted.fields]
    place = F.coalesce("place", F.lit(0)) if explode else F.lit(0)
    faults = F.coalesce(malformed, beside_paths(F.col("text"), paths, explode))
    return read.select(
        *kept, place.alias("source_item"), F.struct(*texts).alias("f"), faults.alias("malformed")
    )


def _json_text(path: str, explode: str | None) -> Column:
    if explode and path.startswith(f"{explode}."):
        text = at(F.col("item"), path.removeprefix(f"{explode}.").split("."))
    else:
        text = at(F.col("json"), path.split("."))
    # A bare NaN or Infinity comes through with quotes around it.
    quoted = text.isin('"NaN"', '"Infinity"', '"-Infinity"')
    return F.trim(F.when(quoted, F.replace(text, F.lit('"'), F.lit(""))).otherwise(text))


def typed_type(stream: Stream) -> StructType:
    """Return the type of ``typed``."""
    columns = {name: sql_type(column) for name, column in stream.all_columns.items()}
    digest = {"record_hash": "binary"} if stream.identity_is_record else {}
    fields = {"event_us": "bigint", "arrival_us": "bigint", **columns, "source_item": "int", **digest}
    named = (f"`{name.replace('`', '``')}` {kind}" for name, kind in fields.items())
    return schema_of(", ".join(named))


def _with_typed(lines: DataFrame, stream: Stream) -> DataFrame:
    """Return lines that have ``typed``, null where none of them is known to be plain."""
    if "typed" in lines.columns:
        return lines
    return lines.withColumn("typed", F.lit(None).cast(typed_type(stream)))


def _as_flow(fields: Column) -> Column:
    """Return a struct of texts with ``proto`` as a lower-case name, and ports only where the protocol has them."""
    said = F.lower(fields["proto"])
    names = F.create_map(*(F.lit(text) for text in chain.from_iterable(_protocols())))
    proto = F.coalesce(names[said], said)
    for port in ("src_port", "dst_port"):
        fields = fields.withField(port, F.when(proto.isin(*WITH_PORTS), fields[port]))
    return fields.withField("proto", proto)


def _as_seconds(text: Column) -> Column:
    """Return seconds as text, of seconds or of ``[1d ]02:03:04.005`` as nfdump writes them for people."""
    days, hours, minutes, seconds = (F.regexp_extract(text, _CLOCK, group) for group in range(1, 5))
    whole = F.coalesce(days.try_cast("bigint"), F.lit(0)) * 86_400
    whole = whole + hours.try_cast("bigint") * 3_600 + minutes.try_cast("bigint") * 60
    return F.when(text.rlike(_CLOCK), (whole + seconds.try_cast("decimal(18,9)")).cast("string")).otherwise(
        text
    )


def _protocols() -> list[tuple[str, str]]:
    return [(str(number), name) for number, name in IP_PROTOCOLS.items()]
