"""Text of figures: shares, lengths of time, instants, ends."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse.cli.pages.status_page import age
from lakehouse.config.durations import format_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def share(value: float) -> str:
    """Return a share with as many digits as distinguish it from 1.

    >>> share(0.95), share(0.99994), share(1.0)
    ('0.95', '0.99994', '1')
    """
    return f"{value:.5g}"


def length(time_us: float | None) -> str:
    """Return a length of time in two units, or finer when it is short.

    >>> length(None), length(0), length(1_500), length(90_000_000)
    ('-', '0', '1.5ms', '1 min 30 s')
    """
    if time_us is None:
        return "-"
    if time_us >= 60_000_000:
        return age(time_us / 1e6)
    return span(round(time_us)) if round(time_us) else "0"


def ended_at(row: Mapping[str, Any]) -> str:
    """Return when a batch or repair was finished."""
    return f"{row['committed_at']:%Y-%m-%d %H:%M:%S}"


def span(length_us: int) -> str:
    """Return a length of time in the largest unit that makes it one or more.

    >>> span(90_000_000), span(60_000_000), span(1_500)
    ('1.5m', '1m', '1.5ms')
    """
    units = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
    size = next((unit for unit in units if length_us >= unit), 1)
    return f"{length_us / size:.3g}{format_duration(size)[1:]}"


def utc(time_us: int) -> str:
    """Return an instant in UTC, to the minute or as finely as it needs."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.strftime("%Y-%m-%d %H:%M" if time_us % 60_000_000 == 0 else "%Y-%m-%d %H:%M:%S")
