"""A picture as one page: inline SVG, a little style and script, nothing from elsewhere; works from a file, offline.

Names of streams and keys come from data: in markup they are escaped, the script's data holds no `<`,
and the script puts text only where it cannot become markup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from lakehouse.cli.charts.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Frame, Interval, asset
from lakehouse.cli.pages.figures import utc

if TYPE_CHECKING:
    from lakehouse.cli.charts.picture import Line, Picture
    from lakehouse.serving.ask.series import Bucket


def page(picture: Picture) -> str:
    """Return the whole page as text; a legend shows and hides lines."""
    heading = escape(picture.title)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title><style>{asset("chart.css")}</style></head>
<body><main><h1>{heading}</h1><p>{escape(picture.subtitle)}</p>
<figure>{_svg(picture)}<div id="tip" class="tip" role="status"></div></figure>
<div class="key">{_legend(picture)}<span><i></i>{escape(picture.band)}</span></div>
</main><script type="application/json" id="series">{_data(picture)}</script>
<script>{asset("chart.js")}</script></body></html>
"""


def _legend(picture: Picture) -> str:
    """Return what the lines are: buttons where they have names, to show and hide them."""
    still = "" if _is_final(picture) else '<span><i class="open"></i>may still change</span>'
    if not picture.lines[0].name:
        return f'<span><i class="value"></i>value</span>{still}'
    return still + "".join(
        f'<button type="button" class="of{place}" aria-pressed="true"><i></i>{escape(line.name)}</button>'
        for place, line in enumerate(picture.lines)
    )


def _data(picture: Picture) -> str:
    frame = _frame(picture)
    document: dict[str, Any] = {
        **{"left": LEFT, "right": RIGHT, "top": TOP, "words": picture.words},
        "times": [[utc(bucket.from_us), utc(bucket.to_us)] for bucket in picture.lines[0].buckets],
        "series": [
            {"key": line.name, "buckets": [_row(bucket, frame) for bucket in line.buckets]}
            for line in picture.lines
        ],
    }
    return json.dumps(document, allow_nan=False).replace("<", "\\u003c")


def _row(bucket: Bucket, frame: Frame) -> dict[str, Any]:
    y = None if bucket.value is None else frame.y(bucket.value)
    return {name: getattr(bucket, name) for name in ("value", "low", "high", "exact", "rows")} | {"y": y}


def _svg(picture: Picture) -> str:
    frame = _frame(picture)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(picture.title)}">',
        *_open(picture, frame),
        *frame.value_axis(),
        *frame.time_axis(picture.start_us, picture.end_us),
        f'<line class="mark" y1="{TOP}" y2="{BOTTOM}"/>',
        *(part for place, line in enumerate(picture.lines) for part in _group(line, place, frame)),
        "</svg>",
    ]
    return "\n".join(parts)


def _open(picture: Picture, frame: Frame) -> Iterator[str]:
    if not _is_final(picture):
        x = frame.x(picture.final or 0)
        yield f'<rect class="open" x="{x}" y="{TOP}" width="{round(RIGHT - x, 2)}" height="{BOTTOM - TOP}"/>'


def _is_final(picture: Picture) -> bool:
    return picture.final is None or picture.final == picture.columns


def _group(line: Line, place: int, frame: Frame) -> Iterator[str]:
    intervals: list[Interval | None] = [
        None if bucket.low is None and bucket.high is None else (bucket.low, bucket.high)
        for bucket in line.buckets
    ]
    yield f'<g class="series of{place}">'
    yield from (f'<path class="band" d="{path}"/>' for path in frame.bands(intervals))
    yield from (f'<path class="line" d="{path}"/>' for path in frame.lines([b.value for b in line.buckets]))
    yield '<circle class="dot" r="5"/></g>'


def _frame(picture: Picture) -> Frame:
    return Frame(picture.columns, *picture.span)
