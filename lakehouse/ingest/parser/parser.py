"""Bytes to typed rows and verdicts: the one way in which records of every source are read.

    lines -> texts      plain lines in Arrow (plain_lines), all others one by one (record_texts)
    texts -> values     texts of a usual form in Arrow (plain_values), all others one by one (row_values)

Both halves of a step mean the same; docs/sources.md says what. The verdict on a record is a function of the record, the
configuration and the time of its listing; of a local time that comes twice also of the order of its file. It does not
depend on what came before, on the clock or on how files were cut into batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import sql_type
from lakehouse.config.formats import SPELT
from lakehouse.config.landing import located
from lakehouse.config.stream import Stream
from lakehouse.ingest.forms.line_objects import as_objects
from lakehouse.ingest.parser.avro import Schemas, schemas_of
from lakehouse.ingest.parser.field_map import ARRIVAL, EVENT, FieldMap
from lakehouse.ingest.parser.json_record import json_object
from lakehouse.ingest.parser.message_texts import MESSAGE, message_texts
from lakehouse.ingest.parser.own_records import are_own
from lakehouse.ingest.parser.plain_lines import CutRows, Places, cut_plain, joined_rows, text_array
from lakehouse.ingest.parser.plain_values import Mask, arrow_type, typed
from lakehouse.ingest.parser.record_texts import RecordTexts
from lakehouse.ingest.parser.row_values import RowValues
from lakehouse.ingest.parser.shown_offsets import ITEM, LINE, TEXT, ShownOffsets, with_offsets
from lakehouse.ingest.parser.spelt_times import read_times
from lakehouse.ingest.parser.usual_texts import usual_texts
from lakehouse.ingest.parser.verdicts import FILTERED, Rejected
from lakehouse.ingest.sources.manifest import Columns, LandedFile, Layout, constants_of, layouts_of

ORIGIN = ("source_file", "source_line", "source_item")
_NOT_UTF8 = "bad_utf8: the record is not UTF-8"
# The beginning of a message whose texts have no other escapes than of quotes.
_TEXT = r'"(?:[^"\\]|\\")*"'
_CONTENT = rf'^(?P<content>\{{"topic": {_TEXT}, "payload(?:_base64)?": {_TEXT}), "received": [0-9]+, "qos": '
_Verdicts = list[tuple[int, int, str]]
# Some rows, and the line and item of each.
_Part = tuple[pa.Table, Places, Places]


@dataclass(frozen=True)
class Parser:
    """Parser of a stream's records; tasks get it whole, as what it needs may be on the driver only.

    ``keeps_records``: accepted rows have the bytes of their record, too, as conflicts among them are quarantined.
    ``constants``: by file, what its head says of every record.
    """

    stream: Stream
    layouts: tuple[Layout, ...]
    schemas: Schemas
    keeps_records: bool = False
    constants: Mapping[str, Columns] = field(default_factory=dict)

    @staticmethod
    def of(stream: Stream, layouts: Sequence[Layout], keeps_records: bool = False) -> Parser:
        """Return the parser of a stream's lines, which are under some headers."""
        return Parser(stream, tuple(layouts), schemas_of(stream.source), keeps_records)

    @staticmethod
    def of_files(stream: Stream, files: Sequence[LandedFile]) -> Parser:
        """Return the parser of the lines of some files."""
        return replace(Parser.of(stream, layouts_of(files)), constants=constants_of(files))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of rows: values, origin, and of those that are rejected the reason and the record."""
        digest = {"record_hash": pa.binary()} if self.stream.identity_is_record else {}
        origin = {"source_file": pa.string(), "source_line": pa.int64(), "source_item": pa.int32()}
        verdict = {"reason": pa.string(), "detail": pa.string(), "record": pa.binary(), "message": MESSAGE}
        return pa.schema(
            {**dict(zip(self._values.names, self._values.types, strict=True)), **origin, **digest, **verdict}
        )

    def parse(self, lines: pa.Table | pa.RecordBatch, shown: ShownOffsets | None = None) -> pa.Table:
        """Return the rows of lines, in order of lines and items; ``reason`` is null for those to be accepted.

        Lines are as ``numbered.LINE_SCHEMA`` has them. They may have a ``message``, the time when each was listed
        (``listed_us``), and which of its ``items`` are wanted. NaN and infinities become null: they count as missing.
        ``shown``: offsets that local times of some rows lack.
        """
        columns = _columns(lines)
        cut, verdicts = self._cut(columns)
        texts, is_valid = self._texts(cut, columns)
        cut, texts, is_valid, others = self._own(cut, texts, is_valid)
        if shown is not None:
            offsets = shown.of(columns["source_line"].take(pa.array(cut.places)), cut.items)
            texts |= {name: with_offsets(texts[name], offsets) for name in self._of_time}
        listed = columns["listed_us"].take(pa.array(cut.places)) if "listed_us" in columns else None
        values, is_good = typed(texts, len(cut.places), self.stream, listed)
        is_good &= is_valid
        typed_rows = values if is_good.all() else values.filter(pa.array(is_good))
        result = [(typed_rows, cut.places[is_good], cut.items[is_good])]
        result.append(self._one_by_one(cut, texts, ~is_good, is_valid, listed))
        result += [self._rejected(verdicts), *others]
        return self._beside_origin(result, columns, shown)

    def times(self, lines: pa.Table) -> pa.Table:
        """Return what shows passes: lines and items, texts of times, and what the rows of a source have in common."""
        columns = _columns(lines)
        cut, _ = self._cut(columns)
        texts, _ = self._texts(cut, columns)
        known = {LINE: columns["source_line"].take(pa.array(cut.places)), ITEM: cut.items, TEXT: texts[EVENT]}
        other = (*self._of_time, *self.stream.measures, "*")
        apart = [name for name in (*self.stream.keys, *self.stream.identity) if name not in other]
        return pa.table(known | {f"of_{name}": texts[name] for name in apart})

    @cached_property
    def is_local(self) -> bool:
        """True if event times without an offset are read by the clocks of a zone that may change them."""
        return self.stream.event_time.is_local and self.stream.event_time.timezone != "UTC"

    @cached_property
    def _of_time(self) -> list[str]:
        """The event time, and the texts that are read from the same field."""
        fields, time, arrival = self._fields.fields, self.stream.event_time, self.stream.arrival_time
        names = [EVENT, *(name for name, one in self.stream.all_columns.items() if one.type == "string")]
        if arrival and (arrival.unit, arrival.timezone) == (time.unit, time.timezone):
            names.append(ARRIVAL)
        event = fields[EVENT]
        return [
            name
            for name in names
            if (self._fields.path(name), fields[name].position, fields[name].file)
            == (self._fields.path(EVENT), event.position, event.file)
        ]

    @cached_property
    def _values(self) -> pa.Schema:
        columns = {name: arrow_type(sql_type(column)) for name, column in self.stream.all_columns.items()}
        return pa.schema({"event_us": pa.int64(), "arrival_us": pa.int64(), **columns})

    @cached_property
    def _fields(self) -> FieldMap:
        return FieldMap.of(self.stream)

    def _cut(self, lines: Mapping[str, pa.Array]) -> tuple[CutRows, _Verdicts]:
        """Return the texts of rows, and the verdicts on lines, or their items, that have none."""
        form = self.stream.source.format
        lines = as_objects(lines, form) if form in SPELT else lines
        result, is_cut = cut_plain(lines, self.layouts, self.stream)
        others = np.flatnonzero(~is_cut)
        reader, verdicts = RecordTexts(self.stream, self.layouts, self.schemas), _Verdicts()
        at, texts = list[tuple[int, int]](), list[Mapping[str, str | None]]()
        wanted = pa.table({name: lines[name] for name in ("source_file", "layout", "record", "fault")})
        for number, line in zip(others.tolist(), wanted.take(pa.array(others)).to_pylist(), strict=True):
            for item, row in enumerate(reader.rows(line)):
                if isinstance(row, Rejected):
                    verdicts.append((number, item, str(row)))
                else:
                    at.append((number, item))
                    texts.append(row)
        names = self._names_cut
        places, items = np.array(at, np.int64).reshape(-1, 2).T
        one_by_one = CutRows(places, items, {n: text_array([row[n] for row in texts]) for n in names})
        return joined_rows([result, one_by_one], names), verdicts

    @cached_property
    def _names_cut(self) -> list[str]:
        """The fields that are found in a line itself."""
        beside = {
            *self._fields.of_files,
            *self._fields.of_heads,
            *(self._fields.of_messages if self.stream.source.kind == "kafka" else ()),
        }
        return [name for name in self._fields.fields if name not in beside]

    def _texts(self, cut: CutRows, lines: Mapping[str, pa.Array]) -> tuple[dict[str, pa.Array], Mask]:
        """Return the texts of all wanted fields of rows, and of which rows they are UTF-8."""
        texts, is_valid = dict(cut.texts), np.ones(len(cut.places), np.bool_)
        at = pa.array(cut.places)
        if self.stream.source.kind == "kafka" and self._fields.of_messages:
            beside, is_valid = message_texts(lines, self._fields.of_messages)
            texts |= {name: text.take(at) for name, text in beside.items()}
            is_valid = is_valid[cut.places]
        texts |= {name: text.take(at) for name, text in self._of_files(lines["source_file"]).items()}
        usual = usual_texts(texts, self.stream, self._fields)
        listed = lines["listed_us"].take(at) if "listed_us" in lines else None
        return read_times(usual, self.stream, listed), is_valid

    def _of_files(self, files: pa.Array) -> dict[str, pa.Array]:
        """Return the texts that the path or the head of each line's file tells."""
        if not (self._fields.of_files or self._fields.of_heads):
            return {}
        of = files.dictionary_encode()
        names = of.dictionary.to_pylist()
        paths = [located(self.stream.source.path, name) for name in names]
        found = {
            name: [self._fields.fields[name].from_file(path) for path in paths]
            for name in self._fields.of_files
        }
        for name, constant in self._fields.of_heads.items():
            found[name] = [self.constants.get(file, {}).get(constant) for file in names]
        return {name: text_array(texts).take(of.indices) for name, texts in found.items()}

    def _own(
        self, cut: CutRows, texts: dict[str, pa.Array], is_valid: Mask
    ) -> tuple[CutRows, dict[str, pa.Array], Mask, list[_Part]]:
        """Return the rows that the stream is about, and apart from them the others."""
        where = self.stream.source.where
        is_own = are_own(texts, where) if where else np.True_
        if np.all(is_own):
            return cut, texts, is_valid, []
        others = pa.table({"reason": pa.repeat(FILTERED, len(cut.places) - np.count_nonzero(is_own))})
        own = CutRows(cut.places[is_own], cut.items[is_own], {})
        texts = {name: text.filter(pa.array(is_own)) for name, text in texts.items()}
        return own, texts, is_valid[is_own], [(others, cut.places[~is_own], cut.items[~is_own])]

    def _one_by_one(
        self,
        cut: CutRows,
        texts: Mapping[str, pa.Array],
        is_open: Mask,
        is_valid: Mask,
        listed: pa.Array | None,
    ) -> _Part:
        """Return the values of rows that Arrow has not typed, or the reasons for which they are rejected."""
        places, values = np.flatnonzero(is_open), RowValues(self.stream)
        rows = pa.table(dict(texts)).take(pa.array(places)).to_pylist()
        times = (
            [self.stream.listed_us] * len(rows)
            if listed is None
            else listed.take(pa.array(places)).to_pylist()
        )
        result = list[dict[str, Any]]()
        for row, listed_us, is_utf8 in zip(rows, times, is_valid[places].tolist(), strict=True):
            try:
                if not is_utf8:
                    raise Rejected(_NOT_UTF8)
                result.append(values.of(row, listed_us))
            except Rejected as verdict:
                result.append({**_reason(str(verdict)), **verdict.values})
        return self._table(result), cut.places[is_open], cut.items[is_open]

    def _rejected(self, verdicts: _Verdicts) -> _Part:
        places, items = np.array([each[:2] for each in verdicts], np.int64).reshape(-1, 2).T
        return self._table([_reason(verdict) for *_, verdict in verdicts]), places, items

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        judged = [pa.field("reason", pa.string()), pa.field("detail", pa.string())]
        return pa.Table.from_pylist(rows, pa.schema([*self._values, *judged]))

    def _beside_origin(
        self,
        parts: list[_Part],
        lines: Mapping[str, pa.Array],
        shown: ShownOffsets | None,
    ) -> pa.Table:
        """Return rows in order, beside what they come from."""
        values = pa.concat_tables([table for table, *_ in parts], promote_options="default")
        places, items = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
        if "items" in lines:
            wanted = [set(each) for each in lines["items"].to_pylist()]
            pairs = zip(places.tolist(), items.tolist(), strict=True)
            is_wanted = np.array([item in wanted[place] for place, item in pairs], np.bool_)
            values, places, items = values.filter(pa.array(is_wanted)), places[is_wanted], items[is_wanted]
        if np.any(np.diff(places * (1 + items.max(initial=0)) + items) < 0):
            order = np.lexsort((items, places))
            values, places, items = values.take(pa.array(order)), places[order], items[order]
        at, is_bad = pa.array(places), values["reason"].is_valid().to_numpy()
        is_shown = pc.fill_null(pc.not_equal(values["reason"], FILTERED), False).to_numpy()
        kept = pa.array(places, mask=~(is_shown | self.keeps_records))
        result = {name: values[name] for name in values.column_names}
        result |= {name: lines[name].take(at) for name in ORIGIN[:2]}
        result |= {name: lines[name].take(kept) for name in ("record", "message")}
        result["source_item"] = pa.array(items.astype(np.int32))
        if self.stream.identity_is_record:
            offsets = None if shown is None else shown.of(result["source_line"], items).to_pylist()
            result["record_hash"] = self._hashes(lines["record"], places, items, is_bad, offsets)
        return pa.table({name: result[name] for name in self.schema.names}).cast(self.schema)

    def _hashes(
        self,
        records: pa.Array,
        places: Places,
        items: Places,
        is_bad: Mask,
        offsets: Sequence[str | None] | None,
    ) -> pa.Array:
        """Return what makes each good row the same row: a hash of its record, and of which item of it it is.

        Of a message that the bridge landed, the record is its topic and payload; when it was received is no part.
        """
        has_items, is_wanted = self.stream.source.has_items, np.zeros(len(records), np.bool_)
        is_wanted[places[~is_bad]] = True
        records = pc.if_else(pa.array(is_wanted), records, pa.scalar(None, records.type))
        if self.stream.source.kind == "mqtt":
            records = _contents_of(records)
        digests = [
            None if record is None else blake2b(record, digest_size=16) for record in records.to_pylist()
        ]
        if not has_items and offsets is None:
            whole = pa.array([each and each.digest() for each in digests], pa.binary())
            return whole.take(pa.array(places, mask=is_bad))
        result = list[bytes | None]()
        for number, item, is_rejected, offset in zip(
            places.tolist(), items.tolist(), is_bad.tolist(), offsets or [None] * len(places), strict=True
        ):
            digest = None if is_rejected else digests[number]
            if digest is not None:
                digest = digest.copy()
                digest.update((offset or "").encode() + (b"\n%d" % item if has_items else b""))
            result.append(digest and digest.digest())
        return pa.array(result, pa.binary())


def _contents_of(messages: pa.BinaryArray) -> pa.Array:
    """Return topic and payload of messages, however they are spelled, as the bridge spells them."""
    usual = pc.struct_field(pc.extract_regex(messages, _CONTENT), "content")
    usual = pc.binary_join_element_wise(usual, pa.scalar(b"}", usual.type), pa.scalar(b"", usual.type))
    others = np.flatnonzero(usual.is_null().to_numpy(zero_copy_only=False))
    if not len(others):
        return usual
    texts = usual.to_pylist()
    for number, message in zip(others.tolist(), messages.take(pa.array(others)).to_pylist(), strict=True):
        texts[number] = None if message is None else _content_of(message)
    return pa.array(texts, pa.binary())


def _content_of(message: bytes) -> bytes:
    members = json_object(message.decode()) or {}
    content = {name: members[name] for name in ("topic", "payload", "payload_base64") if name in members}
    return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def _columns(lines: pa.Table | pa.RecordBatch) -> dict[str, pa.Array]:
    result = {}
    for name in lines.schema.names:
        column = lines.column(name)
        result[name] = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if "message" not in result:
        result["message"] = pa.nulls(lines.num_rows, MESSAGE)
    return result


def _reason(verdict: str) -> dict[str, str]:
    reason, _, detail = verdict.partition(":")
    return {"reason": reason, "detail": detail.strip(" ")}
