"""A JSON record -> the texts at the paths that a stream reads: numbers as they are written, so none loses a digit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.verdicts import Rejected, expected_object, repeated

Texts = dict[str, str | None]
Parts = tuple[str, ...]
# Python's parser, whose limit depends on what called it, gets nothing deeper.
_DEEPEST = 200
# An item of three letters is a row of some hundred bytes.
_MOST_ITEMS = 100_000
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)


class Number(str):
    """A number as the record spells it."""

    __slots__ = ()


class Repeating(dict[str, Any]):
    """An object that has members of one name: the last of each, and which names these are."""

    def __init__(self, members: Sequence[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.repeated = {name for name, count in Counter(name for name, _ in members).items() if count > 1}


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(members)
    return result if len(result) == len(members) else Repeating(members)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
)


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, None where it is anything else, or nested too deep."""
    if text.count("{") + text.count("[") > _DEEPEST and _is_deep(text):
        return None
    try:
        result = _DECODER.decode(text)
    except ValueError:
        return None
    return result if isinstance(result, dict) else None


def _is_deep(text: str) -> bool:
    steps = {"{": 1, "[": 1, "}": -1, "]": -1}
    depths = accumulate(steps.get(letter, 0) for letter in _QUOTED.sub("", text))
    return any(depth > _DEEPEST for depth in depths)


def text_of(value: Any) -> str | None:
    """Return a value's text: of an object or a list its JSON without blanks; None of null."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return None
    return _dumped(value)


def _dumped(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}:{_dumped(each)}" for name, each in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return value if isinstance(value, Number) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class JsonPaths:
    """The paths that a stream reads of a record, and of each item of the list at ``listed``, where there is one."""

    of_record: dict[str, Parts]
    of_items: dict[str, Parts]
    listed: Parts

    @staticmethod
    def of(wanted: FieldMap, explode: str | None, is_flat: bool = False) -> JsonPaths:
        """Return the paths of a stream's fields; those of a flat record are names that may have dots."""
        read = {name: wanted.path(name) for name in wanted.fields}
        paths = {name: (path,) if is_flat else _parts(path) for name, path in read.items()}
        listed = _parts(explode) if explode else ()
        inner = {
            name: parts[len(listed) :]
            for name, parts in paths.items()
            if listed and parts[: len(listed)] == listed
        }
        return JsonPaths({n: p for n, p in paths.items() if n not in inner}, inner, listed)

    @property
    def is_empty(self) -> bool:
        """True if nothing of the record is read."""
        return not (self.of_record or self.of_items or self.listed)

    def rows(self, record: dict[str, Any]) -> list[Texts | Rejected]:
        """Return the texts of each row of a record, or why it is none.

        Raises:
            Rejected: when the record is no row at all.
        """
        items = _member(record, self.listed, ()) if self.listed else None
        if self.listed and not (isinstance(items, list) and items):
            raise Rejected(f"no_items: no list, or an empty one, at {'.'.join(self.listed)}")
        if items and len(items) > _MOST_ITEMS:
            size = f"the list at {'.'.join(self.listed)} has {len(items)} items"
            raise Rejected(f"malformed: {size}; expected at most {_MOST_ITEMS}")
        try:
            outer = _texts(record, self.of_record, ())
        except Rejected as verdict:
            return [verdict] * len(items or (None,))
        return [self._row(item, outer) for item in items] if items else [outer]

    def _row(self, item: Any, outer: Texts) -> Texts | Rejected:
        try:
            return outer | _texts(item, self.of_items, self.listed)
        except Rejected as verdict:
            return verdict


def _parts(path: str) -> Parts:
    return tuple(path.split("."))


def _texts(value: Any, paths: dict[str, Parts], before: Parts) -> Texts:
    return {name: text_of(_member(value, parts, before)) for name, parts in paths.items()}


def _member(value: Any, parts: Parts, before: Parts) -> Any:
    """Return what a path leads to, None where there is nothing.

    Raises:
        Rejected: when it leads through something else than an object, or to a member that is there more than once.
    """
    for depth, part in enumerate(parts):
        if not isinstance(value, dict):
            if value is None or value == []:
                return None
            raise Rejected(expected_object(".".join((*before, *parts[:depth])), text_of(value) or ""))
        if isinstance(value, Repeating) and part in value.repeated:
            raise Rejected(repeated(".".join((*before, *parts[: depth + 1]))))
        value = value.get(part)
    return value
