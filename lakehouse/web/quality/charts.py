"""Small charts as SVG that stands in the page: the last runs of a rule, and a figure of a column day by day."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from lakehouse.config.durations import format_timestamp
from lakehouse.serving.quality.verdicts import RUNS

_STEP, _HEIGHT, _STUB = 6, 26, 4


def trend(runs: Sequence[dict[str, Any]]) -> str:
    """Return the last runs of a rule as bars, the newest at the right: the higher, the more of it was broken."""
    most = max((run["value"] or 0.0 for run in runs), default=0.0)
    start = (RUNS - len(runs)) * _STEP
    bars = "".join(_bar(run, start + index * _STEP, most) for index, run in enumerate(runs))
    held = f"{sum(run['state'] in ('holds', 'rejects') for run in runs)} of {len(runs)} runs held"
    ground = f'<line class="ground" x1="0" x2="{RUNS * _STEP}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
    return f"{_svg(RUNS * _STEP, held, ground + bars)}<br><small>{held}</small>"


def columns_of(names: Sequence[str], counts: Sequence[int], label: str) -> str:
    """Return counts as columns, each with its name."""
    most = max(counts, default=0)
    shapes = (
        _rectangle("plain", index * _STEP, _HEIGHT * count / most if most else 0.0, f"{name}: {count:,}")
        for index, (name, count) in enumerate(zip(names, counts, strict=True))
    )
    return _svg(len(counts) * _STEP, label, "".join(shapes))


def _bar(run: dict[str, Any], left: int, most: float) -> str:
    height = _STUB + (_HEIGHT - _STUB) * ((run["value"] or 0.0) / most if most else 0.0)
    value = "" if run["value"] is None else f", {run['value']:.4g}"
    return _rectangle(
        run["state"], left, height, f"{format_timestamp(run['at_us'])} UTC: {run['state']}{value}"
    )


def _rectangle(kind: str, left: int, height: float, title: str) -> str:
    shape = f'x="{left}" y="{_HEIGHT - height:.1f}" width="{_STEP - 1}" height="{height:.1f}"'
    return f'<rect class="{kind}" {shape}><title>{escape(title)}</title></rect>'


def daily(days: Sequence[str], values: Sequence[float | None], label: str) -> str:
    """Return a figure of each day as dots on a line, the newest day at the right; a day without it is left out."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    ends = f"{label}: {low:.4g} to {high:.4g}"
    return _svg(max(len(values), 2) * _STEP, ends, "".join(_dots(days, values, low, high)))


def _dots(days: Sequence[str], values: Sequence[float | None], low: float, high: float) -> Iterator[str]:
    before = None
    for index, (day, value) in enumerate(zip(days, values, strict=True)):
        if value is None:
            before = None
            continue
        x, y = (
            index * _STEP + 3,
            _HEIGHT - 3 - (_HEIGHT - 6) * ((value - low) / (high - low) if high > low else 0.5),
        )
        if before:
            yield f'<line x1="{before[0]}" y1="{before[1]:.1f}" x2="{x}" y2="{y:.1f}"/>'
        yield f'<circle cx="{x}" cy="{y:.1f}" r="1.8"><title>{escape(day)}: {value:.6g}</title></circle>'
        before = x, y


def _svg(width: int, label: str, shapes: str) -> str:
    size = f'width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}"'
    return f'<svg class="trend" {size} role="img" aria-label="{escape(label)}">{shapes}</svg>'
