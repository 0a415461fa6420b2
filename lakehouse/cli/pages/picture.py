"""Content of a chart, however it is drawn: lines over the same columns and axes, each with values and a band.

In a terminal it is lines of text: a column per bucket, its value as a dot on the shade of its band. Lines of a chart
stand one under the other on the same axes: laid over each other, 80 columns of dots say nothing.
"""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.cli.output import printable
from lakehouse.cli.pages.figures import span, utc
from lakehouse.serving.ask.answer_series import AnswerSeries, TickBucket
from lakehouse.serving.ask.series import Bucket, Series

# Between such numbers and their opposites axes leave what a double can hold.
_TOO_LARGE = 1e307
HEIGHT = 16
# How many lines a chart of so many rows is for: few have room, many must still be seen at once.
_LOWER = ((1, HEIGHT), (3, 11), (6, 6))
_LOWEST = 4
LABEL = 12
VALUE, BAND, OPEN = "●", "░", "╌"


@dataclass(frozen=True)
class Line:
    """One line, of one key; the key of a line that is alone may be empty."""

    key: Mapping[str, str | None]
    buckets: Sequence[Bucket]

    @property
    def name(self) -> str:
        """The values of its key, as a table of answers shows them."""
        return named(self.key)


@dataclass(frozen=True)
class Picture:
    """Lines over ``[start_us, end_us)``; ``subtitle``: where they are from, ``band``: what their bands are, in words.

    ``note``: what else a reader must know, or nothing. ``has_ticks``: whether a bucket is a column of a query's ticks.
    ``final``: how many of the columns, from the first on, cannot change any more; None where nothing is said of it.
    """

    title: str
    subtitle: str
    band: str
    start_us: int
    end_us: int
    lines: Sequence[Line]
    has_ticks: bool = False
    final: int | None = None
    note: str = ""

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.lines[0].buckets)

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and largest number to show, with room where they are one; 0 to 1 without any."""
        numbers = list(self._numbers())
        if not numbers:
            return 0.0, 1.0
        low, high = min(numbers), max(numbers)
        room = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
        return low - room, high + room

    @property
    def facts(self) -> dict[str, Any]:
        """Rows that the part ``series`` of a page draws: one per bucket, line by line."""
        rows = [vars(bucket) | {"key": line.key} for line in self.lines for bucket in line.buckets]
        return {"label": self.title, "rows": rows, "ticks": self.has_ticks}

    def _numbers(self) -> Iterator[float]:
        for line in self.lines:
            for bucket in line.buckets:
                yield from (n for n in (bucket.value, bucket.low, bucket.high) if n is not None)


def picture_of(several: Sequence[Series]) -> Picture:
    """Return the picture of one series, or of several by key."""
    asked, first = several[0].question, several[0]
    by = f" by {', '.join(asked.by)}" if asked.by else ""
    what = f"{asked.aggregate}({asked.measure}) of {asked.stream}"
    title = f"{what}{by}{_keys(asked.where)}, per {_length(first.buckets)}"
    grouping = ", ".join(first.grouping) or "all keys together"
    subtitle = (
        f"{utc(asked.start_us)} to {utc(asked.end_us)} UTC · answered from the grouping by {grouping} · "
        f"version {first.as_of_version} · {sum(series.nodes_read for series in several):,} nodes read"
    )
    buckets = [bucket for series in several for bucket in series.buckets]
    exact = sum(bucket.exact for bucket in buckets)
    band = f"interval sure to hold the truth; {exact} of {len(buckets)} buckets exact"
    lines = [Line(series.key, series.buckets) for series in several]
    between, note = (asked.start_us, asked.end_us), printable(first.withheld or "")
    return Picture(printable(title), subtitle, band, *between, lines, note=note)


def picture_of_answers(several: Sequence[AnswerSeries]) -> Picture:
    """Return the picture of a join-aggregate's output, a line per group."""
    asked, first = several[0].question, several[0].buckets
    by = f" by {', '.join(asked.groups)}" if asked.groups else ""
    lines = [Line(series.key, list(map(_drawn, series.buckets))) for series in several]
    title = f"{asked.output} of {asked.query}{by}{_keys(asked.where)}, per {_length(lines[0].buckets)}"
    end_us = first[-1].to_us
    return Picture(
        title=printable(title),
        subtitle=f"{utc(first[0].from_us)} to {utc(end_us)} UTC · the value at a column's last tick",
        band="from the least to the greatest of all ticks",
        start_us=first[0].from_us,
        end_us=end_us,
        lines=lines,
        has_ticks=True,
        final=next((number for number, bucket in enumerate(first) if not bucket.final), len(first)),
    )


def _drawn(bucket: TickBucket) -> Bucket:
    value, low, high = map(_drawable, (bucket.value, bucket.low, bucket.high))
    is_one = low is not None and low == high
    return Bucket(
        bucket.from_us, bucket.to_us, value, low, high, is_one, None, bucket.ticks, bucket.final, None
    )


def _drawable(number: float | None) -> float | None:
    """Return a number that has a place on an axis; sums of doubles may have left what those hold."""
    return number if number is not None and math.isfinite(number) and abs(number) < _TOO_LARGE else None


def _keys(where: Mapping[str, str | None]) -> str:
    return "".join(f", {name}={value}" for name, value in where.items())


def _length(buckets: Sequence[Bucket]) -> str:
    return span(buckets[0].to_us - buckets[0].from_us)


def named(key: Mapping[str, str | None]) -> str:
    """Return the values of a key, as a table of answers shows them."""
    return printable(", ".join("-" if value is None else value or '""' for value in key.values()))


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
    return [*lines, picture.note] if picture.note else lines


def _area(buckets: Sequence[Bucket], low: float, high: float, height: int) -> Iterator[str]:
    columns = [_column(bucket, low, high, height) for bucket in buckets]
    for row in range(height):
        is_labelled = row % 5 == 0 or row == height - 1
        label = f"{high - (high - low) * row / (height - 1):.6g}" if is_labelled else ""
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
