"""The charts of a join of pairs over time: recall of its periods, and how long repaired pairs waited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.cli.charts.explain_charts import BOTTOM, Chart
from lakehouse.cli.charts.svg import LEFT, RIGHT, Frame, Interval
from lakehouse.cli.output import time_text
from lakehouse.cli.pages.figures import length, share, utc

Facts = Mapping[str, Any]
_UNITS = (
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
)


def recall_chart(stretches: Sequence[Facts], asked: float) -> Chart | None:
    """Return recall by event time, with the asked line and what repair brought; None before a period is scored."""
    if not stretches:
        return None
    worst = [stretch["worst"] for stretch in stretches]
    values = [None if found is None else found["recall"] for found in worst]
    low = min(asked, *(value for value in values if value is not None))
    room = 0.06 * (1 - low)
    frame = Frame(len(stretches), low - room, 1 + room, BOTTOM)
    repaired: list[Interval | None] = [
        None if found is None or found["open"] else (found["recall"], 1.0) for found in worst
    ]
    y = frame.y(asked)
    svg = [
        *frame.value_axis(),
        *frame.time_axis(stretches[0]["from_us"], stretches[-1]["to_us"]),
        *(f'<path class="band" d="{path}"/>' for path in frame.bands(repaired)),
        f'<line class="asked" x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}"/>',
        *_recall_lines(frame, worst),
    ]
    keys = (
        ("value", "recall online, the worst period that begins then; dotted: it may still fall"),
        ("of-asked", f"asked: {asked:g}"),
        ("", "found by repair; none where a repair is still to come"),
    )
    columns = [
        (_told(stretch), [None if value is None else frame.y(value)])
        for stretch, value in zip(stretches, values, strict=True)
    ]
    return Chart("Recall over event time", keys, svg, columns)


def _recall_lines(frame: Frame, worst: Sequence[Facts | None]) -> Iterator[str]:
    """Yield the line, dotted where a repair is still to come: what it will find is not in the figure yet."""
    for is_open, name in ((False, "line"), (True, "line unsure")):
        values = [found["recall"] if found and found["open"] == is_open else None for found in worst]
        yield from (f'<path class="{name}" d="{path}"/>' for path in frame.lines(values))


def _told(stretch: Facts) -> str:
    worst = stretch["worst"]
    if worst is None:
        return f"{utc(stretch['from_us'])} to {utc(stretch['to_us'])} UTC\nno period with enough pairs"
    late = "repair to come" if worst["open"] else f"{worst['pairs'] - worst['online']:,} by repair"
    return (
        f"{time_text(worst['from_us'])} to {time_text(worst['to_us'])} UTC\nrecall  {share(worst['recall'])}\n"
        f"{worst['online']:,} of {worst['pairs']:,} pairs online, {late}\nthe worst of {stretch['periods']:,} periods"
    )


def wait_chart(stretches: Sequence[Facts]) -> Chart | None:
    """Return how long repaired pairs waited, by event time; None while there are none."""
    longest = max((stretch["repaired_wait_p99_us"] or 0 for stretch in stretches), default=0)
    if not any(stretch["repaired"] for stretch in stretches):
        return None
    unit, size = next(((name, us) for name, us in _UNITS if longest >= 2 * us), ("microseconds", 1))
    frame = Frame(len(stretches), 0.0, max(longest / size, 1e-9) * 1.06, BOTTOM)
    mean, p99 = (
        [None if stretch[name] is None else stretch[name] / size for stretch in stretches]
        for name in ("repaired_wait_mean_us", "repaired_wait_p99_us")
    )
    svg = [
        *frame.value_axis(),
        *frame.time_axis(stretches[0]["from_us"], stretches[-1]["to_us"]),
        *(f'<path class="second" d="{path}"/>' for path in frame.lines(p99)),
        *(f'<path class="line" d="{path}"/>' for path in frame.lines(mean)),
    ]
    keys = (
        ("value", f"mean wait of repaired pairs, {unit}"),
        ("of-second", f"p99 of repaired pairs, {unit}; a pair found online waits not at all"),
    )
    columns = [
        (_waited(stretch), [None if one is None else frame.y(one) for one in (mean[place], p99[place])])
        for place, stretch in enumerate(stretches)
    ]
    return Chart("Wait over event time", keys, svg, columns)


def _waited(stretch: Facts) -> str:
    lines = [
        f"{utc(stretch['from_us'])} to {utc(stretch['to_us'])} UTC",
        f"{stretch['repaired']:,} of {stretch['pairs']:,} pairs repaired",
    ]
    if stretch["repaired"]:
        mean, p99 = length(stretch["repaired_wait_mean_us"]), length(stretch["repaired_wait_p99_us"])
        lines.append(f"their wait  mean {mean}, p99 {p99}")
    if stretch["pairs"]:
        lines.append(f"mean of all pairs  {length(stretch['wait_mean_us'])}")
    return "\n".join(lines)
