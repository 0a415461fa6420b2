"""Series as one page: inline SVG, a little style and script, nothing from elsewhere; works from a file, offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from lakehouse.cli.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, Interval, asset
from lakehouse.cli.terminal_chart import key_text, sides, title, utc, value_span

if TYPE_CHECKING:
    from lakehouse.serving.series import Bucket, Series


def page(series: Series) -> str:
    """Return the whole page of one series as text."""
    return page_of([series])


def page_of(several: Sequence[Series]) -> str:
    """Return the whole page of series by key as text; a legend shows and hides them."""
    heading = escape(title(several[0]))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title><style>{asset("chart.css")}</style></head>
<body><main><h1>{heading}</h1><p>{escape(_told(several))}</p>
<figure>{_svg(several)}<div id="tip" class="tip" role="status"></div></figure>
<div class="key">{_legend(several)}<span><i></i>{escape(sides(several))}</span></div>
</main><script type="application/json" id="series">{_data(several)}</script>
<script>{asset("chart.js")}</script></body></html>
"""


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
    frame = _frame(several)
    document: dict[str, Any] = {
        **{"left": LEFT, "right": RIGHT, "top": TOP},
        "times": [[utc(bucket.from_us), utc(bucket.to_us)] for bucket in several[0].buckets],
        "series": [
            {"key": key_text(series), "buckets": [_row(bucket, frame) for bucket in series.buckets]}
            for series in several
        ],
    }
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")


def _row(bucket: Bucket, frame: Frame) -> dict[str, Any]:
    y = None if bucket.value is None else frame.y(bucket.value)
    return {name: getattr(bucket, name) for name in ("value", "low", "high", "exact", "rows")} | {"y": y}


def _svg(several: Sequence[Series]) -> str:
    frame, asked = _frame(several), several[0].question
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title(several[0]))}">',
        *frame.value_axis(),
        *frame.time_axis(asked.start_us, asked.end_us),
        f'<line class="mark" y1="{TOP}" y2="{BOTTOM}"/>',
        *(part for place, series in enumerate(several) for part in _group(series, place, frame)),
        "</svg>",
    ]
    return "\n".join(parts)


def _group(series: Series, place: int, frame: Frame) -> Iterator[str]:
    intervals: list[Interval | None] = [
        None if bucket.low is None and bucket.high is None else (bucket.low, bucket.high)
        for bucket in series.buckets
    ]
    yield f'<g class="series of{place}">'
    yield from (f'<path class="band" d="{path}"/>' for path in frame.bands(intervals))
    yield from (f'<path class="line" d="{path}"/>' for path in frame.lines([b.value for b in series.buckets]))
    yield '<circle class="dot" r="5"/></g>'


def _frame(several: Sequence[Series]) -> Frame:
    span = value_span([bucket for series in several for bucket in series.buckets])
    return Frame(len(several[0].buckets), *span)
