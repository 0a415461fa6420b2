"""Durations as people write them ("90s", "1h", "2d", "1y", "forever") and as we store them (microseconds)."""

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
_DURATION = re.compile(r"^\s*(\d+)\s*(us|ms|s|m|h|d|w|y)\s*$")
EXPECTED = 'a whole number and a unit of us, ms, s, m, h, d, w or y, such as "90s" or "2d"'


def parse_duration(text: str) -> int:
    """Return the microseconds of a duration such as ``"90s"``; a year is 365 days.

    Raises:
        ValueError: when the text is not a whole number followed by a unit, is zero, or longer than a time can be.
    """
    found = _DURATION.match(text)
    if not found or int(found[1]) == 0:
        raise ValueError(f"expected {EXPECTED}")
    microseconds = int(found[1]) * MICROSECONDS[found[2]]
    if microseconds > LONGEST:
        raise ValueError(f"expected at most {format_duration(LONGEST)}")
    return microseconds


def format_duration(microseconds: int | None) -> str:
    """Return the shortest whole spelling of a duration, ``"forever"`` for None."""
    if microseconds is None:
        return "forever"
    for unit in ("y", "d", "h", "m", "s", "ms"):
        if microseconds and microseconds % MICROSECONDS[unit] == 0:
            return f"{microseconds // MICROSECONDS[unit]}{unit}"
    return f"{microseconds}us"
