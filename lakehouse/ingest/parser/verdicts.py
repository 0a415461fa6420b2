"""Sentences about rejected records.

A verdict is "reason: detail". Where it needs values of the record, its parts are given here.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta

from lakehouse.config.durations import format_duration, format_timestamp, spelled_duration
from lakehouse.config.lines import Unpivot
from lakehouse.config.stream import ClockBounds, Source, Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.texts import Value
from lakehouse.ingest.sources.manifest import Layout
from lakehouse.storage.doubtful import AMBIGUOUS

DAY_US = 86_400_000_000
# A unit of time has so many thousands of the next one.
_UNITS = ("s", "ms", "us", "ns")
# The calendar is the same again after so many years and days.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
_EPOCH = date(1970, 1, 1)
# No fault: the record was read before, in a file of another name, and is a duplicate.
READ_BEFORE = "read_before"
# No fault either: the record is none of those that the stream is about.
FILTERED = "filtered"
# What divides the fields of a header that looks like one field.
_SEPARATORS = ";\t|,"
NO_OBJECT = "malformed: expected one JSON object"
MISQUOTED = "quotes that do not end with their field"


class Rejected(Exception):
    """A record, or a row of it, has this verdict: "reason: detail"; ``values``: columns that it has nevertheless."""

    def __init__(self, verdict: str, values: Mapping[str, Value] | None = None) -> None:
        super().__init__(verdict)
        self.values = values or {}


def expected_object(path: str, found: str) -> str:
    """Return the verdict on a JSON record that has something else than an object where a path leads through."""
    expected = "expected an object; a list has values only where explode names it"
    return f"bad_value: {path} is '{found[:100]}', {expected}"


def repeated(path: str) -> str:
    """Return the verdict on a JSON record that has a member more than once."""
    return f"malformed: the record has the member {path!r} more than once"


def missing_columns(absent: Sequence[str], layout: Layout) -> str:
    """Return the verdict on a record whose header lacks wanted fields, or names none."""
    if not layout:
        return "missing_column: the file names no fields"
    names = ", ".join(map(repr, dict.fromkeys(absent)))
    other = next((mark for mark in _SEPARATORS if len(layout) == 1 and mark in layout[0]), None)
    hint = f": the header is one field, which separator = {other!r} would cut" if other else ""
    return f"missing_column: {names} not among {', '.join(layout)[:500]}{hint}"


def no_items(unpivot: Unpivot | None) -> str:
    """Return the verdict on a wide record none of whose fields is a row."""
    return f"no_items: no field of the header matches {unpivot.columns if unpivot else ''}"


def expected_fields(layout: Layout, source: Source, path: str, found: str) -> str:
    """Return the verdict on a record with another number of fields than its file, or the declaration, names."""
    if source.kind == "kafka":
        where = "source.fields"
    else:
        line = "the #fields" if source.format == "zeek" else "line 1"
        where = f"{line} of {path.rpartition('/')[2]}"
    return f"malformed: expected {len(layout or ())} fields, as in {where}, found {found}"


def ahead_of_listing(ahead_us: int, stream: Stream) -> str:
    """Return the verdict on an event time that is so far ahead of when its record was listed."""
    span, most = spelled_duration(ahead_us // 1_000_000 * 1_000_000), format_duration(stream.ahead_us)
    return f"clock: event time is {span} ahead of when its record was listed; expected at most {most} (clock_bounds)"


def off_arrival(delay_us: int, bounds: ClockBounds) -> str:
    """Return the verdict on an event time that its arrival is too long behind, or, below zero, before."""
    side, most = ("ahead of", bounds.ahead) if delay_us < 0 else ("behind", bounds.behind)
    span = spelled_duration(abs(delay_us))
    return f"clock: event time is {span} {side} its arrival; expected at most {format_duration(most)} (clock_bounds)"


def _in_unit(event_us: int, power: int) -> int:
    """Return a time that was read in one unit as if read in one of a power of 1000, rounded towards zero."""
    factor: int = 1000 ** abs(power)
    if power >= 0:
        return event_us * factor
    whole = abs(event_us) // factor
    return whole if event_us >= 0 else -whole


def date_text(event_us: int) -> str:
    """Return the UTC date of any time of 64 bits.

    >>> date_text(0), date_text(1767225600000000000)
    ('1970-01-01', '57971-02-25')
    """
    cycles, days = divmod(event_us // DAY_US, _CYCLE_DAYS)
    day = _EPOCH + timedelta(days=days)
    return f"{day.year + cycles * _CYCLE_YEARS}-{day.month:02d}-{day.day:02d}"


def out_of_bounds(text: str, event_us: int, stream: Stream) -> str:
    """Return the verdict on a time that is read from a text, and not within the stream's bounds."""
    time, (low, high) = stream.event_time, stream.event_time_bounds
    first, end = (format_timestamp(each).removesuffix(" 00:00:00") for each in (low, high))
    read = f"out_of_bounds: {time.column} is '{text[:100]}', read as {time.format or time.unit}: {date_text(event_us)}"
    verdict = f"{read}, expected {first} to {end} (event_time_bounds)"
    own = None if time.is_local else _UNITS.index(time.unit)
    for number, unit in enumerate(_UNITS):
        moved = event_us if own is None else _in_unit(event_us, own - number)
        if number != own and low <= moved < high:
            return f"{verdict}; the unit may be wrong: as {unit} it is {date_text(moved)}"
    return verdict


def changed_clock(text: str, time: TimeColumn, is_twice: bool) -> str:
    """Return the verdict on a local time that the clocks of its zone show twice, or never, as they are changed."""
    reason, told = (AMBIGUOUS, "comes twice") if is_twice else ("skipped_time", "the clocks skip")
    where = f"in {time.timezone}; expected an offset, such as +01:00"
    return f"{reason}: {time.column} is '{text[:100]}', which {told} {where}"
