"""Plain lines -> typed rows, in Arrow: what ``fields.py`` and ``rows.py`` make of them, without Spark.

A line is *plain* when nothing can be read in two ways: printable ASCII without escapes or nesting, quotes only around
whole fields that hold no separator, as many fields as the header names, numbers of a usual form and length, times
within bounds. Such a line is a good row; nothing is said of any other line (``odd_lines.py``), nor of any record of a
stream that ``can_be_plain`` rules out.

Tasks of Spark cut files into lines anyway, in Python: there a plain line is typed in Arrow for a fraction of what Spark
takes for it. Spark gets its row as ``typed``, beside no record to parse. Where rows are compared the record goes along
too, as a row that turns out to be a conflict is quarantined with it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.landing import located
from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.fields import ARRIVAL, EVENT, PLUS, FieldMap
from lakehouse.streams.sources.manifest import Layout
from lakehouse.streams.sources.plain_values import Mask, are_short, typed

Places = npt.NDArray[np.int64]
# Records of other shapes than a few that are found at the beginning of a block take Spark's way.
_SHAPES, _LOOKED_AT = 8, 50
# Arrow's usual texts of one array have 2 GB.
_LARGE = 2**30
_SEPARATORS = ",;|:"
_VALUE = r'"[^"]*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null'
_SPELLED = r'"[^"]*"|(?:0|-?[1-9][0-9]{0,17})|true|false|null'
_TIMES = (EVENT, ARRIVAL, PLUS)
_MEMBER = re.compile(rf' *"([^"]*)" *: *(?:{_VALUE}) *')


def can_be_plain(stream: Stream) -> bool:
    """Whether lines of the stream can be plain at all."""
    source = stream.source
    if source.kind in ("kafka", "mqtt") or source.shape or source.explode:
        return False
    if source.format == "csv":
        return source.separator in _SEPARATORS and source.quote in "\"'"
    if source.format == "parquet" and (source.nulls or stream.identity_is_record):
        return False
    wanted = FieldMap.of(stream)
    return source.format in ("ndjson", "parquet") and not any(
        "." in wanted.path(name) for name in wanted.fields
    )


@dataclass(frozen=True)
class PlainLines:
    """The plain lines of one block: their rows, and which of the block's lines they are."""

    rows: pa.Table
    is_plain: Mask


def read_plain(lines: pa.RecordBatch, layout: Layout, stream: Stream, path: str = "") -> PlainLines:
    """Return the rows of a block's plain lines; ``lines`` are as ``lines.numbered_lines`` yields them of a path."""
    every = FieldMap.of(stream)
    wanted, records = every.of_records, lines.column("record")
    is_csv = stream.source.format == "csv"
    # In JSON what a backslash means is not plain.
    is_clean = _is_printable(records, "" if is_csv else "\\")
    is_clean &= lines.column("fault").is_null().to_numpy(zero_copy_only=False)
    items: Places | None = None
    if is_csv:
        places, texts, items = _of_delimited(records, is_clean, layout, every, stream)
    else:
        places, texts = _of_json(records, is_clean, wanted)
    for name in every.of_files:
        texts[name] = pa.repeat(
            pa.scalar(every.fields[name].from_file(located(stream.source.path, path)), pa.string()),
            len(places),
        )
    rows, is_good = typed({name: _known(text, stream) for name, text in texts.items()}, len(places), stream)
    # Of a line that is several rows all must be good.
    is_good &= ~np.isin(places, places[~is_good])
    places = places[is_good]
    items = np.zeros(len(places), np.int32) if items is None else items[is_good].astype(np.int32)
    rows = rows.filter(pa.array(is_good))
    taken = lines.take(pa.array(places))
    rows = rows.append_column("source_line", taken.column("source_line"))
    rows = rows.append_column("source_item", pa.array(items))
    if stream.identity_is_record:
        said = zip(taken.column("record").to_pylist(), items.tolist(), strict=True)
        digests = [record_hash(record, item, stream) for record, item in said]
        rows = rows.append_column("record_hash", pa.array(digests, pa.binary()))
    is_plain = np.zeros(len(records), np.bool_)
    is_plain[places] = True
    return PlainLines(rows, is_plain)


def read_plain_rows(rows: pa.RecordBatch, numbers: pa.Array, stream: Stream, path: str = "") -> PlainLines:
    """Return the same of rows of a Parquet file: those whose values fit, and texts are such as are plain in JSON."""
    every, count = FieldMap.of(stream), rows.num_rows
    is_plain = np.full(count, are_short(rows))
    texts: dict[str, pa.Array] = {}
    for name, column in every.fields.items():
        if column.file is not None:
            texts[name] = pa.repeat(
                pa.scalar(column.from_file(located(stream.source.path, path)), pa.string()), count
            )
        elif every.path(name) in rows.schema.names:
            texts[name] = rows.column(every.path(name))
            if pa.types.is_large_string(texts[name].type) and texts[name].nbytes < _LARGE:
                texts[name] = texts[name].cast(pa.string())
            if pa.types.is_string(texts[name].type):
                is_plain &= _is_printable(texts[name].cast(pa.binary()), "\\") & _lack(texts[name], '"')
                texts[name] = pc.ascii_trim(texts[name], " ")
        else:
            texts[name] = pa.nulls(count, pa.string())
    found, is_good = typed(texts, count, stream)
    is_plain &= is_good
    found = found.filter(pa.array(is_plain))
    found = found.append_column("source_line", numbers.filter(pa.array(is_plain)))
    found = found.append_column("source_item", pa.array(np.zeros(found.num_rows, np.int32)))
    return PlainLines(found, is_plain)


def _lack(texts: pa.Array, part: str) -> Mask:
    has = pc.fill_null(pc.match_substring(texts, part), False)
    return np.asarray(~has.to_numpy(zero_copy_only=False))


def record_hash(record: bytes, item: int, stream: Stream) -> bytes:
    """Return the hash of a row that is identified by its record, as ``rows.py`` makes it."""
    return hashlib.md5(record + (b"\n%d" % item if stream.source.has_items else b"")).digest()


def _is_printable(records: pa.BinaryArray, without: str) -> Mask:
    """Return which records are printable ASCII and have no such character."""
    letters, ends = _letters(records)
    is_bad = (letters < 0x20) | (letters > 0x7E)
    if without:
        is_bad |= letters == ord(without)
    return _hold_none(np.flatnonzero(is_bad), ends)


def _letters(records: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Places]:
    """Return the bytes of all records, one behind the other, and where each begins, and the last ends."""
    records = records.cast(pa.large_binary())
    _, offsets, content = records.buffers()
    ends = np.frombuffer(offsets, np.int64)[records.offset : records.offset + len(records) + 1]
    return np.frombuffer(content or b"", np.uint8)[: ends[-1]], ends


def _hold_none(places: Places, ends: Places) -> Mask:
    """Return which records have none of some places."""
    before = np.searchsorted(places, ends)
    return np.asarray(before[1:] == before[:-1])


def _is_well_quoted(records: pa.BinaryArray, quote: str, separator: str) -> Mask:
    """Return which records have quotes only around whole fields, and in these something, but no separator."""
    letters, ends = _letters(records)
    at = np.flatnonzero(letters == ord(quote))
    at = at[at >= ends[0]]
    if not len(at):
        return np.ones(len(records), np.bool_)
    record = np.searchsorted(ends, at, "right") - 1
    first = np.searchsorted(at, ends)
    is_opening = (np.arange(len(at)) - first[record]) % 2 == 0
    begins = (at == ends[record]) | (letters[at - 1] == ord(separator))
    is_last = at + 1 == ends[record + 1]
    closes = is_last | (letters[np.minimum(at + 1, len(letters) - 1)] == ord(separator))
    fields_before = np.searchsorted(np.flatnonzero(letters == ord(separator)), at)
    is_one_field = np.diff(fields_before, prepend=-1) == 0
    closes &= is_one_field & (np.diff(at, prepend=-1) > 1)
    is_wrong = np.where(is_opening, ~begins, ~closes)
    is_even = np.diff(first) % 2 == 0
    return np.asarray(is_even & _hold_none(at[is_wrong], ends))


def _of_delimited(
    records: pa.BinaryArray, is_clean: Mask, layout: Layout, every: FieldMap, stream: Stream
) -> tuple[npt.NDArray[np.intp], dict[str, pa.Array], Places]:
    """Return the places of lines with the header's number of fields, the texts of wanted fields, and items' numbers.

    A line that is several rows is there as often.
    """
    names, wanted = layout or (), every.of_records
    at = {name: _place(wanted, name, names) for name in wanted.fields}
    # Where a line is one row, it has one item, which no field tells of.
    channels = np.array(every.channels(layout) if every.unpivot else [0], np.int64)
    is_absent = any(place is None and not wanted.fields[name].optional for name, place in at.items())
    if not names or is_absent or not len(channels):
        lacking = dict.fromkeys((*at, *every.of_items), pa.nulls(0, pa.string()))
        return np.empty(0, np.intp), lacking, np.empty(0, np.int64)
    separator, quote = stream.source.separator, stream.source.quote
    is_clean = is_clean & _is_well_quoted(records, quote, separator)
    text = pc.replace_substring(records.filter(pa.array(is_clean)).cast(pa.string()), quote, "")
    is_whole = pc.equal(pc.count_substring(text, separator), len(names) - 1)
    sign = re.escape(separator)
    has_edge = pc.match_substring_regex(text, f"^ | $| {sign}|{sign} ")
    is_whole = pc.and_(is_whole, pc.invert(has_edge))
    cut = pc.split_pattern(text.filter(is_whole), separator).flatten()
    places = np.flatnonzero(is_clean)[is_whole.to_numpy(zero_copy_only=False)]
    items = np.tile(np.arange(len(channels)), len(places))
    starts = np.repeat(np.arange(len(places)) * len(names), len(channels))
    nothing = pa.nulls(len(items), pa.string())
    texts = {n: nothing if place is None else cut.take(pa.array(starts + place)) for n, place in at.items()}
    for name, told in every.of_items.items():
        of_names = pa.array([names[n] for n in channels], pa.string())
        is_name = told == "name"
        texts[name] = (
            of_names.take(pa.array(items)) if is_name else cut.take(pa.array(starts + channels[items]))
        )
    texts = {name: _or_null(text, pc.equal(text, "")) for name, text in texts.items()}
    return np.repeat(places, len(channels)), texts, items


def _place(wanted: FieldMap, name: str, layout: tuple[str, ...]) -> int | None:
    column = wanted.fields[name]
    if column.position is not None:
        return column.position if column.position < len(layout) else None
    return layout.index(wanted.path(name)) if wanted.path(name) in layout else None


def _of_json(
    records: pa.BinaryArray, is_clean: Mask, wanted: FieldMap
) -> tuple[npt.NDArray[np.intp], dict[str, pa.Array]]:
    """Return the places of flat JSON objects of the first few shapes, and the texts of wanted members."""
    open_lines, names = np.flatnonzero(is_clean), {wanted.path(name) for name in wanted.fields}
    text = records.filter(pa.array(is_clean)).cast(pa.string())
    parts: list[tuple[npt.NDArray[np.intp], dict[str, pa.Array]]] = []
    seen: set[tuple[str, ...]] = set()
    for _ in range(_SHAPES):
        shapes = (_keys(line) for line in text[:_LOOKED_AT].to_pylist())
        keys = next((shape for shape in shapes if names & set(shape) and shape not in seen), None)
        if keys is None:
            break
        seen.add(keys)
        found = pc.extract_regex(text, _pattern(keys, wanted))
        is_found = found.is_valid().to_numpy(zero_copy_only=False)
        members = found.filter(pa.array(is_found))
        parts.append(
            (open_lines[is_found], {name: _member(members, keys, wanted, name) for name in wanted.fields})
        )
        text, open_lines = text.filter(pa.array(~is_found)), open_lines[~is_found]
    places = np.concatenate([at for at, _ in parts] or [np.empty(0, np.intp)])
    empty = {name: pa.nulls(0, pa.string()) for name in wanted.fields}
    joined = {
        name: pa.concat_arrays([texts[name] for _, texts in parts]) if parts else empty[name]
        for name in empty
    }
    return places, joined


def _keys(line: str) -> tuple[str, ...]:
    """Return the keys of a flat object, none of anything else."""
    keys: list[str] = []
    end = 1
    while line.startswith("{") and (member := _MEMBER.match(line, end)):
        keys.append(member[1])
        end = member.end() + 1
        if line[member.end() :] == "}":
            return tuple(keys) if len(set(keys)) == len(keys) else ()
        if line[member.end() : end] != ",":
            break
    return ()


def _pattern(keys: tuple[str, ...], wanted: FieldMap) -> str:
    """Return the expression that takes objects of these keys apart."""
    names = {wanted.path(name) for name in wanted.fields}
    # How a text spells a number with a point is another matter.
    spelled = {wanted.path(n) for n, c in wanted.fields.items() if c.type == "string" and n not in _TIMES}
    kinds = {key: _SPELLED if key in spelled else _VALUE for key in keys}
    values = (f"(?P<k{n}>{kinds[key]})" if key in names else f"(?:{_VALUE})" for n, key in enumerate(keys))
    members = (f' *"{re.escape(key)}" *: *{value} *' for key, value in zip(keys, values, strict=True))
    return r"^\{" + ",".join(members) + r"\}$"


def _member(members: pa.StructArray, keys: tuple[str, ...], wanted: FieldMap, name: str) -> pa.Array:
    if wanted.path(name) not in keys:
        return pa.nulls(len(members), pa.string())
    value = pc.struct_field(members, f"k{keys.index(wanted.path(name))}")
    text = pc.ascii_trim(pc.ascii_trim(value, '"'), " ")
    return _or_null(text, pc.equal(value, "null"))


def _or_null(text: pa.Array, is_null: pa.Array) -> pa.Array:
    return pc.if_else(is_null, pa.scalar(None, pa.string()), text)


def _known(text: pa.Array, stream: Stream) -> pa.Array:
    nulls = stream.source.nulls
    return _or_null(text, pc.is_in(text, pa.array(nulls, pa.string()))) if nulls else text


def typed_lines(lines: pa.RecordBatch, layout: Layout, stream: Stream, path: str) -> pa.Table:
    """Return lines as ``lines.numbered_lines`` yields them of a path, in their order, with ``typed``."""
    if not can_be_plain(stream):
        return pa.table(lines)
    found = read_plain(lines, layout, stream, path)
    return _beside(found.rows, pa.table(lines), found.is_plain, stream)


def typed_values(numbers: pa.Array, rows: pa.StructArray, stream: Stream, path: str) -> pa.Table:
    """Return rows of a Parquet file as ``row``, in their order, with their ``source_line`` and ``typed``."""
    lines = pa.table({"source_line": numbers, "row": rows})
    if not can_be_plain(stream):
        return lines
    found = read_plain_rows(pa.RecordBatch.from_struct_array(rows), numbers, stream, path)
    return _beside(found.rows, lines, found.is_plain, stream)


def _beside(rows: pa.Table, lines: pa.Table, is_plain: Mask, stream: Stream) -> pa.Table:
    """Return the plain lines as rows, and the others as they are, in order of lines and items."""
    names = [name for name in rows.column_names if name != "source_line"]
    typed = pa.StructArray.from_arrays([rows[name].combine_chunks() for name in names], names)
    columns = {"source_line": rows["source_line"], "typed": typed}
    if stream.identity:
        # Of several rows of a line one has what they were read from.
        places = pc.index_in(rows["source_line"], lines["source_line"].combine_chunks())
        is_first = pc.equal(rows["source_item"], 0)
        of_first = pc.if_else(is_first, places, pa.scalar(None, pa.int32()))
        said = next(name for name in ("record", "row") if name in lines.column_names)
        columns[said] = lines[said].combine_chunks().take(of_first.combine_chunks())
    others = lines.filter(pa.array(~is_plain))
    both = pa.concat_tables([pa.table(columns), others], promote_options="default")
    items = np.concatenate([rows["source_item"].to_numpy(), np.zeros(others.num_rows, np.int32)])
    order = np.lexsort((items, both["source_line"].to_numpy()))
    return both.take(pa.array(order)) if np.any(np.diff(order) != 1) else both
