"""Times in a declared format, in several columns, of a spreadsheet, or with a fallback -> one ISO text or number each.

All rows at once, in numpy. What is no time of the format is null here; the row is rejected with the text as it stood.
"""

import re
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.config.times import TimeColumn
from lakehouse.ingest.parser.field_map import ARRIVAL, EVENT, LOCAL, OTHER, SINCE, SPELT, ZONE, time_fields
from lakehouse.ingest.parser.placed_times import in_zones, read_moments, shown_texts, since
from lakehouse.ingest.parser.plain_values import arrivals, within_bounds, within_clock_bounds

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG = ("uary", "ruary", "ch", "il", "", "e", "y", "ust", "tember", "ober", "ember", "ember")
_NAMES = "|".join(f"{month}(?:{rest})?" for month, rest in zip(_MONTHS, _LONG, strict=True))
_PATTERNS = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",
    "m": "[0-9]{1,2}",
    "b": f"(?i:{_NAMES})",
    "d": "[0-9]{1,2}",
    "j": "[0-9]{1,3}",
    "H": "[0-9]{1,2}",
    "I": "[0-9]{1,2}",
    "p": "(?i:[ap]\\.?m\\.?)",
    "M": "[0-9]{2}",
    "S": "[0-9]{2}",
    "f": "[0-9]{1,9}",
    "z": "Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?",
    "k": "[0-9]{1,4}",
}
_BLANKS = "[ \\t]+"
# Years of two digits from here on are of the century before.
_PIVOT = 69
_DAY_US, _HOUR_US, _MINUTE_US = 86_400_000_000, 3_600_000_000, 60_000_000
# The day 0 of spreadsheets; since they took 1900 for a leap year it is right from March 1900 on.
_EXCEL_US = -25_569 * _DAY_US
_NUMBER = r"^[0-9]{1,7}(?:\.[0-9]{1,17})?$"
# Days of spreadsheets are doubles: their last digits are less than a millisecond.
_DAY_MS, _MS_US = 86_400_000, 1_000


def read_times(texts: dict[str, pa.Array], stream: Stream, listed: pa.Array | None) -> dict[str, pa.Array]:
    """Return the texts of rows, of times in the usual form; as they stood they have ``SPELT`` names."""
    found = {}
    # A clock of an event is judged by its arrival.
    for name, time in ((ARRIVAL, stream.arrival_time), (EVENT, stream.event_time)):
        if time is None or not time.is_spelt:
            continue
        parts = [texts[each] for each in time_fields(name, time)]
        joined = pc.binary_join_element_wise(*parts, " ") if len(parts) > 1 else parts[0]
        found[SPELT + name], found[LOCAL + name] = joined, iso_texts(joined, time)
        found[name] = _placed(found[LOCAL + name], name, texts, time)
        if time.fallback is not None:
            arrival = pa.nulls(len(joined), pa.int64())
            if name == EVENT:
                arrival = arrivals(texts | found, stream, len(joined))[0]
            others = iso_texts(texts[name + OTHER], time)
            is_right = pa.array(_are_right(found[name], time, stream, listed, arrival))
            found[LOCAL + name] = pc.if_else(is_right, found[LOCAL + name], others)
            found[name] = pc.if_else(is_right, found[name], _placed(others, name, texts, time))
    return texts | found


def _placed(local: pa.Array, name: str, texts: dict[str, pa.Array], time: TimeColumn) -> pa.Array:
    """Return times of which the record tells the zone, or the start, as UTC; all others as they are."""
    if time.since is None:
        return in_zones(local, texts[name + ZONE]) if time.timezone_column else local
    starts = texts[name + SINCE] if time.format is None else formatted_texts(texts[name + SINCE], time.format)
    return since(local, in_zones(starts, texts[name + ZONE]) if time.timezone_column else starts, time)


def _are_right(
    texts: pa.Array, time: TimeColumn, stream: Stream, listed: pa.Array | None, arrival: pa.Array
) -> Mask:
    """Return which texts are a time that the stream's bounds, its listing and its arrival allow."""
    micros, is_time, _ = read_moments(texts, time)
    is_time &= within_bounds(micros, stream, listed) & within_clock_bounds(micros, arrival, stream)
    return np.asarray(is_time)


def iso_texts(texts: pa.Array, time: TimeColumn) -> pa.Array:
    """Return ISO texts of the times, null where there is none or a text is none of the declared form."""
    if time.since or (time.format is None and time.unit != "excel"):
        return texts
    return formatted_texts(texts, time.format)


def formatted_texts(texts: pa.Array, form: str | None) -> pa.Array:
    """Return ISO texts of times of a format, or without one of spreadsheets' days."""
    micros, is_time, offset = _excel(texts) if form is None else _formatted(texts, form)
    return shown_texts(micros, is_time, offset)


@cache
def pattern_of(form: str) -> tuple[str, tuple[str, ...]]:
    """Return the regular expression of a format, whose groups are its codes, and the codes."""
    parts, codes, rest = list[str](), list[str](), form
    while rest:
        code = rest[1] if rest.startswith("%") and rest[1] != "%" else None
        if code == "*":
            parts.append(".*")
        elif code is not None:
            codes.append(code)
            # A field of its own may lack a zero; behind a colon it would be cut off.
            is_apart = code in "MS" and parts and parts[-1] == _BLANKS
            parts.append(f"(?P<{code}>{'[0-9]{1,2}' if is_apart else _PATTERNS[code]})")
        else:
            letter = "%" if rest.startswith("%%") else rest[0]
            parts.append(_BLANKS if letter in " \t" else re.escape(letter))
        rest = rest[1 if code is None and not rest.startswith("%%") else 2 :]
    return f"^{''.join(parts)}$", tuple(codes)


def _formatted(texts: pa.Array, form: str) -> tuple[Ints, Mask, pa.Array]:
    pattern, codes = pattern_of(form)
    groups = pc.extract_regex(texts, pattern)
    is_time = np.array(groups.is_valid())
    found = {code: pc.fill_null(pc.struct_field(groups, code), "") for code in codes}
    days, is_day = _days(found)
    clock, is_clock = _clock(found)
    return days * _DAY_US + clock, is_time & is_day & is_clock, _offsets(found.get("z", _nothing(texts)))


def _numbers(texts: pa.Array) -> Ints:
    """Return texts of digits as numbers, 0 where there is none."""
    kept = pc.if_else(pc.equal(texts, ""), "0", texts)
    return np.asarray(kept.cast(pa.int64()))


def _days(found: dict[str, pa.Array]) -> tuple[Ints, Mask]:
    """Return days since 1970, and which are days of the calendar."""
    if "Y" in found:
        years = _numbers(found["Y"])
    else:
        short = _numbers(found["y"])
        years = short + np.where(short >= _PIVOT, 1900, 2000)
    # numpy's own range is far wider; year 0 is none.
    starts = np.where(years > 0, years - 1970, 0).astype("datetime64[Y]")
    if "j" in found:
        number = _numbers(found["j"])
        days = starts.astype("datetime64[D]") + (number - 1)
        return days.astype(np.int64), (years > 0) & (number > 0) & (days.astype("datetime64[Y]") == starts)
    months = _named(found["b"]) if "b" in found else _numbers(found["m"])
    is_month = (months >= 1) & (months <= 12)
    firsts = starts.astype("datetime64[M]") + np.where(is_month, months - 1, 0)
    number = _numbers(found["d"])
    days = firsts.astype("datetime64[D]") + (number - 1)
    is_day = (number > 0) & (days.astype("datetime64[M]") == firsts)
    return days.astype(np.int64), (years > 0) & is_month & is_day


def _named(texts: pa.Array) -> Ints:
    short = pc.utf8_lower(pc.utf8_slice_codeunits(texts, 0, 3))
    return np.asarray(pc.fill_null(pc.index_in(short, pa.array(_MONTHS)), -1)).astype(np.int64) + 1


def _clock(found: dict[str, pa.Array]) -> tuple[Ints, Mask]:
    """Return microseconds of the day, and which are a time of day: 24:00 is its end, second 60 the next minute."""
    zero = np.zeros(len(next(iter(found.values()))), np.int64)
    hours, minutes = (_numbers(found[code]) if code in found else zero for code in ("H", "M"))
    if "k" in found:
        hours, minutes = np.divmod(_numbers(found["k"]), 100)
    is_right = np.ones(len(zero), np.bool_)
    if "I" in found:
        hours, is_late = _numbers(found["I"]), np.asarray(pc.match_substring_regex(found["p"], "^[pP]"))
        is_right = (hours >= 1) & (hours <= 12)
        hours = hours % 12 + 12 * is_late
    seconds = _numbers(found["S"]) if "S" in found else zero
    parts = (
        _numbers(pc.utf8_rpad(pc.utf8_slice_codeunits(found["f"], 0, 6), 6, "0")) if "f" in found else zero
    )
    is_end = (hours == 24) & (minutes == 0) & (seconds == 0) & (parts == 0)
    is_right &= ((hours < 24) | is_end) & (minutes < 60) & (seconds <= 60)
    return hours * _HOUR_US + minutes * _MINUTE_US + seconds * 1_000_000 + parts, is_right


def _offsets(texts: pa.Array) -> pa.Array:
    """Return offsets as ISO has them."""
    short = pc.replace_substring_regex(texts, "^([+-][0-9]{2})$", "\\1:00")
    joined = pc.replace_substring_regex(short, "^([+-][0-9]{2})([0-9]{2})$", "\\1:\\2")
    return pc.if_else(pc.equal(joined, "UTC"), "Z", joined)


def _excel(texts: pa.Array) -> tuple[Ints, Mask, pa.Array]:
    is_time = np.array(pc.fill_null(pc.match_substring_regex(texts, _NUMBER), False))
    days = pc.if_else(pa.array(is_time), texts, "0").cast(pa.float64()).to_numpy()
    millis = np.rint(days * _DAY_MS).astype(np.int64)
    return millis * _MS_US + _EXCEL_US, is_time, _nothing(texts)


def _nothing(texts: pa.Array) -> pa.Array:
    return pa.repeat("", len(texts))
