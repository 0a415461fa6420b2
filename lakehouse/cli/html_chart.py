"""Series as one page: inline SVG, a little style and script, nothing from elsewhere; works from a file, offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.cli.terminal_chart import key_text, sides, title, utc, value_span

if TYPE_CHECKING:
    from lakehouse.serving.series import Bucket, Series

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


def page(series: Series) -> str:
    """Return the whole page of one series as text."""
    return page_of([series])


def page_of(several: Sequence[Series]) -> str:
    """Return the whole page of series by key as text; a legend shows and hides them."""
    heading = escape(title(several[0]))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title><style>{_asset("chart.css")}</style></head>
<body><main><h1>{heading}</h1><p>{escape(_told(several))}</p>
<figure>{_svg(several)}<div id="tip" role="status"></div></figure>
<div class="key">{_legend(several)}<span><i></i>{escape(sides(several))}</span></div>
</main><script type="application/json" id="series">{_data(several)}</script>
<script>{_asset("chart.js")}</script></body></html>
"""


def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _told(several: Sequence[Series]) -> str:
    first = several[0]
    grouping = ", ".join(first.grouping) or "all keys together"
    return (
        f"{utc(first.question.start_us)} to {utc(first.question.end_us)} UTC · "
        f"answered from the grouping by {grouping} · version {first.as_of_version} · "
        f"{sum(series.nodes_read for series in several):,} nodes read"
    )


def _legend(several: Sequence[Series]) -> str:
    """Return what the lines are: buttons where there are several to show and hide."""
    if not several[0].key:
        return '<span><i class="value"></i>value</span>'
    return "".join(
        f'<button type="button" class="of{place}" aria-pressed="true"><i></i>{escape(key_text(series))}</button>'
        for place, series in enumerate(several)
    )


def _data(several: Sequence[Series]) -> str:
    low, high = _span(several)
    document: dict[str, Any] = {
        **{"left": LEFT, "right": RIGHT, "top": TOP},
        "times": [[utc(bucket.from_us), utc(bucket.to_us)] for bucket in several[0].buckets],
        "series": [
            {"key": key_text(series), "buckets": [_row(bucket, low, high) for bucket in series.buckets]}
            for series in several
        ],
    }
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")


def _row(bucket: Bucket, low: float, high: float) -> dict[str, Any]:
    y = None if bucket.value is None else _y(bucket.value, low, high)
    return {name: getattr(bucket, name) for name in ("value", "low", "high", "exact", "rows")} | {"y": y}


def _span(several: Sequence[Series]) -> tuple[float, float]:
    return value_span([bucket for series in several for bucket in series.buckets])


def _svg(several: Sequence[Series]) -> str:
    low, high = _span(several)
    asked = several[0].question
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title(several[0]))}">',
        *_value_axis(low, high),
        *_time_axis(asked.start_us, asked.end_us),
        f'<line class="mark" y1="{TOP}" y2="{BOTTOM}"/>',
        *(part for place, series in enumerate(several) for part in _group(series, place, low, high)),
        "</svg>",
    ]
    return "\n".join(parts)


def _group(series: Series, place: int, low: float, high: float) -> Iterator[str]:
    yield f'<g class="series of{place}">'
    yield from (f'<path class="band" d="{path}"/>' for path in _bands(series.buckets, low, high))
    yield from (f'<path class="line" d="{path}"/>' for path in _lines(series.buckets, low, high))
    yield '<circle class="dot" r="5"/></g>'


def _value_axis(low: float, high: float) -> Iterator[str]:
    step = nice_step((high - low) / 6)
    digits = max(0, -math.floor(math.log10(step)))
    for place in range(math.ceil(low / step), math.floor(high / step) + 1):
        y = _y(place * step, low, high)
        label = f"{place * step:,.{digits}f}" if abs(place * step) < 1e8 else f"{place * step:.4g}"
        yield f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{label}</text>'


def nice_step(rough: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least as large as asked.

    >>> nice_step(0.13), nice_step(4), nice_step(1)
    (0.2, 5.0, 1.0)
    """
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next((times * power for times in (1, 2, 5) if times * power >= rough), 10 * power)


def _time_axis(start_us: int, end_us: int) -> Iterator[str]:
    length = end_us - start_us
    step = next((size for size in _STEPS_US if size * 7 >= length), _STEPS_US[-1])
    yield f'<line class="axis" x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}"/>'
    for at in range(-(-start_us // step) * step, end_us, step):
        x = round(LEFT + (at - start_us) / length * (RIGHT - LEFT), 1)
        day, _, clock = utc(at).partition(" ")
        lines = (day, "") if step >= 86_400_000_000 else (clock, day)
        yield f'<line class="axis" x1="{x}" x2="{x}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>'
        for row, text in enumerate(lines):
            yield f'<text x="{x}" y="{BOTTOM + 19 + 15 * row}" text-anchor="middle">{text}</text>'


def _bands(buckets: list[Bucket], low: float, high: float) -> Iterator[str]:
    """Yield one closed path per run of buckets that have an interval; an unknown side reaches the edge."""
    for first, run in _runs(buckets, "low", "high"):
        tops = [TOP if bucket.high is None else _y(bucket.high, low, high) for bucket in run]
        bottoms = [BOTTOM if bucket.low is None else _y(bucket.low, low, high) for bucket in run]
        edges = [_x(first + place, len(buckets)) for place in range(len(run) + 1)]
        over = "".join(f"L{edges[i]} {y}L{edges[i + 1]} {y}" for i, y in enumerate(tops))
        under = "".join(f"L{edges[i + 1]} {y}L{edges[i]} {y}" for i, y in reversed(list(enumerate(bottoms))))
        yield f"M{edges[0]} {bottoms[0]}{over}{under}Z"


def _lines(buckets: list[Bucket], low: float, high: float) -> Iterator[str]:
    """Yield one stepped path per run of buckets that have a value."""
    for first, run in _runs(buckets, "value"):
        points = [
            f"{_x(first + place + side, len(buckets))} {_y(bucket.value or 0.0, low, high)}"
            for place, bucket in enumerate(run)
            for side in (0, 1)
        ]
        yield "M" + "L".join(points)


def _runs(buckets: list[Bucket], *names: str) -> Iterator[tuple[int, list[Bucket]]]:
    first = 0
    run: list[Bucket] = []
    for place, bucket in enumerate(buckets):
        if any(getattr(bucket, name) is not None for name in names):
            first, run = (first if run else place), [*run, bucket]
        elif run:
            yield first, run
            run = []
    if run:
        yield first, run


def _x(edge: int, count: int) -> float:
    return round(LEFT + (RIGHT - LEFT) * edge / count, 2)


def _y(value: float, low: float, high: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low), 2)
