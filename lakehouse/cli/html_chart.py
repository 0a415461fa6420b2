"""A series as one page: inline SVG, a little style and script, nothing from elsewhere; works from a file, offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup.
"""

from __future__ import annotations

import json
from html import escape
from typing import TYPE_CHECKING, Any

from lakehouse.cli.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, Interval, asset
from lakehouse.cli.terminal_chart import sides, title, utc, value_span

if TYPE_CHECKING:
    from lakehouse.serving.series import Series


def page(series: Series) -> str:
    """Return the whole page as text."""
    heading = escape(title(series))
    asked = series.question
    grouping = ", ".join(series.grouping) or "all keys together"
    told = (
        f"{utc(asked.start_us)} to {utc(asked.end_us)} UTC · answered from the grouping by {grouping} · "
        f"version {series.as_of_version} · {series.nodes_read:,} nodes read"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title><style>{asset("chart.css")}</style></head>
<body><main><h1>{heading}</h1><p>{escape(told)}</p>
<figure>{_svg(series)}<div id="tip" class="tip" role="status"></div></figure>
<div class="key"><span><i class="value"></i>value</span><span><i></i>{escape(sides(series))}</span></div>
</main><script type="application/json" id="series">{_data(series)}</script>
<script>{asset("chart.js")}</script></body></html>
"""


def _data(series: Series) -> str:
    frame = _frame(series)
    rows = [
        {
            **{name: getattr(bucket, name) for name in ("value", "low", "high", "exact", "rows")},
            "from": utc(bucket.from_us),
            "to": utc(bucket.to_us),
            "y": None if bucket.value is None else frame.y(bucket.value),
        }
        for bucket in series.buckets
    ]
    document: dict[str, Any] = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM, "buckets": rows}
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")


def _svg(series: Series) -> str:
    frame, asked = _frame(series), series.question
    intervals: list[Interval | None] = [
        None if bucket.low is None and bucket.high is None else (bucket.low, bucket.high)
        for bucket in series.buckets
    ]
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title(series))}">',
        *frame.value_axis(),
        *frame.time_axis(asked.start_us, asked.end_us),
        *(f'<path class="band" d="{path}"/>' for path in frame.bands(intervals)),
        *(f'<path class="line" d="{path}"/>' for path in frame.lines([b.value for b in series.buckets])),
        f'<line class="mark" y1="{TOP}" y2="{BOTTOM}"/><circle class="dot" r="5"/></svg>',
    ]
    return "\n".join(parts)


def _frame(series: Series) -> Frame:
    return Frame(len(series.buckets), *value_span(series.buckets))
