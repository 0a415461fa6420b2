"""A JSON record -> the texts at the paths that a stream reads: numbers as they are written, so none loses a digit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

from lakehouse.ingest.parser.field_map import FieldMap
from lakehouse.ingest.parser.verdicts import Rejected, expected_object, repeated

Texts = dict[str, str | None]
Parts = tuple[str, ...]
# Items of lists by the paths of these, and the record itself.
Items = dict[Parts, Any]
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
    """The paths that a stream reads of a record, and of items of its lists.

    ``lists``: by level, the paths of lists that are opened side by side, each in the record or in an item above.
    ``fields``: by level, 0 for the record, the fields that are read there.
    """

    lists: tuple[tuple[Parts, ...], ...]
    fields: tuple[dict[str, Parts], ...]

    @staticmethod
    def of(wanted: FieldMap, explode: Sequence[Sequence[str]], is_flat: bool = False) -> JsonPaths:
        """Return the paths of a stream's fields; those of a flat record are names that may have dots."""
        lists = tuple(tuple(map(_parts, level)) for level in explode)
        fields: tuple[dict[str, Parts], ...] = tuple({} for _ in range(len(lists) + 1))
        for name in wanted.fields:
            path = wanted.path(name)
            parts = (path,) if is_flat else _parts(path)
            inside = (n for n, level in enumerate(lists, 1) if any(_is_in(parts, each) for each in level))
            fields[max(inside, default=0)][name] = parts
        return JsonPaths(lists, fields)

    @property
    def is_empty(self) -> bool:
        """True if nothing of the record is read."""
        return not (self.lists or any(self.fields))

    def rows(self, record: dict[str, Any]) -> list[Texts | Rejected]:
        """Return the texts of each row of a record, or why it is none.

        Raises Rejected when the record is no row at all.
        """
        opened = self._opened({(): record}, 0) if self.lists else []
        outer = self._own({(): record}, 0)
        if not self.lists:
            return [outer]
        rows = list(islice(self._below({(): record}, opened, outer, 1), _MOST_ITEMS + 1))
        if len(rows) > _MOST_ITEMS:
            raise Rejected(
                f"malformed: its lists have more than {_MOST_ITEMS} items; expected at most as many"
            )
        return rows

    def _below(
        self, items: Items, opened: Sequence[Items], outer: Texts | Rejected, level: int
    ) -> Iterator[Texts | Rejected]:
        """Yield the rows of the items of opened lists."""
        for some in opened:
            inside = items | some
            own = outer if isinstance(outer, Rejected) else self._own(inside, level, outer)
            if level == len(self.lists):
                yield own
                continue
            try:
                yield from self._below(inside, self._opened(inside, level), own, level + 1)
            except Rejected as verdict:
                yield verdict

    def _opened(self, items: Items, level: int) -> list[Items]:
        """Return the items of the lists below others, side by side."""
        lists = {path: _inside(items, path) for path in self.lists[level]}
        for path, each in lists.items():
            if not (isinstance(each, list) and each):
                raise Rejected(f"no_items: no list, or an empty one, at {'.'.join(path)}")
            if len(each) > _MOST_ITEMS:
                size = f"the list at {'.'.join(path)} has {len(each)} items"
                raise Rejected(f"malformed: {size}; expected at most {_MOST_ITEMS}")
        if len(counts := {len(each) for each in lists.values()}) > 1:
            names = " and ".join(".".join(path) for path in lists)
            raise Rejected(
                f"malformed: the lists {names} have {min(counts)} and {max(counts)} items; expected as many"
            )
        return [dict(zip(lists, each, strict=True)) for each in zip(*lists.values(), strict=True)]

    def _own(self, items: Items, level: int, outer: Texts | None = None) -> Texts | Rejected:
        """Return the texts that are read on a level, beside those of the levels above."""
        try:
            own = {name: text_of(_inside(items, parts)) for name, parts in self.fields[level].items()}
        except Rejected as verdict:
            return verdict
        return own if outer is None else outer | own


def _parts(path: str) -> Parts:
    return tuple(path.split("."))


def _is_in(parts: Parts, path: Parts) -> bool:
    """Return whether a path is another one, or leads deeper."""
    return parts[: len(path)] == path


def _inside(items: Items, parts: Parts) -> Any:
    """Return what a path leads to, in the innermost of the items that it leads through."""
    before = max((path for path in items if _is_in(parts, path)), key=len)
    return _member(items[before], parts[len(before) :], before)


def _member(value: Any, parts: Parts, before: Parts) -> Any:
    """Return what a path leads to, None where there is nothing.

    Raises Rejected when it leads through something else than an object, or to a member that is there more than once.
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
