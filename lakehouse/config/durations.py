"""Timestamps as people read them, and durations ("90s", "4h48m", "2d", "forever") as microseconds."""

import re
from datetime import UTC, datetime, timedelta

MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 7 * 86_400_000_000,
    "y": 365 * 86_400_000_000,
}
# Times are 64-bit integers; a tenth of their span leaves room to add and subtract.
LONGEST = 29_000 * MICROSECONDS["y"]
# How far a time may be ahead unless declared: clocks of a zone that is not declared are up to fourteen hours ahead.
AHEAD_US = MICROSECONDS["d"]
# What a measured duration is spelled in, longest first: years would hide that they are of 365 days.
SPELLED = ("d", "h", "m", "s", "ms", "us")
_PART = re.compile(r"(\d+)\s*(us|ms|[smhdwy])\s*")
_DURATION = re.compile(rf"\s*(?:{_PART.pattern})+")
EXPECTED = 'whole numbers with units (us, ms, s, m, h, d, w, y), such as "4h48m"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_duration(text: str, least: int = 1) -> int:
    """Return the microseconds of a duration such as ``"90s"`` or ``"4h48m"``; a year is 365 days.

    Raises ValueError when the text is no whole numbers with units, less than ``least``, or longer than a time can be.
    """
    parts = _PART.findall(text) if _DURATION.fullmatch(text) else []
    microseconds = sum(int(count) * MICROSECONDS[unit] for count, unit in parts)
    if not parts or microseconds < least:
        raise ValueError(f"expected {EXPECTED}")
    if microseconds > LONGEST:
        raise ValueError(f"expected at most {format_duration(LONGEST)}")
    return microseconds


def format_duration(microseconds: int | None) -> str:
    """Return the shortest whole spelling of a duration, ``"forever"`` for None."""
    if microseconds is None:
        return "forever"
    if not microseconds:
        return "0s"
    for unit in ("y", "d", "h", "m", "s", "ms"):
        if microseconds % MICROSECONDS[unit] == 0:
            return f"{microseconds // MICROSECONDS[unit]}{unit}"
    return f"{microseconds}us"


def spelled_duration(microseconds: int) -> str:
    """Return a measured duration in every unit that it has a part of.

    >>> spelled_duration(10_800_000_000), spelled_duration(93_600_000_500), spelled_duration(0)
    ('3h', '1d2h500us', '0s')
    """
    parts, left = [], microseconds
    for unit in SPELLED:
        count, left = divmod(left, MICROSECONDS[unit])
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def format_timestamp(time_us: int, separator: str = " ") -> str:
    """Return a timestamp to the second, in UTC; with "T" between date and time the command line reads it back.

    >>> format_timestamp(1_594_620_000_000_000), format_timestamp(-1, "T")
    ('2020-07-13 06:00:00', '1969-12-31T23:59:59')
    """
    return datetime.fromtimestamp(time_us // 10**6, UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")


def iso_timestamp(time_us: int) -> str:
    """Return a timestamp in UTC as ISO text, to the microsecond where it is no full second; all that is asked reads it.

    What is before the year 1 or after 9999 has no such text: it is told in microseconds since 1970.

    >>> iso_timestamp(1_594_620_000_000_000), iso_timestamp(1), iso_timestamp(10**18)
    ('2020-07-13T06:00:00+00:00', '1970-01-01T00:00:00.000001+00:00', '1000000000000000000 us')
    """
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return f"{time_us} us"
