"""Charts of a registered query over time, as parts of its page: what one is, and the memory of its batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.cli.charts.svg import Frame
from lakehouse.cli.output import time_text
from lakehouse.cli.pages.figures import utc

Facts = Mapping[str, Any]
BOTTOM = 240
POINTS = 480


@dataclass(frozen=True)
class Chart:
    """One chart as parts of a page.

    ``keys``: class of the mark and words of each part shown; ``columns``: what is told of each column, and the
    heights of its dots, the first for the line, the second for the other one.
    """

    heading: str
    keys: Sequence[tuple[str, str]]
    svg: Sequence[str]
    columns: Sequence[tuple[str, Sequence[float | None]]]


def memory_chart(batches: Sequence[Facts]) -> Chart | None:
    """Return rows held and bytes of state after each batch; of very many batches, those that held most."""
    if not batches:
        return None
    each = -(-len(batches) // POINTS)
    shown = [max(batches[at : at + each], key=_most_held) for at in range(0, len(batches), each)]
    rows = Frame(len(shown), 0.0, max(1, *map(_most_held, shown)) * 1.06, BOTTOM)
    unit, size = _byte_unit(max(batch["bytes"] for batch in shown))
    bytes_ = Frame(len(shown), 0.0, max(1, *(batch["bytes"] / size for batch in shown)) * 1.06, BOTTOM)
    svg = [
        *rows.value_axis(_short),
        *bytes_.value_axis_right(),
        *_batch_axis(rows, shown),
        *(f'<path class="band" d="{p}"/>' for p in rows.bands([(b["held"], _most_held(b)) for b in shown])),
        *(f'<path class="second" d="{p}"/>' for p in bytes_.lines([b["bytes"] / size for b in shown])),
        *(f'<path class="line" d="{p}"/>' for p in rows.lines([b["held"] for b in shown])),
    ]
    most = [("", "up to the most that its buckets held")] if "most_held" in shown[0] else []
    keys = [("value", "rows held after the batch"), *most, ("of-second", f"state, {unit}, right axis")]
    columns = [(_held(b), [rows.y(b["held"]), bytes_.y(b["bytes"] / size)]) for b in shown]
    return Chart("Memory over batches", keys, svg, columns)


def _most_held(batch: Facts) -> int:
    """Return the most rows held during a batch, where the query keeps account of it, or else after it."""
    return int(batch.get("most_held", batch["held"]))


def _held(batch: Facts) -> str:
    most = f", at most {batch['most_held']:,}" if "most_held" in batch else ""
    return (
        f"batch {batch['batch']:,}, {batch['committed_at']:%Y-%m-%d %H:%M:%S} UTC\n"
        f"stream time {time_text(batch['time_us'])}\n"
        f"{batch['held']:,} rows held{most}\n{batch['bytes']:,} bytes of state"
    )


def _batch_axis(frame: Frame, batches: Sequence[Facts]) -> Iterator[str]:
    yield frame.base_line()
    for place in range(0, len(batches), -(-len(batches) // 6)):
        time_us = batches[place]["time_us"]
        lines = (f"batch {batches[place]['batch']:,}", "" if time_us is None else utc(time_us))
        yield from frame.mark(frame.x(place + 0.5), lines)


def _byte_unit(most: int) -> tuple[str, int]:
    return next(
        ((name, size) for name, size in (("MiB", 2**20), ("KiB", 2**10)) if most >= 2 * size), ("bytes", 1)
    )


def _short(rows: float) -> str:
    return f"{rows:,.0f}" if rows < 1e6 else f"{rows / 1e6:,.4g} M"
