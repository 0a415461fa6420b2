"""Lines that are not plain -> typed rows and verdicts, line by line in Python: what Spark makes of them, without Spark.

The way over Spark (``fields.py``, ``rows.py``) takes seconds to begin when a process has no session yet, and a few bad
lines are in most files. Each function here says what Spark says, or that it does not know (``Unsure``): such a line
takes Spark's way. Tests hold both ways to each other.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.declare.columns import Column, sql_type
from lakehouse.declare.durations import spelled_duration
from lakehouse.declare.landing import located
from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.fields import ARRIVAL, EVENT, PLUS, FieldMap, no_items
from lakehouse.streams.sources.manifest import Layout
from lakehouse.streams.sources.plain_lines import record_hash
from lakehouse.streams.sources.texts import (
    Unsure,
    Value,
    clock_change,
    is_long,
    is_special,
    scaled,
    time_of,
    value_of,
)
from lakehouse.streams.sources.verdicts import (
    EVENT_IS,
    NO_OBJECT,
    ahead_of_listing,
    changed_clock,
    expected_fields,
    off_arrival,
    out_of_bounds,
    repeated,
)

Texts = dict[str, str | None]
# A JSON parser's own limits are far above these.
_LONGEST, _DEEPEST = 30_000, 500
_LONG_NUMBER, _JAVA_NUMBER = re.compile("[0-9]{500}"), re.compile(r"INF|\+Infinity")
_BLANKS = "".join(map(chr, range(0x21)))
_NO_DIGITS = re.compile("[eE].*|[-.]")
# A double is exactly told by so many digits, and has one text of so many.
_SURE_DIGITS = 15
_TINY = 1e-300
_QUOTED = ('"NaN"', '"Infinity"', '"-Infinity"')


class _Rejected(Exception):
    """A record has this verdict: "reason: detail"."""


class _Number(str):
    """A JSON number with a point or an exponent: Spark reads it as a double, and spells that in Java's way."""


def _whole(number: str) -> str:
    return "0" if number == "-0" else number


_JSON = json.JSONDecoder(object_pairs_hook=tuple, parse_float=_Number, parse_int=_whole, parse_constant=str)


def read_odd(lines: pa.Table, stream: Stream, layouts: tuple[Layout, ...], schema: pa.Schema) -> _OddLines:
    """Return rows of ``schema`` with reason, detail and record, of lines as ``numbered.LINE_SCHEMA`` has them.

    Cost: some 20 microseconds a field.
    """
    reader, is_known = _Reader(stream, layouts), np.zeros(lines.num_rows, np.bool_)
    found: list[dict[str, Any]] = []
    for place, line in enumerate(lines.to_pylist()):
        try:
            found += reader.rows(line)
        except Unsure:
            continue
        is_known[place] = True
    judged = {"reason": pa.string(), "detail": pa.string(), "record": pa.binary()}
    names = pa.schema([*schema, *(pa.field(name, kind) for name, kind in judged.items())])
    return _OddLines(pa.Table.from_pylist(found, names), is_known)


@dataclass(frozen=True)
class _OddLines:
    """The rows of those lines whose verdict is known, and which of the lines these are."""

    rows: pa.Table
    is_known: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Reader:
    """What judges the lines of one batch."""

    stream: Stream
    layouts: tuple[Layout, ...]

    @cached_property
    def wanted(self) -> FieldMap:
        return FieldMap.of(self.stream)

    @cached_property
    def nulls(self) -> frozenset[str]:
        return frozenset(self.stream.source.nulls)

    def rows(self, line: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return a line's rows: their values where they are good, else why they are not, and the line's bytes."""
        row = {"source_file": line["source_file"], "source_line": line["source_line"], "source_item": 0}
        try:
            items = self._texts(line)
        except _Rejected as verdict:
            return [row | _rejected(verdict, line)]
        return [row | {"source_item": n} | self._judged(texts, n, line) for n, texts in enumerate(items)]

    def _judged(self, texts: Texts, item: int, line: Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = self._typed(texts)
        except _Rejected as verdict:
            return _rejected(verdict, line)
        if self.stream.identity_is_record:
            values["record_hash"] = record_hash(line["record"], item, self.stream)
        return values

    def _texts(self, line: Mapping[str, Any]) -> list[Texts]:
        """Return the wanted texts of each row of a line."""
        if line["fault"] is not None:
            raise _Rejected(line["fault"])
        try:
            text = line["record"].decode()
        except UnicodeDecodeError:
            raise _Rejected("bad_utf8: the record is not UTF-8") from None
        is_csv = self.stream.source.format == "csv"
        items = self._delimited(text, line) if is_csv else [self._json(text)]
        columns = self.wanted.fields.items()
        path = located(self.stream.source.path, line["source_file"])
        told = {name: column.from_file(path) for name, column in columns if column.file}
        return [
            {name: None if text in self.nulls else text for name, text in (item | told).items()}
            for item in items
        ]

    def _delimited(self, text: str, line: Mapping[str, Any]) -> list[Texts]:
        """Return the wanted texts of each row of a delimited line."""
        layout = self.layouts[line["layout"]]
        if not layout:
            raise _Rejected("missing_column: the file names no fields")
        wanted = self.wanted.of_records
        at = {name: _place(wanted, name, layout) for name in wanted.fields}
        lacks = [wanted.path(n) for n, p in at.items() if p is None and not wanted.fields[n].optional]
        if lacks:
            told = f"{', '.join(map(repr, lacks))} not among {', '.join(layout)[:500]}"
            raise _Rejected(f"missing_column: {told}")
        if self.stream.source.quote * 2 in text and "" not in self.nulls:
            # Whether quotes around nothing are a text or none.
            raise Unsure
        cut = _cut(text, self.stream.source.separator, self.stream.source.quote)
        if len(cut) != len(layout):
            file = line["source_file"].rpartition("/")[2]
            raise _Rejected(f"{file.join(expected_fields(layout, self.stream.source))}{len(cut)}")
        texts = {name: None if place is None else cut[place] for name, place in at.items()}
        return [texts] if self.wanted.unpivot is None else self._items(texts, cut, layout)

    def _items(self, texts: Texts, cut: list[str | None], layout: tuple[str, ...]) -> list[Texts]:
        channels, told = self.wanted.channels(layout), self.wanted.of_items
        if not channels:
            raise _Rejected(no_items(self.wanted))
        pairs = ({"name": layout[n], "value": cut[n]} for n in channels)
        return [texts | {name: pair[each] for name, each in told.items()} for pair in pairs]

    def _json(self, text: str) -> Texts:
        """Return the wanted texts of a JSON object."""
        members = _members(text)
        if members is None:
            raise _Rejected(NO_OBJECT)
        wanted = self.wanted.of_records
        met = Counter(name for name, _ in members)
        for path in map(wanted.path, wanted.fields):
            if met[path] > 1:
                raise _Rejected(repeated(path))
        return {name: _member(members, wanted.path(name), self._kind(name)) for name in wanted.fields}

    def _kind(self, name: str) -> str:
        return "time" if name in (EVENT, ARRIVAL, PLUS) else sql_type(self.wanted.fields[name])

    def _typed(self, texts: Texts) -> dict[str, Any]:
        """Return the values of a row, in the order in which ``rows.py`` looks for what is wrong."""
        event = self._event(texts[EVENT])
        values: dict[str, Any] = {"event_us": event, "arrival_us": self._arrival(texts, event)}
        for name, column in self.stream.all_columns.items():
            values[name] = _judged(name, texts[name], column)
        return values

    def _event(self, text: str | None) -> int:
        time, (low, high) = self.stream.event_time, self.stream.event_time_bounds
        if text is None:
            raise _Rejected(f"no_event_time: {time.column} is missing")
        event = time_of(text, time)
        if event is None:
            raise _wrong("bad_event_time", time.column, text, f"expected unit {time.unit}")
        if not low <= event < high:
            if isinstance(text, _Number):
                raise Unsure
            raise _Rejected(out_of_bounds(text, event, self.stream))
        listed_us = self.stream.listed_us
        if listed_us is not None and event - listed_us > self.stream.ahead_us:
            span = spelled_duration((event - listed_us) // 1_000_000 * 1_000_000)
            raise _Rejected(f"{EVENT_IS}{span}{ahead_of_listing(self.stream)}")
        is_twice = clock_change(text, time)
        if is_twice is not None:
            raise _Rejected(changed_clock(text, time, is_twice))
        return event

    def _arrival(self, texts: Texts, event: int) -> int | None:
        time = self.stream.arrival_time
        text = None if time is None else texts[ARRIVAL]
        if time is None or text is None:
            return None
        arrival, more = time_of(text, time), texts[PLUS] if time.plus else None
        if arrival is not None and more is not None:
            seconds = scaled(more, 1_000_000)
            arrival = None if seconds is None or not is_long(arrival + seconds) else arrival + seconds
        if arrival is None:
            raise _wrong("bad_arrival_time", time.column, text, f"expected unit {time.unit}")
        self._judge_clock(arrival, event)
        return arrival

    def _judge_clock(self, arrival: int, event: int) -> None:
        bounds, delay = self.stream.clock_bounds, arrival - event
        if bounds is None or -bounds.ahead <= delay <= bounds.behind:
            return
        ahead, behind = off_arrival(bounds)
        raise _Rejected(f"{EVENT_IS}{spelled_duration(abs(delay))}{ahead if delay < 0 else behind}")


def _rejected(verdict: _Rejected, line: Mapping[str, Any]) -> dict[str, Any]:
    reason, _, detail = str(verdict).partition(":")
    return {"reason": reason, "detail": detail.strip(" "), "record": line["record"]}


def _wrong(reason: str, name: str, text: str, expected: str) -> _Rejected:
    if isinstance(text, _Number):
        raise Unsure
    return _Rejected(f"{reason}: {name} is '{text[:100]}', {expected}")


def _judged(name: str, text: str | None, column: Column) -> Value:
    """Return a column's value, None where it is missing or not finite."""
    value = None if text is None else value_of(text, column)
    is_judged = column.type != "string" and column.unreadable == "rejected"
    if value is None and text is not None and is_judged:
        is_exact = column.type == "int" or sql_type(column).startswith("decimal")
        if not (is_exact and is_special(text)):
            raise _wrong("bad_value", name, text, f"expected {column.type}")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _place(wanted: FieldMap, name: str, layout: tuple[str, ...]) -> int | None:
    position, path = wanted.fields[name].position, wanted.path(name)
    if position is not None:
        return position if position < len(layout) else None
    return layout.index(path) if path in layout else None


def _cut(text: str, separator: str, quote: str) -> list[str | None]:
    """Return the fields of a delimited line, None for empty ones."""
    if "\x00" in text or not text.strip(_BLANKS):
        raise Unsure
    if quote not in text:
        return [field.strip(_BLANKS) or None for field in text.split(separator)]
    fields, at = list[str | None](), 0
    field = _field(separator, quote)
    while found := field.match(text, at):
        quoted, bare = found["quoted"], found["bare"]
        is_bare = quoted is None
        fields.append(
            (bare.strip(_BLANKS) if is_bare else quoted.replace(quote * 2, quote).strip(" ")) or None
        )
        at = found.end() + 1
        if found.end() == len(text):
            return fields
    # Quotes that do not end, or not with the field.
    raise Unsure


@cache
def _field(separator: str, quote: str) -> re.Pattern[str]:
    """Return what takes a field, with quotes around it or not beginning with one, up to the separator or the end."""
    sign, other = re.escape(quote), re.escape(separator)
    quoted = rf"{sign}(?P<quoted>(?:[^{sign}]|{sign}{sign})*+){sign}"
    return re.compile(
        rf"(?:[ \t]*+{quoted}[ \t]*+|(?P<bare>(?![\x00-\x20]*{sign})[^{other}]*+))(?={other}|\Z)", re.DOTALL
    )


def _members(text: str) -> tuple[tuple[str, Any], ...] | None:
    """Return the members of a JSON object, None where the text is not one and nothing else."""
    if len(text) > _LONGEST or text.count("{") + text.count("[") > _DEEPEST or _LONG_NUMBER.search(text):
        raise Unsure
    inner = text.strip(" \t\r\n")
    try:
        value, end = _JSON.raw_decode(inner)
    except ValueError:
        # Spark's parser also takes single quotes, and more names for infinity.
        if "'" in text or _JAVA_NUMBER.search(text):
            raise Unsure from None
        return None
    rest = inner[end:].strip(" \t\r\n")
    if rest.startswith("]"):
        raise Unsure
    return None if rest or not inner.startswith("{") else value


def _member(members: tuple[tuple[str, Any], ...], path: str, kind: str) -> str | None:
    value = next((value for name, value in members if name == path), None)
    # How Spark writes what is nested is another matter.
    if isinstance(value, tuple | list):
        raise Unsure
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return None
    if isinstance(value, _Number):
        return _spelled(value, kind)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Unsure
    # As ``fields.py`` unwraps what Spark makes of a bare NaN.
    return str(value.strip('"') if value in _QUOTED else value).strip(" ")


def _spelled(number: _Number, kind: str) -> str:
    """Return how Java spells the double, or a text of the same value that must not be shown."""
    digits, value = _NO_DIGITS.sub("", number).lstrip("0"), float(number)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if (len(digits) <= _SURE_DIGITS and 1e-3 <= abs(value) < 1e7) or not digits:
        return repr(value)
    if kind == "double" or (len(digits) <= _SURE_DIGITS and abs(value) > _TINY and kind != "string"):
        return number
    raise Unsure
