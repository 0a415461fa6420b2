"""JSON records of a few shapes -> the texts at their paths, in Arrow.

A *shape* is everything of a record but its numbers, texts and truths: which members there are, and in which order.
Lines of one writer have few. A regular expression tells the records of a shape; as none of these has an escape, the
marks outside of quotes are the same in all of them, and a value is what stands between two marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.ingest.parser.json_record import Parts, Repeating, json_object

T = TypeVar("T")
Places = npt.NDArray[np.int64]
Letters = npt.NDArray[np.uint8]
# So many shapes are taken apart at once, as they are found among the first lines that are of none yet.
_SHAPES, _LOOKED_AT = 8, 50
# An expression takes memory for each letter.
_LONGEST = 20_000
_VALUE = r'"[^"]*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null'
_COMMA = " *, *"
# What stands around values, outside of quotes.
_MARKS = np.isin(np.arange(256), list(b"{}[]:,"))
_BYTES = 2 * 1024 * 1024


def shaped_records(
    lines: pa.Array, wanted: Mapping[str, Parts], empty: Parts = ()
) -> Iterator[tuple[Places, dict[str, pa.Array]]]:
    """Yield the places, and the texts by name, of those records that are of the first few shapes.

    Lines are UTF-8 without control characters and backslashes. ``empty``: the path at which each has an empty list.
    Cost: each line is looked at once for each shape.
    """
    places, seen, paths = np.arange(len(lines)), set[str](), frozenset(wanted.values())
    for _ in range(_SHAPES):
        shapes = (_Shape.of(line, paths, empty) for line in lines[:_LOOKED_AT].to_pylist())
        shape = next((each for each in shapes if each and each.pattern not in seen), None)
        if shape is None:
            return
        seen.add(shape.pattern)
        is_found = pc.match_substring_regex(lines, shape.pattern).to_numpy(zero_copy_only=False)
        matched, at = lines.filter(pa.array(is_found)), places[is_found]
        for low, some in pieces(matched):
            yield at[low : low + len(some)], shape.texts(some, wanted)
        lines, places = lines.filter(pa.array(~is_found)), places[~is_found]


def pieces(lines: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield some lines after others, with the place of the first of them: as many as are held in numbers at once."""
    size = max(1, _BYTES * len(lines) // max(_BYTES, lines.nbytes))
    for low in range(0, len(lines), size):
        yield low, lines[low : low + size]


def letters_of(lines: pa.Array) -> tuple[Letters, Places]:
    """Return the bytes of lines, one behind the other, and where each line begins, and the last ends."""
    lines = lines.cast(pa.large_binary())
    _, ends, content = lines.buffers()
    offsets = np.frombuffer(ends, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def marks_in(letters: Letters) -> Places:
    """Return where marks are, of lines that have each quote twice."""
    in_text = np.bitwise_xor.accumulate((letters == ord('"')).view(np.uint8))
    return np.flatnonzero(_MARKS[letters] & ~in_text.view(np.bool_))


def texts_between(letters: Letters, starts: Places, ends: Places, each: int = 1) -> pa.Array:
    """Return what stands from each place up to another, which ascend; of so many places each one text."""
    if not len(starts):
        return pa.array([], pa.string())
    # One array of these texts and of what stands between them, of which Arrow copies every second.
    bounds = np.stack([starts, ends], axis=1).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(letters)]
    all_of_them = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
    _, offsets, content = all_of_them.take(pa.array(np.arange(0, bounds.size, 2))).buffers()
    joined = pa.py_buffer(np.frombuffer(offsets, np.int32)[: len(starts) + 1 : each].copy())
    return pa.Array.from_buffers(pa.string(), len(starts) // each, [None, joined, content])


@dataclass
class _Shape:
    """Shape of records: what tells them, and the marks before which their wanted values stand."""

    wanted: frozenset[Parts]
    empty: Parts
    pattern: str = ""
    marks: int = 0
    before: dict[Parts, int] = field(default_factory=dict)
    has_empty: bool = False

    @staticmethod
    def of(line: str, wanted: frozenset[Parts], empty: Parts) -> _Shape | None:
        """Return the shape of a record, None where its values are not read so simply."""
        record, shape = json_object(line), _Shape(wanted, empty)
        try:
            shape.pattern = f"^ *{shape._of_value(record, ())} *$" if record is not None else ""
        except _NoShape:
            return None
        is_whole = shape.has_empty if empty else bool(shape.before)
        return shape if is_whole and len(shape.pattern) <= _LONGEST else None

    def texts(self, lines: pa.Array, wanted: Mapping[str, Parts]) -> dict[str, pa.Array]:
        """Return the texts by name of records of the shape."""
        (letters, _), none = letters_of(lines), pa.nulls(len(lines), pa.string())
        at = marks_in(letters).reshape(len(lines), self.marks)

        def text(parts: Parts) -> pa.Array:
            mark = self.before.get(parts)
            return none if mark is None else _text(texts_between(letters, at[:, mark - 1] + 1, at[:, mark]))

        return {name: text(parts) for name, parts in wanted.items()}

    def _of_value(self, value: Any, at: Parts) -> str:
        """Return the expression of the value at a path."""
        leads = any(len(parts) > len(at) and parts[: len(at)] == at for parts in self.wanted)
        if isinstance(value, dict):
            if isinstance(value, Repeating) or at in self.wanted:
                raise _NoShape
            return self._within("{}", [self._of_member(n, v, (*at, n)) for n, v in self._each(value.items())])
        if isinstance(value, list):
            return self._of_list(value, at, leads)
        if leads and value is not None:
            raise _NoShape
        if at in self.wanted:
            self.before[at] = self.marks
        return "null" if leads else f"(?:{_VALUE})"

    def _of_member(self, name: str, value: Any, at: Parts) -> str:
        self.marks += 1
        return f'"{re.escape(name)}" *: *{self._of_value(value, at)}'

    def _of_list(self, values: list[Any], at: Parts, leads: bool) -> str:
        is_empty = bool(at) and at == self.empty
        if at in self.wanted or (values and (leads or is_empty)):
            raise _NoShape
        self.has_empty |= is_empty
        return self._within("[]", [self._of_value(value, (*at, "[]")) for value in self._each(values)])

    def _each(self, values: Iterable[T]) -> Iterator[T]:
        """Yield what stands in braces or brackets, and count the mark before each."""
        for value in values:
            self.marks += 1
            yield value

    def _within(self, ends: str, parts: list[str]) -> str:
        # With nothing inside there are two marks; else the first was counted, and so was each comma.
        self.marks += 1 if parts else 2
        return rf"\{ends[0]} *{_COMMA.join(parts)} *\{ends[1]}"


class _NoShape(Exception):
    """A record has values that are not found by marks."""


def _text(value: pa.Array) -> pa.Array:
    """Return the text of a value of JSON, null of null."""
    value = pc.ascii_trim(value, " ")
    text = pc.ascii_trim(value, '"')
    return pc.if_else(pc.equal(value, "null"), pa.scalar(None, pa.string()), text)
