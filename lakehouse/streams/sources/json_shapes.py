"""JSON records of a few shapes -> the texts at their paths, in Arrow.

A *shape* is everything of a record but its numbers, texts and truths: which members there are, in which order, and how
many items a list has. Lines of one writer have few. A regular expression tells the records of a shape; as none of these
has an escape, the marks outside of quotes are the same in all of them, and a value is what stands between two marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.streams.sources.json_record import JsonPaths, Parts, Repeating, json_object

Places = npt.NDArray[np.int64]
Rows = tuple[Places, Places, dict[str, pa.Array]]
# So many shapes are taken apart at once, as they are found among the first lines that are of none yet.
_SHAPES, _LOOKED_AT = 8, 50
# An expression takes memory for each letter.
_MOST_ITEMS, _LONGEST = 16, 20_000
_VALUE = r'"[^"]*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null'
_COMMA = " *, *"
# What stands around values, outside of quotes.
_MARKS = np.isin(np.arange(256), list(b"{}[]:,"))
_BYTES = 8 * 1024 * 1024
T = TypeVar("T")


def shaped_rows(lines: pa.Array, paths: JsonPaths) -> Iterator[Rows]:
    """Yield the places, items and texts of rows of those lines that are of the first few shapes.

    Lines are UTF-8 without control characters and backslashes. Cost: each line is looked at once for each shape.
    """
    places, seen = np.arange(len(lines)), set[str]()
    for _ in range(_SHAPES):
        shapes = (_Shape.of(line, paths) for line in lines[:_LOOKED_AT].to_pylist())
        shape = next((each for each in shapes if each and each.pattern not in seen), None)
        if shape is None:
            return
        seen.add(shape.pattern)
        is_found = pc.match_substring_regex(lines, shape.pattern).to_numpy(zero_copy_only=False)
        yield from shape.rows(lines.filter(pa.array(is_found)), places[is_found], paths)
        lines, places = lines.filter(pa.array(~is_found)), places[~is_found]


@dataclass
class _Shape:
    """What tells the records of a shape, and before which of their marks the values are that are read.

    ``before``: by item and path.
    """

    paths: JsonPaths
    pattern: str = ""
    items: int = 0
    marks: int = 0
    before: dict[tuple[int, Parts], int] = field(default_factory=dict)

    @staticmethod
    def of(line: str, paths: JsonPaths) -> _Shape | None:
        """Return the shape of a record, None where its values are not read so simply."""
        record, shape = json_object(line), _Shape(paths)
        try:
            shape.pattern = f"^ *{shape._of_value(record, (), -1)} *$" if record is not None else ""
        except _NoShape:
            return None
        is_whole = bool(shape.before) and (shape.items > 0 or not paths.listed)
        return shape if is_whole and len(shape.pattern) <= _LONGEST else None

    def rows(self, lines: pa.Array, places: Places, paths: JsonPaths) -> Iterator[Rows]:
        """Yield the rows of records of the shape, of some records at a time."""
        size = max(1, _BYTES * len(lines) // max(_BYTES, lines.nbytes))
        for low in range(0, len(lines), size):
            yield self._rows(_Marked.of(lines[low : low + size], self.marks), places[low : low + size], paths)

    def _rows(self, lines: _Marked, places: Places, paths: JsonPaths) -> Rows:
        count, none = max(1, self.items), pa.nulls(len(places), pa.string())

        def text(item: int, parts: Parts) -> pa.Array:
            mark = self.before.get((item, parts))
            return none if mark is None else _text(lines.between(mark - 1, mark))

        texts = {name: pa.concat_arrays([text(-1, parts)] * count) for name, parts in paths.of_record.items()}
        for name, parts in paths.of_items.items():
            texts[name] = pa.concat_arrays([text(item, parts) for item in range(count)])
        return np.tile(places, count), np.repeat(np.arange(count), len(places)), texts

    def _of_value(self, value: Any, at: Parts, item: int) -> str:
        """Return the expression of a value at a path, which is inside of an item where it has a number."""
        wanted = self._wanted(item)
        leads = any(len(parts) > len(at) and parts[: len(at)] == at for parts in wanted)
        if isinstance(value, dict):
            if isinstance(value, Repeating) or at in wanted:
                raise _NoShape
            return self._within(
                "{}", [self._of_member(n, v, (*at, n), item) for n, v in self._each(value.items())]
            )
        if isinstance(value, list):
            return self._of_list(value, at, item, leads)
        if leads and value is not None:
            raise _NoShape
        if leads:
            return "null"
        if at not in wanted:
            return f"(?:{_VALUE})"
        self.before[item, at] = self.marks
        return f"(?:{_VALUE})"

    def _of_member(self, name: str, value: Any, at: Parts, item: int) -> str:
        self.marks += 1
        return f'"{re.escape(name)}" *: *{self._of_value(value, at, item)}'

    def _each(self, values: Iterable[T]) -> Iterator[T]:
        """Yield what stands in braces or brackets, and count the marks before each, and the last."""
        for value in values:
            self.marks += 1
            yield value

    def _within(self, ends: str, parts: list[str]) -> str:
        # With nothing inside, there are two marks; else the first was counted, and so was each comma.
        self.marks += 1 if parts else 2
        return rf"\{ends[0]} *{_COMMA.join(parts)} *\{ends[1]}"

    def _of_list(self, values: list[Any], at: Parts, item: int, leads: bool) -> str:
        is_listed = item < 0 and at == self.paths.listed and bool(at)
        if (leads and values and not is_listed) or at in self._wanted(item):
            raise _NoShape
        if is_listed and (len(values) > _MOST_ITEMS or not all(isinstance(each, dict) for each in values)):
            raise _NoShape
        if is_listed:
            self.items = len(values)
            inner = [self._of_value(value, (), number) for number, value in enumerate(self._each(values))]
        else:
            inner = [self._of_value(value, (*at, "[]"), item) for value in self._each(values)]
        return self._within("[]", inner)

    def _wanted(self, item: int) -> set[Parts]:
        if item >= 0:
            return set(self.paths.of_items.values())
        listed = {self.paths.listed} - {()}
        return {*self.paths.of_record.values(), *({(*path, "[]") for path in listed})}


@dataclass(frozen=True)
class _Marked:
    """Records of one shape: their letters, and where each record has its marks."""

    letters: npt.NDArray[np.uint8]
    at: Places

    @staticmethod
    def of(lines: pa.Array, marks: int) -> _Marked:
        """Return records that have so many marks each."""
        _, ends, content = lines.cast(pa.large_string()).buffers()
        offsets = np.frombuffer(ends, np.int64)[lines.offset : lines.offset + len(lines) + 1]
        letters = np.frombuffer(content or b"", np.uint8)[offsets[0] : offsets[-1]]
        in_text = np.bitwise_xor.accumulate((letters == ord('"')).view(np.uint8))
        at = np.flatnonzero(_MARKS[letters] & ~in_text.view(np.bool_))
        return _Marked(letters, at.reshape(len(lines), marks))

    def between(self, first: int, last: int) -> pa.Array:
        """Return what each record has between two of its marks."""
        starts = self.at[:, first] + 1
        sizes = self.at[:, last] - starts
        ends = np.concatenate([[0], np.cumsum(sizes)])
        letters = self.letters[np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])]
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(letters.tobytes())]
        return pc.ascii_trim(pa.Array.from_buffers(pa.string(), len(sizes), buffers), " ")


class _NoShape(Exception):
    """A record has values that one expression does not take apart."""


def _text(value: pa.Array) -> pa.Array:
    """Return the text of a value of JSON, null of null."""
    text = pc.ascii_trim(value, '"')
    return pc.if_else(pc.equal(value, "null"), pa.scalar(None, pa.string()), text)
