"""A text -> a value: what numbers, truths and times are, however a record spells them.

docs/sources.md says it for people. Whole numbers, decimals and times are exact. Times are whole microseconds since the
epoch.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from lakehouse.algorithms.ingest.zones import zone_of
from lakehouse.config.columns import Column, sql_type
from lakehouse.config.times import TimeColumn

Value = str | int | float | bool | Decimal | None
# What is dropped around every text.
BLANKS = " \t"
# No number has more letters, or more places before or behind its point by its exponent.
LONGEST_NUMBER, _MOST_EXPONENT = 1000, 999
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SPECIAL = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE | re.ASCII)
_ISO = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<part>[0-9]+))?)?"
    r" ?(?P<offset>[Zz]|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
# The calendar is the same again after so many years and days; Python's has no year 0.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
# From the first day of the year 1 to that of 1970.
_FIRST_DAYS, _DAY_US = 719_162, 86_400_000_000
_MOST_OFFSET_MINUTES = 18 * 60
_EXACT = Context(prec=3 * LONGEST_NUMBER)
_DIGITS = 38
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_FACTORS = {"s": Decimal(1_000_000), "ms": Decimal(1_000), "us": Decimal(1), "ns": Decimal("0.001")}


def value_of(text: str, column: Column) -> Value:
    """Return the value of a column, None where the text is not of its type; a double may not be finite."""
    kind = sql_type(column)
    if kind == "string":
        return text
    readers: dict[str, Callable[[str], Value]] = {"boolean": _truth, "bigint": _whole, "double": _double}
    return readers[kind](text) if kind in readers else _decimal(text, column.decimals or 0)


def time_of(text: str, time: TimeColumn) -> int | None:
    """Return the microseconds of a time, rounded down, None where the text is none.

    A local time that its zone's clocks show twice is the first of the two.
    """
    moment = _moment(text, time) if time.is_local else scaled(text, _FACTORS[time.unit])
    return None if moment is None or not is_long(moment + time.shift) else moment + time.shift


def _moment(text: str, time: TimeColumn) -> int | None:
    shown = _shown(text)
    if shown is None:
        return None
    wall, offset = shown
    if offset is None:
        return wall - utc_offset(wall, time.timezone)
    away = offset_us(offset)
    return None if away is None else wall - away


def clock_change(text: str, time: TimeColumn) -> bool | None:
    """Return whether a local time comes twice as its zone's clocks are changed (True), or never (False), None if once.

    A text with an offset names one moment, whatever the clocks show.
    """
    shown = _shown(text) if time.is_local and time.timezone != "UTC" else None
    if shown is None or shown[1] is not None:
        return None
    first, second = (utc_offset(shown[0], time.timezone, fold) for fold in (0, 1))
    return None if first == second else first > second


def local_time(text: str) -> int | None:
    """Return the microseconds that clocks show, None where the text is no time, or has no clock time, or an offset."""
    shown = _shown(text) if ":" in text else None
    return None if shown is None or shown[1] is not None else shown[0]


def utc_offset(wall_us: int, zone: str, fold: int = 0) -> int:
    """Return by how many microseconds the clocks of a zone are ahead of UTC when they show a time.

    Where they show it twice, ``fold`` is 0 for the first and 1 for the second; where never, they are as before, or
    after, their change.
    """
    if zone == "UTC":
        return 0
    days, rest = divmod(wall_us, _DAY_US)
    shown = _EPOCH + timedelta(days + _CYCLE_DAYS * (days < -_FIRST_DAYS), microseconds=rest)
    away = zone_of(zone).utcoffset(shown.replace(tzinfo=None, fold=fold))
    return (away or timedelta()) // _MICROSECOND


def scaled(text: str, factor: Decimal) -> int | None:
    """Return a number times a factor, rounded down; None where the text is no number or the product too large."""
    number = _number(text)
    if number is None:
        return None
    product = int(_EXACT.multiply(number, factor).to_integral_value(ROUND_FLOOR))
    return product if is_long(product) else None


def is_special(text: str) -> bool:
    """Return whether a text stands for no finite number, which is a value that is missing, not a bad one."""
    return _SPECIAL.fullmatch(text) is not None


def _truth(text: str) -> bool | None:
    return text.lower() in _TRUE if text.lower() in (*_TRUE, *_FALSE) else None


def _whole(text: str) -> int | None:
    if len(text) > LONGEST_NUMBER or not _INTEGER.fullmatch(text):
        return None
    return int(text) if is_long(int(text)) else None


def is_long(number: int) -> bool:
    """Return whether a whole number fits into 64 bits."""
    return -(2**63) <= number < 2**63


def _double(text: str) -> float | None:
    return float(text) if _is_number(text) or is_special(text) else None


def _is_number(text: str) -> bool:
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    return match is not None and abs(int(match[1] or 0)) <= _MOST_EXPONENT


def _number(text: str) -> Decimal | None:
    """Return a number, exactly."""
    return Decimal(text) if _is_number(text) else None


def _decimal(text: str, scale: int) -> Decimal | None:
    number = _number(text)
    if number is None:
        return None
    rounded = number.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, _EXACT)
    return rounded if len(rounded.as_tuple().digits) <= _DIGITS else None


def _shown(text: str) -> tuple[int, str | None] | None:
    """Return the microseconds that clocks show, and the offset from UTC that the text names; None if it is no time."""
    match = _ISO.fullmatch(text)
    if not match:
        return None
    year, month, day = map(int, match["date"].split("-"))
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    try:
        shown = datetime(year + _CYCLE_YEARS * (year == 0), month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    micros = (shown - _EPOCH) // _MICROSECOND + int((match["part"] or "0")[:6].ljust(6, "0"))
    return micros - _CYCLE_DAYS * (year == 0) * _DAY_US, match["offset"]


def offset_us(text: str) -> int | None:
    """Return the microseconds of an offset from UTC, such as Z or -02:30; None of one that no place has."""
    if text in ("Z", "z", "UTC"):
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or 0)
    if minutes > 59 or hours * 60 + minutes > _MOST_OFFSET_MINUTES:
        return None
    return (-1 if text[0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000
