"""A record -> the texts of its rows, one record at a time: whatever its bytes are, and each format's own rules."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import Any

from lakehouse.config.columns import TOPIC_LEVEL
from lakehouse.config.lines import WHITESPACE
from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.parser.avro import Schemas, read_avro
from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.json_record import JsonPaths, Texts, json_object, text_of
from lakehouse.ingest.parser.texts import BLANKS
from lakehouse.ingest.parser.verdicts import (
    MISQUOTED,
    NO_OBJECT,
    Rejected,
    expected_fields,
    missing_columns,
    no_items,
)
from lakehouse.ingest.sources.manifest import Layout

# Formats whose records are cut at each tab, without quotes.
BY_TAB = ("zeek", "pcap")
_NO_MESSAGE = "malformed: expected a message as the bridge writes it"


@dataclass(frozen=True)
class RecordTexts:
    """Texts of a stream's records; ``schemas``: of Avro, by number."""

    stream: Stream
    layouts: tuple[Layout, ...]
    schemas: Schemas

    def rows(self, line: Mapping[str, Any]) -> list[Texts | Rejected]:
        """Return the texts of each row of a line, without those that stand beside the record, or why it is none."""
        try:
            if line["fault"] is not None:
                raise Rejected(line["fault"])
            return self._rows(line)
        except Rejected as verdict:
            return [verdict]

    def _rows(self, line: Mapping[str, Any]) -> list[Texts | Rejected]:
        source, record = self._source, line["record"]
        if source.format == "avro":
            return self._json(read_avro(record, self.schemas, bool(source.schema_files)))
        try:
            text = record.decode()
        except UnicodeDecodeError:
            raise Rejected("bad_utf8: the record is not UTF-8") from None
        if source.kind == "mqtt":
            return self._enveloped(text)
        if source.is_json or source.format == "parquet" or (source.format == "zeek" and text.startswith("{")):
            return self._json(text)
        return self._delimited(text, line)

    def _json(self, text: str) -> list[Texts | Rejected]:
        record = json_object(text)
        if record is None:
            raise Rejected(NO_OBJECT)
        return self.paths.rows(record)

    def _enveloped(self, text: str) -> list[Texts | Rejected]:
        """Return the rows of the payload of a message that the bridge landed, with what the message tells beside it."""
        message = json_object(text)
        if message is None or message.get("topic") is None:
            raise Rejected(_NO_MESSAGE)
        beside = {name: _beside(message, path) for name, path in self._fields.of_messages.items()}
        # A payload that nothing is read inside of may be anything.
        if self.paths.is_empty:
            return [beside]
        payload = json_object(text_of(message.get("payload")) or "")
        if payload is None:
            raise Rejected(f"{NO_OBJECT} as the payload")
        return [row if isinstance(row, Rejected) else row | beside for row in self.paths.rows(payload)]

    def _delimited(self, text: str, line: Mapping[str, Any]) -> list[Texts | Rejected]:
        source, number = self._source, line["layout"]
        layout = self.layouts[number] if number is not None and number >= 0 else None
        places = self._places(layout)
        cut = _cut_of(text, source)
        if source.ragged and cut is not None:
            cut = _of_length(cut, len(layout or ()))
        if cut is None or len(cut) != len(layout or ()):
            count = MISQUOTED if cut is None else str(len(cut))
            raise Rejected(expected_fields(layout, source, line["source_file"], count))
        texts = {name: None if position is None else cut[position] for name, position in places.items()}
        return [texts] if self._fields.unpivot is None else self._items(texts, cut, layout or ())

    def _items(self, texts: Texts, cut: list[str], layout: tuple[str, ...]) -> list[Texts | Rejected]:
        """Return a row for each of a wide record's fields that is one."""
        channels = self._fields.channels(layout)
        if not channels:
            raise Rejected(no_items(self._fields.unpivot))
        pairs = ({"name": layout[n], "value": cut[n]} for n in channels)
        return [texts | {name: pair[each] for name, each in self._fields.of_items.items()} for pair in pairs]

    def _places(self, layout: Layout) -> dict[str, int | None]:
        """Return the place of each wanted field among those of a header.

        Raises Rejected when a field is not there and not optional, or no field is.
        """
        wanted = self._fields.of_records
        places = wanted.places(layout)
        absent = [wanted.path(n) for n, p in places.items() if p is None and not wanted.fields[n].optional]
        if not layout or absent:
            raise Rejected(missing_columns(absent, layout))
        return places

    @property
    def _source(self) -> Source:
        return self.stream.source

    @cached_property
    def _fields(self) -> FieldMap:
        return FieldMap.of(self.stream)

    @cached_property
    def paths(self) -> JsonPaths:
        """The paths that are read of a record of JSON."""
        is_flat = self._source.format == "zeek"
        return JsonPaths.of(self._fields.of_records, self._source.explode, is_flat)


def _beside(message: Mapping[str, Any], path: str) -> str | None:
    """Return the text that a path such as ``$topic.1`` leads to in a message around its payload."""
    if path == "$payload" and message.get("payload") is None:
        path = "$payload_base64"
    if not path.startswith(TOPIC_LEVEL):
        return text_of(message.get(path.removeprefix("$")))
    levels, position = (text_of(message["topic"]) or "").split("/"), int(path.removeprefix(TOPIC_LEVEL))
    return levels[position] if position < len(levels) else None


def _cut_of(text: str, source: Source) -> list[str] | None:
    if source.format in BY_TAB:
        return text.split("\t")
    return cut_plainly(text, source) or _cut(text, source.separator, source.quote)


def cut_plainly(text: str, source: Source) -> list[str] | None:
    """Return the fields of a line that are cut by blanks or widths, None where a separator cuts them.

    A short line lacks texts at its end, where blanks are often dropped; what is over is a field of its own.
    """
    if source.separator == WHITESPACE:
        return text.strip(BLANKS).replace("\t", " ").split() or [""]
    if not source.widths:
        return None
    ends = list(accumulate(source.widths))
    fields = [text[end - width : end] for end, width in zip(ends, source.widths, strict=True)]
    return [*fields, text[ends[-1] :]] if text[ends[-1] :].strip(BLANKS) else fields


def _of_length(cut: list[str], count: int) -> list[str]:
    """Return so many fields of a line, where what lacks or is over is empty."""
    while len(cut) > count and not cut[-1].strip(BLANKS):
        cut = cut[:-1]
    return cut + [""] * (count - len(cut))


def _cut(text: str, separator: str, quote: str) -> list[str] | None:
    """Return the fields of a delimited line, None where quotes do not end, or not with their field."""
    if quote not in text:
        return text.split(separator)
    fields, end = list[str](), -1
    field = _field(separator, quote)
    while end < len(text):
        result = field.match(text, end + 1)
        if result is None:
            return None
        quoted = result["quoted"]
        fields.append(result["bare"] if quoted is None else quoted.replace(quote * 2, quote))
        end = result.end()
    return fields


@cache
def _field(separator: str, quote: str) -> re.Pattern[str]:
    """Return what takes a field, with quotes around it or not beginning with one, up to the separator or the end."""
    sign, other, blanks = re.escape(quote), re.escape(separator), f"[{BLANKS.replace(separator, '')}]*+"
    quoted = rf"{sign}(?P<quoted>(?:[^{sign}]|{sign}{sign})*+){sign}"
    bare = rf"(?P<bare>(?!{blanks}{sign})[^{other}]*+)"
    return re.compile(rf"(?:{blanks}{quoted}{blanks}|{bare})(?={other}|\Z)", re.DOTALL)
