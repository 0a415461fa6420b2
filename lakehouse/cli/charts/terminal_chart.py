"""A picture as lines of text: a column per bucket, its value as a dot on the shade of its band.

Its lines stand one under the other on the same axes: laid over each other, 80 columns of dots say nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakehouse.cli.pages.figures import utc

if TYPE_CHECKING:
    from lakehouse.cli.charts.picture import Picture
    from lakehouse.serving.ask.series import Bucket

HEIGHT = 16
# How many lines a chart of so many rows is for: few have room, many must still be seen at once.
_LOWER = ((1, HEIGHT), (3, 11), (6, 6))
_LOWEST = 4
LABEL = 12
VALUE, BAND, OPEN = "●", "░", "╌"


def plot_columns() -> int:
    """Return how many buckets the terminal has room for; 80 columns where there is none."""
    return max(10, shutil.get_terminal_size().columns - LABEL - 2)


def charts(picture: Picture) -> list[str]:
    """Return one chart per line, one under the other, with one span of values and one axis of time."""
    low, high = picture.span
    several, columns = picture.lines, picture.columns
    height = next((rows for most, rows in _LOWER if len(several) <= most), _LOWEST)
    lines = [picture.title, ""]
    for line in several:
        if line.name:
            lines.append(f"{'':{LABEL + 1}}┌─ {_cut(line.name, plot_columns() - 3)}")
        lines += _area(line.buckets, low, high, height)
    final = columns if picture.final is None else picture.final
    lines.append(" " * (LABEL + 1) + "└" + "─" * final + OPEN * (columns - final))
    lines += [_times(picture), "", f"{VALUE} value   {BAND} {picture.band}"]
    if final < columns:
        lines.append(f"{OPEN} may still change")
    return lines


def _area(buckets: Sequence[Bucket], low: float, high: float, height: int) -> Iterator[str]:
    columns = [_column(bucket, low, high, height) for bucket in buckets]
    for row in range(height):
        is_told = row % 5 == 0 or row == height - 1
        label = f"{high - (high - low) * row / (height - 1):.6g}" if is_told else ""
        drawn = "".join(column[height - 1 - row] for column in columns)
        yield f"{label:>{LABEL}} {'┤' if label else '│'}{drawn}".rstrip()


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


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


def _times(picture: Picture) -> str:
    start, end = utc(picture.start_us), f"{utc(picture.end_us)} UTC"
    gap = max(2, picture.columns - len(start) - len(end))
    return f"{'':{LABEL + 2}}{start}{'':{gap}}{end}"
