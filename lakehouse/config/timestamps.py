"""Timestamps as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
