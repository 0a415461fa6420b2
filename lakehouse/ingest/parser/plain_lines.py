"""Plain lines -> the texts of their rows, in Arrow: what ``record_texts`` makes of them, many at once.

A line is *plain* when it is cut in one way only: UTF-8, as many fields as the header names, quotes only around whole
fields that hold no separator or quote; in JSON without escapes, and of one of the shapes that some lines of a block
have. Nothing is said of any other line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import TOPIC_LEVEL
from lakehouse.config.lines import WHITESPACE
from lakehouse.config.stream import Stream
from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.json_lists import Rows, shaped_rows
from lakehouse.ingest.parser.json_record import JsonPaths
from lakehouse.ingest.parser.json_shapes import letters_of
from lakehouse.ingest.parser.plain_values import Mask
from lakehouse.ingest.parser.record_texts import BY_TAB
from lakehouse.ingest.parser.texts import BLANKS
from lakehouse.ingest.sources.manifest import Layout

Places = npt.NDArray[np.int64]
# Of longer records of JSON numbers for each letter would take more memory than the parser of one.
_LONGEST = 256 * 1024
# A mark between fields of fixed width; a line that has it is not plain.
_UNIT = "\x1f"
_WHOLE = "(?:0|[1-9][0-9]*)"
_MESSAGE = (
    r'^\{"topic": "(?P<topic>[^"\\]*)", "payload": "(?P<payload>(?:[^"\\]|\\")*)", '
    rf'"received": (?P<received>{_WHOLE}), "qos": {_WHOLE}, "retain": (?P<retain>true|false), "mid": {_WHOLE}\}}$'
)


@dataclass(frozen=True)
class CutRows:
    """Texts of rows by wanted field, and of each row the place of its line, and which of the line's items it is."""

    places: Places
    items: Places
    texts: dict[str, pa.Array]


def cut_plain(
    lines: Mapping[str, pa.Array], layouts: Sequence[Layout], stream: Stream
) -> tuple[CutRows, Mask]:
    """Return the rows of plain lines, and which of the lines are plain; ``lines``: columns of ``LINE_SCHEMA``."""
    fields, source = FieldMap.of(stream), stream.source
    is_open = lines["fault"].is_null().to_numpy(zero_copy_only=False)
    parts = list[CutRows]()
    if source.format in ("csv", "nfdump", *BY_TAB) and source.kind != "mqtt":
        numbers = pc.fill_null(lines["layout"], -1).to_numpy()
        for number, layout in enumerate(layouts):
            is_of = is_open & (numbers == number) & _are_texts(lines["record"])
            parts.append(_of_delimited(lines["record"], is_of, layout, fields, stream))
    if source.is_json or source.format == "zeek":
        paths = JsonPaths.of(fields.of_records, source.explode, source.format == "zeek")
        is_message = source.kind == "mqtt"
        is_short = pc.less_equal(pc.fill_null(pc.binary_length(lines["record"]), 0), _LONGEST)
        is_open &= is_short.to_numpy(zero_copy_only=False)
        at = np.flatnonzero(
            is_open & _are_texts(lines["record"]) & _lack_controls(lines["record"], not is_message)
        )
        texts = lines["record"].take(pa.array(at)).cast(pa.string())
        found_rows = (
            _of_messages(texts, fields.of_messages, paths) if is_message else shaped_rows(texts, paths)
        )
        parts += [CutRows(at[rows], items, texts) for rows, items, texts in found_rows]
    beside = fields.of_messages if source.kind == "mqtt" else ()
    names = [*fields.of_items, *fields.of_records.fields, *beside]
    result = joined_rows(parts, names)
    is_plain = np.zeros(len(is_open), np.bool_)
    is_plain[result.places] = True
    return result, is_plain


def joined_rows(parts: Iterable[CutRows], names: Iterable[str]) -> CutRows:
    """Return rows, one part behind the other."""
    parts = [CutRows(np.empty(0, np.int64), np.empty(0, np.int64), {}), *parts]
    none = pa.nulls(0, pa.string())
    texts = {name: pa.concat_arrays([_flat(part.texts.get(name, none)) for part in parts]) for name in names}
    places, items = (np.concatenate([getattr(part, name) for part in parts]) for name in ("places", "items"))
    return CutRows(places, items, texts)


def text_array(texts: Sequence[str | None]) -> pa.Array:
    """Return texts in Arrow; half of a surrogate pair, which JSON can escape, becomes U+FFFD."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        pairs = (None if text is None else text.encode("utf-16", "surrogatepass") for text in texts)
        return pa.array(
            [None if pair is None else pair.decode("utf-16", "replace") for pair in pairs], pa.string()
        )


def _flat(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    return texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts


def _are_texts(records: pa.BinaryArray) -> Mask:
    """Return which records are UTF-8; of a block with one that is not, those of ASCII."""
    is_there = records.is_valid().to_numpy(zero_copy_only=False)
    try:
        records.cast(pa.string())
        return np.asarray(is_there)
    except pa.ArrowInvalid:
        letters, ends = letters_of(records)
        return np.asarray(is_there & _hold_none(np.flatnonzero(letters > 0x7F), ends))


def _lack_controls(records: pa.BinaryArray, is_unescaped: bool) -> Mask:
    """Return which records have no control characters, which JSON lacks, and, where asked, no backslash."""
    letters, ends = letters_of(records)
    is_bad = letters < 0x20
    if is_unescaped:
        is_bad |= letters == ord("\\")
    return _hold_none(np.flatnonzero(is_bad), ends)


def _hold_none(places: Places, ends: Places) -> Mask:
    """Return which records have none of some places."""
    before = np.searchsorted(places, ends)
    return np.asarray(before[1:] == before[:-1])


def _is_well_quoted(records: pa.BinaryArray, quote: str, separator: str) -> Mask:
    """Return which records have quotes only around whole fields, and in these no separator."""
    if not pc.any(pc.match_substring(records, quote)).as_py():
        return np.ones(len(records), np.bool_)
    sign, plain = re.escape(quote), f"[^{re.escape(quote + separator)}]*"
    field = f"(?:{plain}|{sign}{plain}{sign})"
    is_well = pc.match_substring_regex(records, f"^{field}(?:{re.escape(separator)}{field})*$")
    return np.asarray(pc.fill_null(is_well, False).to_numpy(zero_copy_only=False))


def _of_messages(lines: pa.Array, beside: Mapping[str, str], paths: JsonPaths) -> Iterator[Rows]:
    """Yield the rows of messages as the bridge writes them, whose payloads escape quotes only."""
    message = pc.extract_regex(lines, _MESSAGE)
    places = np.flatnonzero(message.is_valid().to_numpy(zero_copy_only=False))
    message = message.take(pa.array(places))
    payload = pc.replace_substring(pc.struct_field(message, "payload"), '\\"', '"')
    if paths.is_empty:
        result: Iterable[Rows] = [(np.arange(len(places)), np.zeros(len(places), np.int64), {})]
    else:
        result = shaped_rows(payload, paths)
    envelope = {
        name: payload if path == "$payload" else _beside(message, path) for name, path in beside.items()
    }
    for rows, items, texts in result:
        around = {name: text.take(pa.array(rows)) for name, text in envelope.items()}
        yield places[rows], items, texts | around


def _beside(message: pa.StructArray, path: str) -> pa.Array:
    """Return the texts that a path such as ``$received`` or ``$topic.1`` leads to."""
    if not path.startswith(TOPIC_LEVEL):
        return pc.struct_field(message, path.removeprefix("$"))
    topics, level = pc.struct_field(message, "topic").dictionary_encode(), int(path.removeprefix(TOPIC_LEVEL))
    parts = [topic.split("/") for topic in topics.dictionary.to_pylist()]
    texts = [part[level] if level < len(part) else None for part in parts]
    return pa.array(texts, pa.string()).take(topics.indices)


def _of_delimited(
    records: pa.BinaryArray, is_open: Mask, layout: Layout, fields: FieldMap, stream: Stream
) -> CutRows:
    """Return the rows of lines with the header's number of fields."""
    names, wanted, source = layout or (), fields.of_records, stream.source
    at = wanted.places(layout)
    # Where a line is one row, it has one item, which no field tells of.
    channels = np.array(fields.channels(layout) if fields.unpivot else [0], np.int64)
    is_absent = any(position is None and not wanted.fields[name].optional for name, position in at.items())
    separator = "\t" if source.format in BY_TAB else source.separator
    if not names or is_absent or not len(channels) or not (separator + source.quote).isascii():
        return joined_rows([], ())
    if source.format in BY_TAB:
        is_object = pc.fill_null(pc.starts_with(records, b"{"), False)
        is_open = is_open & ~is_object.to_numpy(zero_copy_only=False)
    elif source.is_quoted:
        is_open = is_open & _is_well_quoted(records, source.quote, separator)
    text = records.filter(pa.array(is_open)).cast(pa.string())
    if source.is_quoted:
        text = pc.replace_substring(text, source.quote, "")
    if source.widths:
        text, separator = _by_width(text, source.widths), _UNIT
    elif source.separator == WHITESPACE:
        text, separator = pc.replace_substring_regex(pc.ascii_trim(text, BLANKS), f"[{BLANKS}]+", "\t"), "\t"
    if source.ragged:
        text = _of_length(text, separator, len(names))
    parts = pc.split_pattern(text, separator)
    is_whole = pc.equal(pc.list_value_length(parts), len(names))
    cut = (parts if pc.all(is_whole).as_py() else parts.filter(is_whole)).flatten()
    places = np.flatnonzero(is_open)[is_whole.to_numpy(zero_copy_only=False)]
    items = np.tile(np.arange(len(channels)), len(places))
    starts = np.repeat(np.arange(len(places)) * len(names), len(channels))
    nothing = pa.nulls(len(items), pa.string())
    texts = {
        n: nothing if position is None else cut.take(pa.array(starts + position))
        for n, position in at.items()
    }
    of_names = pa.array([names[n] for n in channels], pa.string())
    for name, role in fields.of_items.items():
        is_name = role == "name"
        texts[name] = (
            of_names.take(pa.array(items)) if is_name else cut.take(pa.array(starts + channels[items]))
        )
    return CutRows(np.repeat(places, len(channels)), items, texts)


def _by_width(text: pa.Array, widths: Sequence[int]) -> pa.Array:
    """Return lines of fixed width with a mark between fields; one that is too long has a field more."""
    cuts = [0, *accumulate(widths)]
    fields = [pc.utf8_slice_codeunits(text, begin, end) for begin, end in pairwise(cuts)]
    rest = pc.ascii_trim(pc.utf8_slice_codeunits(text, cuts[-1]), BLANKS)
    rest = pc.if_else(pc.equal(rest, ""), rest, _UNIT)
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*fields, _UNIT), rest, "")


def _of_length(text: pa.Array, separator: str, count: int) -> pa.Array:
    """Return lines with as many separators as fields ask for, where what lacks or is over is empty."""
    text = pc.ascii_rtrim(text, separator + BLANKS)
    lacking = count - 1 - pc.count_substring(text, separator).to_numpy()
    more = [separator * number for number in np.maximum(np.unique(lacking), 0).tolist()]
    which = np.unique(lacking, return_inverse=True)[1]
    return pc.binary_join_element_wise(text, pa.array(more, pa.string()).take(pa.array(which)), "")
