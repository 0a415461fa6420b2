"""The event time among columns of texts: its unit or format, in one column or in two."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa

from lakehouse.algorithms.ingest.zones import is_zone
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.plain_values import clock_times
from lakehouse.ingest.parser.spelt_times import iso_texts, pattern_of
from lakehouse.ingest.parser.texts import time_of
from lakehouse.propose.sample import Sample

_NAMED = re.compile(
    r"time|date|stamp|(^|[^a-z])(ts|at|when|day|datum|zeit|uhr|heure|fecha|hora|tijd|data|epoch|tst)([^a-z]|$)",
    re.IGNORECASE,
)
_DATES = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d.%m.%Y",
    "%d.%m.%y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%y/%m/%d",
    "%y-%m-%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%d %b %Y",
    "%b %d %Y",
    "%b %d, %Y",
    "%Y%m%d",
    "%Y-%j",
    "%Y%j",
    "%Y %j",
    "%Y %m %d",
]
_CLOCKS = [
    "",
    " %H:%M:%S",
    " %H:%M",
    " %H:%M:%S.%f",
    " %H:%M:%S,%f",
    " %I:%M:%S %p",
    " %I:%M %p",
    " %H",
    " %H.%M.%S",
    "T%H:%M:%S",
    "T%H:%M",
    "T%H:%M:%S.%f",
    "T%H%M%S",
    " %H%M%S",
    " %k",
    "%H%M%S",
    "%H%M",
    "-%H:%M:%S",
    "_%H:%M:%S",
]
_OFFSETS = ("", "%z", " %z")
_CLOCK_ONLY = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?", re.IGNORECASE)
# Digits alone may be anything.
_CLOCK_NUMBER, _CLOCK_NAMED = (
    re.compile(r"\d{3,4}"),
    re.compile(r"time|clock|hh|hour|stunde|zeit|uhr", re.IGNORECASE),
)
# A column that is named like a time may have texts that are none, such as those of a clock that was never set.
_ALL, _LEAST_DIFFERENT = 0.8, 2
_LEAST_S, BOUNDS_S, _END_S = 631_152_000, 946_684_800, 4_102_444_800  # 1990, 2000 and 2100
_POWERS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EXCEL = (32_874, 73_051)  # 1990 and 2100
_DIFFERENT_US = 60_000_000
_ASKED = 500
# Some countries are names of zones, too.
_ZONE_TEXT = re.compile(r"UTC|GMT|[A-Z][A-Za-z_]+/[A-Za-z0-9_/+-]+|[+-]\d\d:[0-5]\d")
_ZONE = re.compile(
    r"\b(?:GMT|UTC)(?: ?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?)?(?![A-Za-z0-9])"
)
_ARRIVAL = re.compile(r"receiv|arriv|ingest|server|upload|insert", re.IGNORECASE)
_DIGITS = re.compile(r"\d.*\d.*\d")


@dataclass
class Time:
    """An event time: what the declaration says of it, microseconds of the sample's rows, and what is not sure.

    ``lacks_offset``: some text says of no offset from UTC. ``others``: columns that could be the event time, too.
    ``arrival``: when rows were received, where a column says so. ``span_us``: how far the last row of the sample is
    from its first ones.
    """

    declared: dict[str, Any]
    micros: list[int]
    doubts: list[str] = field(default_factory=list)
    lacks_offset: bool = False
    others: tuple[str, ...] = ()
    span_us: int = 0
    arrival: Time | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it is read from."""
        return tuple(self.declared.get("columns", (self.declared.get("column"),)))

    @property
    def is_old(self) -> bool:
        """True if most times are before those that a declaration takes unless it says otherwise."""
        return 2 * sum(each < BOUNDS_S * 10**6 for each in self.micros) > len(self.micros)

    @property
    def step_us(self) -> int:
        """The usual distance of two rows, 0 where they have one time."""
        steps = sorted(right - left for left, right in pairwise(sorted(set(self.micros))))
        return steps[len(steps) // 2] if steps else 0

    @property
    def most_late_us(self) -> int:
        """The longest time from an event to its arrival, 0 where none is known."""
        late = zip(self.arrival.micros, self.micros, strict=True) if self.arrival else ()
        return max((received - event for received, event in late), default=0)


def event_time_of(sample: Sample, is_sure: bool = True) -> Time | None:
    """Return the event time of a sample, None where no column is one.

    ``is_sure``: of a column that is named like a time and has one in each text, or else also of others.
    """
    found = [time for name in sample.names if (time := _of_column(sample, name, is_sure)) is not None]
    if is_sure and not any(_NAMED.search(time.names[0]) for time in found):
        return None
    found.sort(key=lambda time: not _NAMED.search(time.names[0]))
    if not found:
        return None
    time = found[0]
    time.span_us = _span_of(sample, time)
    time.arrival = next((other for other in found[1:] if _is_arrival(other, time)), None)
    if time.arrival:
        time.doubts.append(f"{time.arrival.names[0]} is read as the time of arrival")
    time.others = tuple(other.names[0] for other in found[1:])
    if doubtful := [other.names[0] for other in found[1:] if other is not time.arrival]:
        time.doubts.append(f"{', '.join(doubtful)} could be the event time, too")
    return time


def _is_arrival(other: Time, event: Time) -> bool:
    """Return whether a column is named like a time of arrival, and in each row not before the event."""
    if len(other.names) > 1 or not _ARRIVAL.search(other.names[0]) or _ARRIVAL.search(event.names[0]):
        return False
    if len(other.micros) != len(event.micros):
        return False
    return all(received >= at for received, at in zip(other.micros, event.micros, strict=True))


def _span_of(sample: Sample, time: Time) -> int:
    """Return how far the first and last times of a sample are apart, as far as its last row has one."""
    last = [sample.rows[-1][sample.names.index(name)].strip() for name in time.names]
    column = TimeColumn.model_validate(time.declared)
    [text] = iso_texts(pa.array([" ".join(last)], pa.string()), column).to_pylist()
    micros = time_of(text, column) if text else None
    return abs(micros - time.micros[0]) if micros is not None and time.micros else 0


def zone_in_names(names: Sequence[str]) -> str | None:
    """Return the zone that names of columns tell of, such as ``Date Time, GMT-06:00``; None of parts of an hour.

    >>> zone_in_names(["Date Time, GMT-06:00"]), zone_in_names(["Time (UTC)"]), zone_in_names(["UTC+05:30"])
    ('Etc/GMT+6', 'UTC', None)
    """
    match = _ZONE.search(" ".join(names))
    if match is None or match["minutes"] not in (None, "00"):
        return None
    hours = int(match["hours"] or 0)
    # The names of such zones count hours to the west.
    return f"Etc/GMT{'-' if match['sign'] == '+' else '+'}{hours}" if hours else "UTC"


def zone_column(sample: Sample) -> str | None:
    """Return the column that has the zone of each row, by its name such as ``Europe/Paris``, or its offset."""
    for name in sample.names:
        texts = set(sample.column(name)[:_ASKED])
        if texts and all(_ZONE_TEXT.fullmatch(text) and is_zone(text) for text in texts):
            return name
    return None


def _of_column(sample: Sample, name: str, is_sure: bool) -> Time | None:
    texts = sample.column(name)[:_ASKED]
    if not texts:
        return None
    if all(re.fullmatch(r"\d+(\.\d+)?", text) for text in texts):
        return _of_numbers(name, texts, sample)
    with_clock = _with_clock(sample, name, texts)
    share = _ALL if not is_sure and _NAMED.search(name) else 1.0
    return with_clock or _of_texts({"column": name}, texts, share)


def _of_numbers(name: str, texts: Sequence[str], sample: Sample) -> Time | None:
    values = [float(text) for text in texts]
    for unit, power in _POWERS.items():
        if all(_LEAST_S * power <= value < _END_S * power for value in values):
            time = _time({"column": name, "unit": unit}, texts)
            if not _NAMED.search(name):
                time.doubts.append(f"{name} is not named like a time, but its numbers rise like one")
            is_rising = _is_steady(time.micros) and len(set(values)) > max(
                _LEAST_DIFFERENT, len(values) // 100
            )
            return time if _NAMED.search(name) or is_rising else None
    if _NAMED.search(name) and all(_EXCEL[0] <= value < _EXCEL[1] for value in values):
        time = _time({"column": name, "unit": "excel"}, texts)
        time.doubts.append("numbers are read as days of a spreadsheet")
        return time
    return _of_texts({"column": name}, texts) if _NAMED.search(name) and len(texts[0]) >= 8 else None


def _with_clock(sample: Sample, name: str, texts: Sequence[str]) -> Time | None:
    """Return the time of a column of dates and the next one, if that is of clock times."""
    at = sample.names.index(name) + 1
    if sample.format != "csv" or at >= len(sample.names) or any(":" in text for text in texts):
        return None
    clock, rows = sample.names[at], [row for row in sample.rows if row[at - 1].strip() and row[at].strip()]
    clocks = [row[at].strip() for row in rows]
    is_clock = all(map(_CLOCK_ONLY.fullmatch, clocks))
    is_clock |= bool(_CLOCK_NAMED.search(clock)) and all(map(_CLOCK_NUMBER.fullmatch, clocks))
    if not rows or not is_clock:
        return None
    return _of_texts(
        {"columns": [name, clock]}, [f"{row[at - 1].strip()} {row[at].strip()}" for row in rows][:_ASKED]
    )


def _of_texts(place: dict[str, Any], texts: Sequence[str], share: float = 1.0) -> Time | None:
    """Return the time of texts, of which a share at least are one if they are ISO times."""
    iso = _time(place | {"unit": "iso"}, texts)
    if len(iso.micros) >= share * len(texts):
        least = -_END_S if iso.is_old else BOUNDS_S
        if none := len(texts) - sum(each >= least * 10**6 for each in iso.micros):
            iso.doubts.append(f"{none} of {len(texts)} texts of {iso.names[0]} are no time that can be")
        walls, offsets = clock_times(pa.array(texts, pa.string()))
        iso.lacks_offset = not all(offsets.drop_null().to_pylist()) or walls.null_count > none
        return iso
    matching = list(_matching(place, tuple(texts)))
    if not matching:
        return None
    # Days that are read as months make a longer time of a file.
    matching.sort(key=lambda time: (not _is_steady(time.micros), _span(time), -len(time.declared["format"])))
    time = matching[0]
    for other in matching[1:]:
        if _is_steady(other.micros) == _is_steady(time.micros) and _differ(time.micros, other.micros):
            time.doubts.append(f"{texts[0]!r} could be of the format {other.declared['format']}, too")
            break
    time.lacks_offset = "%z" not in time.declared["format"]
    return time


def _matching(place: dict[str, Any], texts: tuple[str, ...]) -> Iterator[Time]:
    if not _DIGITS.search(texts[0]):
        return
    for form, pattern in _formats().items():
        if not pattern.match(texts[0]):
            continue
        declared = place | {"format": form}
        column = TimeColumn.model_validate(declared)
        shown = iso_texts(pa.array(texts, pa.string()), column)
        if not shown.null_count:
            micros = [time_of(text, column) for text in shown.to_pylist()]
            yield Time(declared, [each for each in micros if each is not None])


@cache
def _formats() -> dict[str, re.Pattern[str]]:
    forms = (
        date + clock + offset
        for date in _DATES
        for clock in _CLOCKS
        for offset in _OFFSETS
        if clock or not offset
    )
    return {form: re.compile(pattern_of(form)[0]) for form in forms}


def _time(declared: dict[str, Any], texts: Sequence[str]) -> Time:
    column = TimeColumn.model_validate(declared)
    usual = iso_texts(pa.array(texts, pa.string()), column).to_pylist()
    micros = [time_of(text, column) for text in usual if text is not None]
    return Time(
        declared, [each for each in micros if each is not None and 10**6 * -_END_S < each < 10**6 * _END_S]
    )


def _is_steady(micros: Sequence[int]) -> bool:
    """Return whether times nearly never step back, as those of one logger."""
    backs = sum(right < left for left, right in pairwise(micros))
    return backs <= len(micros) // 50


def _span(time: Time) -> int:
    return max(time.micros, default=0) - min(time.micros, default=0)


def _differ(left: Sequence[int], right: Sequence[int]) -> bool:
    return any(abs(one - other) > _DIFFERENT_US for one, other in zip(left, right, strict=True))
