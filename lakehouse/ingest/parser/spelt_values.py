"""Values as people write them -> the texts that the parser reads: decimal commas, units, words, values that mean none.

All rows at once, in Arrow. A number that is not of the declared spelling is marked, so that it is of no type.
"""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.columns import Column
from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.parser.field_map import SPELT
from lakehouse.ingest.parser.texts import BLANKS

_NUMBER = r"^[+-]?(?:[0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?$"
# Before a text that is no number as its column spells them.
_NO_NUMBER = "\x00"
_LONGEST_HEX = 16


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
