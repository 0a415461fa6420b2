"""Timestamps as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def format_timestamp(time_us: int, separator: str = " ") -> str:
    """Return a timestamp to the second, in UTC; with "T" between date and time the command line reads it back.

    >>> format_timestamp(1_594_620_000_000_000), format_timestamp(-1, "T")
    ('2020-07-13 06:00:00', '1969-12-31T23:59:59')
    """
    return datetime.fromtimestamp(time_us // 10**6, UTC).strftime(f"%Y-%m-%d{separator}%H:%M:%S")
