"""A series as lines of text: a column per bucket, its value as a dot on the shade of its interval."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakehouse.catalog.durations import format_duration

if TYPE_CHECKING:
    from lakehouse.serving.series import Bucket, Series

HEIGHT = 16
LABEL = 12
VALUE, BAND = "●", "░"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plot_columns() -> int:
    """Return how many buckets the terminal has room for; 80 columns where there is none."""
    return max(10, shutil.get_terminal_size().columns - LABEL - 2)


def chart(series: Series) -> list[str]:
    """Return the lines of a chart as wide as its buckets are many."""
    low, high = value_span(series.buckets)
    columns = [_column(bucket, low, high) for bucket in series.buckets]
    lines = [title(series), ""]
    for row in range(HEIGHT):
        label = f"{high - (high - low) * row / (HEIGHT - 1):.6g}" if row % 5 == 0 else ""
        drawn = "".join(column[HEIGHT - 1 - row] for column in columns)
        lines.append(f"{label:>{LABEL}} {'┤' if label else '│'}{drawn}".rstrip())
    lines.append(" " * (LABEL + 1) + "└" + "─" * len(columns))
    lines += [_times(series, len(columns)), "", f"{VALUE} value   {BAND} {sides(series)}"]
    return lines


def title(series: Series) -> str:
    """Return what is shown: the aggregate, the stream, the keys asked for and the length of a bucket."""
    asked = series.question
    keys = "".join(f", {name}={value}" for name, value in asked.where.items())
    bucket = series.buckets[0]
    text = f"{asked.aggregate}({asked.measure}) of {asked.stream}{keys}, per {span(bucket.to_us - bucket.from_us)}"
    # A stream's or key's name may hold control characters, which a terminal would obey.
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def span(length_us: int) -> str:
    """Return a length of time in the largest unit that makes it one or more.

    >>> span(90_000_000), span(60_000_000), span(1_500)
    ('1.5m', '1m', '1.5ms')
    """
    units = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
    size = next((unit for unit in units if length_us >= unit), 1)
    return f"{length_us / size:.3g}{format_duration(size)[1:]}"


def sides(series: Series) -> str:
    """Return how sure the values are, in words."""
    exact = sum(bucket.exact for bucket in series.buckets)
    return f"interval sure to hold the truth; {exact} of {len(series.buckets)} buckets exact"


def value_span(buckets: Sequence[Bucket]) -> tuple[float, float]:
    """Return the smallest and largest number to show, with room where they are one; 0 to 1 without any."""
    numbers = [n for bucket in buckets for n in (bucket.value, bucket.low, bucket.high) if n is not None]
    if not numbers:
        return 0.0, 1.0
    low, high = min(numbers), max(numbers)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _column(bucket: Bucket, low: float, high: float) -> str:
    """Return one column of characters from the bottom up; a side that is not known is drawn to the edge."""
    if bucket.value is None and bucket.low is None and bucket.high is None:
        return " " * HEIGHT
    bottom = 0 if bucket.low is None else _row(bucket.low, low, high)
    top = HEIGHT - 1 if bucket.high is None else _row(bucket.high, low, high)
    cells = [BAND if bottom <= row <= top and not bucket.exact else " " for row in range(HEIGHT)]
    if bucket.value is not None:
        cells[_row(bucket.value, low, high)] = VALUE
    return "".join(cells)


def _row(value: float, low: float, high: float) -> int:
    return min(max(round((value - low) / (high - low) * (HEIGHT - 1)), 0), HEIGHT - 1)


def utc(time_us: int) -> str:
    """Return an instant in UTC, to the minute or as finely as it needs."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.strftime("%Y-%m-%d %H:%M" if time_us % 60_000_000 == 0 else "%Y-%m-%d %H:%M:%S")


def _times(series: Series, columns: int) -> str:
    start, end = utc(series.question.start_us), f"{utc(series.question.end_us)} UTC"
    gap = max(2, columns - len(start) - len(end))
    return f"{'':{LABEL + 2}}{start}{'':{gap}}{end}"
