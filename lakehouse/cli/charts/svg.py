"""Charts as inline SVG: a frame of equal columns over a span of values, its axes, stepped lines and bands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lakehouse.cli.pages.figures import utc

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1040, 460, 78, 1000, 14, 420
_STEPS_US = tuple(
    size * times
    for size, several in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000_000, (1, 2, 5, 10, 15, 30)),
        (60_000_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000_000, (1, 2, 3, 6, 12)),
        (86_400_000_000, (1, 2, 5, 7, 14, 28, 91, 182, 365, 730, 1826, 3652, 36525, 365250)),
    )
    for times in several
)
T = TypeVar("T")
# The ends of an interval, either unknown; None: there is no interval.
Interval = tuple[float | None, float | None]


@dataclass(frozen=True)
class Frame:
    """Where a chart is drawn: ``columns`` side by side, values from ``low`` at the bottom to ``high`` at the top."""

    columns: int
    low: float
    high: float
    bottom: int = BOTTOM

    def x(self, edge: float) -> float:
        """Return where a column begins; half a column further is its middle."""
        return round(LEFT + (RIGHT - LEFT) * edge / self.columns, 2)

    def y(self, value: float) -> float:
        """Return the height of a value."""
        return round(self.bottom - (self.bottom - TOP) * (value - self.low) / (self.high - self.low), 2)

    def value_axis(self, label: Callable[[float], str] | None = None) -> Iterator[str]:
        """Yield lines across at round values, each with its label."""
        for value, number in self._round_values():
            y = self.y(value)
            yield f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
            told = label(value) if label else number
            yield f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{told}</text>'

    def value_axis_right(self) -> Iterator[str]:
        """Yield labels at the right, for a second frame over the same columns."""
        for value, number in self._round_values():
            yield f'<text x="{RIGHT + 6}" y="{self.y(value) + 4}">{number}</text>'

    def _round_values(self) -> Iterator[tuple[float, str]]:
        step = nice_step((self.high - self.low) / 6)
        digits = max(0, -math.floor(math.log10(step)))
        for place in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            value = place * step
            yield value, f"{value:,.{digits}f}" if abs(value) < 1e8 else f"{value:.4g}"

    def time_axis(self, start_us: int, end_us: int) -> Iterator[str]:
        """Yield the line below and marks at round times."""
        length = end_us - start_us
        step = next((size for size in _STEPS_US if size * 7 >= length), _STEPS_US[-1])
        yield self.base_line()
        for at in range(-(-start_us // step) * step, end_us, step):
            day, _, clock = utc(at).partition(" ")
            x = round(LEFT + (at - start_us) / length * (RIGHT - LEFT), 1)
            yield from self.mark(x, (day, "") if step >= 86_400_000_000 else (clock, day))

    def base_line(self) -> str:
        """Return the line below the chart."""
        return f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{self.bottom}" y2="{self.bottom}"/>'

    def mark(self, x: float, lines: Sequence[str]) -> Iterator[str]:
        """Yield a mark on the line below, with lines of text under it."""
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{self.bottom}" y2="{self.bottom + 5}"/>'
        for row, text in enumerate(lines):
            yield f'<text x="{x}" y="{self.bottom + 19 + 15 * row}" text-anchor="middle">{text}</text>'

    def lines(self, values: Sequence[float | None]) -> Iterator[str]:
        """Yield one stepped path per run of columns that have a value."""
        for first, run in _runs(values):
            points = [
                f"{self.x(first + place + side)} {self.y(value)}"
                for place, value in enumerate(run)
                for side in (0, 1)
            ]
            yield "M" + "L".join(points)

    def bands(self, intervals: Sequence[Interval | None]) -> Iterator[str]:
        """Yield one closed path per run of columns that have an interval; an unknown side reaches the edge."""
        for first, run in _runs(intervals):
            tops = [TOP if high is None else self.y(high) for _, high in run]
            bottoms = [self.bottom if low is None else self.y(low) for low, _ in run]
            edges = [self.x(first + place) for place in range(len(run) + 1)]
            over = "".join(f"L{edges[i]} {y}L{edges[i + 1]} {y}" for i, y in enumerate(tops))
            under = "".join(
                f"L{edges[i + 1]} {y}L{edges[i]} {y}" for i, y in reversed(list(enumerate(bottoms)))
            )
            yield f"M{edges[0]} {bottoms[0]}{over}{under}Z"


def nice_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least as large as asked.

    >>> nice_step(0.13), nice_step(4), nice_step(1)
    (0.2, 5.0, 1.0)
    """
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next((times * power for times in (1, 2, 5) if times * power >= rough), 10 * power)


def asset(name: str) -> str:
    """Return the text of a style or script that lies beside this file."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _runs(values: Sequence[T | None]) -> Iterator[tuple[int, list[T]]]:
    run: list[T] = []
    for place, value in enumerate(values):
        if value is not None:
            run.append(value)
        elif run:
            yield place - len(run), run
            run = []
    if run:
        yield len(values) - len(run), run
