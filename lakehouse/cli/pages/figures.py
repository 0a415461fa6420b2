"""How figures are written: shares, lengths of time, when something ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakehouse.cli.charts.terminal_chart import span
from lakehouse.cli.pages.status_page import age


def share(value: float) -> str:
    """Return a share with as many digits as tell it from 1.

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
