"""Texts as records have them -> texts of values: without blanks around them, null where they mean no value.

Decimal commas, units and words of a column's own spelling become what the parser reads, all rows at once. A number that
is not of the declared spelling is marked, so that it is of no type.
"""

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.packets.headers import IP_PROTOCOLS, WITH_PORTS
from lakehouse.config.columns import Column
from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.parser.field_map import SPELT, FieldMap
from lakehouse.ingest.parser.texts import BLANKS
from lakehouse.ingest.sources.nfdump import as_seconds

_NUMBER = r"^[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?$"
# Before a text that is no number as its column spells them.
_NO_NUMBER = "\x00"
_LONGEST_HEX = 16

# What Zeek writes where there is no value.
_UNSET = ("-", "(empty)")
# Where an empty field is no value, in quotes or not.
_WITHOUT_EMPTY = ("csv", "nfdump")
_NUMBERED = {str(number): name for number, name in IP_PROTOCOLS.items()}


def usual_texts(texts: Mapping[str, pa.Array], stream: Stream, fields: FieldMap) -> dict[str, pa.Array]:
    """Return the texts of values, of texts as the records of a stream have them, by name of the wanted field."""
    source = stream.source
    nulls = (*source.nulls, *(_UNSET if source.format == "zeek" else ()))
    nulls = (*nulls, "") if source.format in _WITHOUT_EMPTY else nulls
    result = {name: _known(pc.ascii_trim(text, BLANKS), nulls) for name, text in texts.items()}
    result |= spelt_values(result, stream)
    if source.format == "nfdump":
        result |= {name: as_seconds(text) for name, text in result.items() if fields.path(name) == "duration"}
    return _as_flow(result) if source.shape == "flow" else result


def _known(text: pa.Array, nulls: tuple[str, ...]) -> pa.Array:
    if not nulls:
        return text
    return pc.if_else(pc.is_in(text, pa.array(nulls, pa.string())), pa.scalar(None, pa.string()), text)


def _each(text: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Return what becomes of texts: each different one is changed once."""
    encoded = text.dictionary_encode()
    changed = [change(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(changed, pa.string()).take(encoded.indices)


def _as_flow(texts: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return texts with ``proto`` as a lower-case name, and ports only where the protocol has them."""
    proto = _each(texts["proto"], lambda name: _NUMBERED.get(name.lower(), name.lower()))
    has_ports = pc.is_in(proto, pa.array(WITH_PORTS))
    ports = {
        name: pc.if_else(has_ports, texts[name], pa.scalar(None, pa.string()))
        for name in ("src_port", "dst_port")
    }
    return texts | ports | {"proto": proto}


def spelt_values(texts: Mapping[str, pa.Array], stream: Stream) -> dict[str, pa.Array]:
    """Return the texts of columns that have a spelling of their own; as they stood they have ``SPELT`` names."""
    changed: dict[str, pa.Array] = {}
    for name, column in stream.all_columns.items():
        text = texts[name]
        if not pa.types.is_string(text.type):
            continue
        usual = _usual(text, column, stream.source)
        if usual is not text:
            changed |= {name: usual, SPELT + name: text}
    return changed


def _usual(text: pa.Array, column: Column, source: Source) -> pa.Array:
    if column.missing:
        # As it stands: a decimal comma or hexadecimal digits would mark it, or make another text of it.
        text = _null(text, pc.is_in(text, pa.array(column.missing, pa.string())))
    if column.is_number:
        text = _number(text, column, source)
    if column.true or column.false:
        text = _truth(text, column)
    return _without(text, column) if column.missing else text


def _number(text: pa.Array, column: Column, source: Source) -> pa.Array:
    decimal, thousands = column.decimal or source.decimal, column.thousands or source.thousands
    if column.strip:
        either = "|".join(map(re.escape, sorted(column.strip, key=len, reverse=True)))
        text = pc.replace_substring_regex(text, f"^(?:{either})|(?:{either})$", "")
        text = pc.ascii_trim(text, BLANKS)
    if column.hex:
        return _of_hex(text)
    if thousands is None and decimal == ".":
        return text
    mark, point = re.escape(thousands or ""), re.escape(decimal)
    grouped = rf"[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+|" if thousands else ""
    is_right = pc.match_substring_regex(
        text,
        rf"^[+-]?(?:(?:{grouped}[0-9]*)(?:{point}[0-9]*)?)(?:[eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$",
    )
    plain = pc.replace_substring(text, thousands, "") if thousands else text
    plain = pc.replace_substring(plain, decimal, ".") if decimal != "." else plain
    return pc.if_else(is_right, plain, pc.binary_join_element_wise(_NO_NUMBER, text, ""))


def _of_hex(text: pa.Array) -> pa.Array:
    encoded = text.dictionary_encode()
    digits = re.compile(rf"(?:0[xX])?[0-9a-fA-F]{{1,{_LONGEST_HEX}}}")
    values = [
        str(int(each, 16)) if digits.fullmatch(each) else _NO_NUMBER + each
        for each in encoded.dictionary.to_pylist()
    ]
    return pa.array(values, pa.string()).take(encoded.indices)


def _truth(text: pa.Array, column: Column) -> pa.Array:
    """Return the words of a column as truths; where words of one are given, other texts of it are none."""
    words = {word.lower(): "true" for word in column.true} | {word.lower(): "false" for word in column.false}
    at = pc.index_in(pc.utf8_lower(text), pa.array(list(words), pa.string()))
    return pc.coalesce(pa.array(list(words.values()), pa.string()).take(at), text)


def _without(text: pa.Array, column: Column) -> pa.Array:
    """Return texts without those of values that mean none: -999 is also -999.0 in a column of numbers."""
    is_none = pc.is_in(text, pa.array(column.missing, pa.string()))
    if column.is_number:
        is_number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        numbers = pc.if_else(is_number, text, pa.scalar(None, pa.string())).cast(pa.float64())
        values = [float(each) for each in column.missing if re.match(_NUMBER, each)]
        is_none = pc.or_(is_none, pc.and_(is_number, pc.is_in(numbers, pa.array(values, pa.float64()))))
    return _null(text, is_none)


def _null(text: pa.Array, where: pa.Array) -> pa.Array:
    return pc.if_else(where, pa.scalar(None, pa.string()), text)
