"""A text -> a value, as Spark's casts in ``rows.py`` read it, without Spark.

Spark reads texts in many ways. What is certain is said here, value or none; of all others ``Unsure`` says that Spark
must be asked. Times are whole microseconds since the epoch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from lakehouse.declare.columns import Column, sql_type
from lakehouse.declare.stream import TimeColumn

Value = str | int | float | bool | Decimal | None
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SPECIAL = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)
# What may be a number to Java alone: hexadecimal, or with something around it.
_STRANGE = re.compile(r"[+-]?(?:0x|nan|inf)", re.IGNORECASE | re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
_ISO = re.compile(
    rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})[T ]{_CLOCK}(?P<offset>Z|[+-][0-9]{{2}}:[0-9]{{2}})?"
)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
# The calendar is the same again after so many years and days; Python's has no year 0.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
# From the first day of the year 1 to that of 1970.
_FIRST_DAYS, _DAY_US = 719_162, 86_400_000_000
_LONGEST, _MOST_EXPONENT = 1000, 999
_EXACT = Context(prec=3 * _LONGEST)
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_FACTORS = {"s": 1_000_000, "ms": 1_000, "us": 1}


class Unsure(Exception):
    """What Spark makes of this is not known here."""


def value_of(text: str, column: Column) -> Value:
    """Return the value of a column, None where the text is not of its type; a double may not be finite.

    Raises:
        Unsure: when only Spark can say.
    """
    kind = sql_type(column)
    if kind == "string":
        return text
    if _CONTROL.search(text):
        raise Unsure
    readers: dict[str, Callable[[str], Value]] = {"boolean": _truth, "bigint": _whole, "double": _double}
    return readers[kind](text) if kind in readers else _decimal(text, 38, column.decimals or 0)


def time_of(text: str, time: TimeColumn) -> int | None:
    """Return the microseconds of a time, rounded down, None where the text is none.

    Raises:
        Unsure: when only Spark can say.
    """
    if time.unit != "iso":
        return scaled(text, _FACTORS[time.unit])
    if not _DATED.match(text):
        return None
    found = _ISO.fullmatch(text)
    if not found:
        raise Unsure
    wall = _wall_clock(*found.groups()[:7])
    if wall is None:
        return None
    if found["offset"] is None:
        return wall - utc_offset(wall, time.timezone)
    away = offset_us(found["offset"])
    return None if away is None else wall - away


def clock_change(text: str, time: TimeColumn) -> bool | None:
    """Return whether a local time comes twice as its zone's clocks are changed (True), or never (False), None if once.

    A text with an offset names one moment, whatever the clocks show.
    """
    found = _ISO.fullmatch(text) if time.unit == "iso" and time.timezone != "UTC" else None
    wall = _wall_clock(*found.groups()[:7]) if found and found["offset"] is None else None
    if wall is None:
        return None
    first, second = (utc_offset(wall, time.timezone, fold) for fold in (0, 1))
    return None if first == second else first > second


def utc_offset(wall_us: int, zone: str, fold: int = 0) -> int:
    """Return by how many microseconds the clocks of a zone are ahead of UTC when they show a time.

    Where they show it twice, ``fold`` is 0 for the first and 1 for the second; where never, they are as before, or
    after, their change.
    """
    if zone == "UTC":
        return 0
    days, rest = divmod(wall_us, _DAY_US)
    cycles = -(days < -_FIRST_DAYS)
    shown = _EPOCH + timedelta(days - cycles * _CYCLE_DAYS, microseconds=rest)
    away = _zone(zone).utcoffset(shown.replace(tzinfo=None, fold=fold))
    return (away or timedelta()) // _MICROSECOND


@cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def scaled(text: str, factor: int) -> int | None:
    """Return a number times a factor, rounded down; None where the text is no number or the product too large.

    Raises:
        Unsure: when only Spark can say.
    """
    if _CONTROL.search(text):
        raise Unsure
    whole = _whole(text)
    if whole is not None and is_long(whole * factor):
        return whole * factor
    number = _decimal(text, 28, 9)
    if number is None:
        return None
    product = int(_EXACT.multiply(number, Decimal(factor)).to_integral_value(ROUND_FLOOR))
    return product if is_long(product) else None


def is_special(text: str) -> bool:
    """Return whether a text stands for no finite number, which is a value that is missing, not a bad one."""
    return _SPECIAL.fullmatch(text) is not None


def _truth(text: str) -> bool | None:
    return text.lower() in _TRUE if text.lower() in (*_TRUE, *_FALSE) else None


def _whole(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    if len(text) > _LONGEST:
        raise Unsure
    return int(text) if is_long(int(text)) else None


def is_long(number: int) -> bool:
    """Return whether a whole number fits into 64 bits."""
    return -(2**63) <= number < 2**63


def _double(text: str) -> float | None:
    if _NUMBER.fullmatch(text) or _SPECIAL.fullmatch(text):
        return float(text)
    if _STRANGE.match(text):
        raise Unsure
    # Java also reads "1d" as a number, which no sensor means; one that is too large is no number either way.
    if text[-1:] in ("d", "D", "f", "F") and _NUMBER.fullmatch(text[:-1]):
        return float(text[:-1]) if math.isinf(float(text[:-1])) else None
    return None


def _decimal(text: str, digits: int, scale: int) -> Decimal | None:
    found = _NUMBER.fullmatch(text)
    if len(text) > _LONGEST or (not text.isascii() and any(map(str.isdecimal, text))):
        # Java reads digits of any script.
        raise Unsure
    if not found:
        return None
    if abs(int(found[1] or 0)) > _MOST_EXPONENT:
        raise Unsure
    number = Decimal(text).quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
    return number if len(number.as_tuple().digits) <= digits else None


def _wall_clock(*found: Any) -> int | None:
    """Return the microseconds that clocks show, of year, month, day, hour, minute, second and its part."""
    year, month, day, hour, minute, second = map(int, found[:6])
    try:
        shown = datetime(year + _CYCLE_YEARS * (year == 0), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    micros = (shown - _EPOCH) // _MICROSECOND + int((found[6] or "0")[:6].ljust(6, "0"))
    return micros - _CYCLE_DAYS * (year == 0) * _DAY_US


def offset_us(text: str) -> int | None:
    """Return the microseconds of an offset from UTC, such as Z or -02:30."""
    if text == "Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[4:])
    if minutes > 59 or hours * 60 + minutes > 18 * 60:
        return None
    return (-1 if text[0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000
