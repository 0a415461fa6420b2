"""A series as lines of text: a column per bucket, its value as a dot on the shade of its interval.

Series by key stand one under the other on the same axes: laid over each other, 80 columns of dots say nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakehouse.catalog.durations import format_duration

if TYPE_CHECKING:
    from lakehouse.serving.series import Bucket, Series

HEIGHT = 16
# How many series a chart of so many rows is for: few have room, many must still be seen at once.
_LOWER = ((1, HEIGHT), (3, 11), (6, 6))
_LOWEST = 4
LABEL = 12
VALUE, BAND = "●", "░"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plot_columns() -> int:
    """Return how many buckets the terminal has room for; 80 columns where there is none."""
    return max(10, shutil.get_terminal_size().columns - LABEL - 2)


def chart(series: Series) -> list[str]:
    """Return the lines of a chart as wide as its buckets are many."""
    return charts([series])


def charts(several: Sequence[Series]) -> list[str]:
    """Return the lines of one chart per series, one under the other, with one value span and one axis of time."""
    low, high = value_span([bucket for series in several for bucket in series.buckets])
    height = next((rows for most, rows in _LOWER if len(several) <= most), _LOWEST)
    columns = len(several[0].buckets)
    lines = [title(several[0]), ""]
    for series in several:
        if series.key:
            lines.append(f"{'':{LABEL + 1}}┌─ {_cut(key_text(series), plot_columns() - 3)}")
        lines += _area(series.buckets, low, high, height)
    lines.append(" " * (LABEL + 1) + "└" + "─" * columns)
    lines += [_times(several[0], columns), "", f"{VALUE} value   {BAND} {sides(several)}"]
    return lines


def _area(buckets: Sequence[Bucket], low: float, high: float, height: int) -> Iterator[str]:
    columns = [_column(bucket, low, high, height) for bucket in buckets]
    for row in range(height):
        is_told = row % 5 == 0 or row == height - 1
        label = f"{high - (high - low) * row / (height - 1):.6g}" if is_told else ""
        drawn = "".join(column[height - 1 - row] for column in columns)
        yield f"{label:>{LABEL}} {'┤' if label else '│'}{drawn}".rstrip()


def title(series: Series) -> str:
    """Return what is shown: the aggregate, the stream, the keys asked for and by, and the length of a bucket."""
    asked = series.question
    keys = "".join(f", {name}={value}" for name, value in asked.where.items())
    by = f" by {', '.join(asked.by)}" if asked.by else ""
    bucket = series.buckets[0]
    length = span(bucket.to_us - bucket.from_us)
    return _printable(f"{asked.aggregate}({asked.measure}) of {asked.stream}{by}{keys}, per {length}")


def key_text(series: Series) -> str:
    """Return the values of a series' keys, as a table of answers shows them."""
    return _printable(", ".join("-" if value is None else value or '""' for value in series.key.values()))


def _printable(text: str) -> str:
    # A stream's or key's name may hold control characters, which a terminal would obey.
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def span(length_us: int) -> str:
    """Return a length of time in the largest unit that makes it one or more.

    >>> span(90_000_000), span(60_000_000), span(1_500)
    ('1.5m', '1m', '1.5ms')
    """
    units = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
    size = next((unit for unit in units if length_us >= unit), 1)
    return f"{length_us / size:.3g}{format_duration(size)[1:]}"


def sides(several: Sequence[Series]) -> str:
    """Return how sure the values are, in words."""
    buckets = [bucket for series in several for bucket in series.buckets]
    exact = sum(bucket.exact for bucket in buckets)
    return f"interval sure to hold the truth; {exact} of {len(buckets)} buckets exact"


def value_span(buckets: Sequence[Bucket]) -> tuple[float, float]:
    """Return the smallest and largest number to show, with room where they are one; 0 to 1 without any."""
    numbers = [n for bucket in buckets for n in (bucket.value, bucket.low, bucket.high) if n is not None]
    if not numbers:
        return 0.0, 1.0
    low, high = min(numbers), max(numbers)
    room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return low - room, high + room


def _column(bucket: Bucket, low: float, high: float, height: int) -> str:
    """Return one column of characters from the bottom up; a side that is not known is drawn to the edge."""
    if bucket.value is None and bucket.low is None and bucket.high is None:
        return " " * height
    bottom = 0 if bucket.low is None else _row(bucket.low, low, high, height)
    top = height - 1 if bucket.high is None else _row(bucket.high, low, high, height)
    cells = [BAND if bottom <= row <= top and not bucket.exact else " " for row in range(height)]
    if bucket.value is not None:
        cells[_row(bucket.value, low, high, height)] = VALUE
    return "".join(cells)


def _row(value: float, low: float, high: float, height: int) -> int:
    return min(max(round((value - low) / (high - low) * (height - 1)), 0), height - 1)


def utc(time_us: int) -> str:
    """Return an instant in UTC, to the minute or as finely as it needs."""
    moment = _EPOCH + timedelta(microseconds=time_us)
    return moment.strftime("%Y-%m-%d %H:%M" if time_us % 60_000_000 == 0 else "%Y-%m-%d %H:%M:%S")


def _times(series: Series, columns: int) -> str:
    start, end = utc(series.question.start_us), f"{utc(series.question.end_us)} UTC"
    gap = max(2, columns - len(start) - len(end))
    return f"{'':{LABEL + 2}}{start}{'':{gap}}{end}"
