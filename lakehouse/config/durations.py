"""Durations as people write them ("90s", "4h48m", "2d", "1y", "forever") and as we store them (microseconds)."""

from __future__ import annotations

import re

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


def parse_duration(text: str, least: int = 1) -> int:
    """Return the microseconds of a duration such as ``"90s"`` or ``"4h48m"``; a year is 365 days.

    Raises:
        ValueError: when the text is no whole numbers with units, less than ``least``, or longer than a time can be.
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
