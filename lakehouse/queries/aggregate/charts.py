"""The charts of a join-aggregate over time: each of its outputs, and how many answers late rows have changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakehouse.cli.charts.explain_charts import BOTTOM, Chart
from lakehouse.cli.charts.picture import Picture, picture_of_answers
from lakehouse.cli.charts.svg import RIGHT, TOP, Frame, Interval
from lakehouse.cli.pages.figures import utc

if TYPE_CHECKING:
    from lakehouse.serving.ask.answer_series import AnswerSeries

Facts = Mapping[str, Any]


def output_chart(several: Sequence[AnswerSeries], groups: int) -> Chart:
    """Return one output by event time, a line for each of some of the groups; ``groups``: how many there are."""
    picture = picture_of_answers(several)
    frame = Frame(picture.columns, *picture.span, BOTTOM)
    svg = [
        *_open(picture, frame),
        *frame.value_axis(),
        *frame.time_axis(picture.start_us, picture.end_us),
        *(part for place in range(len(several)) for part in _line(picture, place, frame)),
    ]
    some = (
        f", the {len(several)} of {groups:,} groups with the greatest values" if groups > len(several) else ""
    )
    names = [line.name or "value at the last tick of a column" for line in picture.lines]
    keys = [(f"value of{place}", name) for place, name in enumerate(names)]
    keys.append(("", picture.band))
    if _is_open(picture):
        keys.append(("open", "may still change"))
    tips = [(_told(several, picture, column), ()) for column in range(picture.columns)]
    return Chart(f"{several[0].question.output} over event time{some}", keys, svg, tips)


def _line(picture: Picture, place: int, frame: Frame) -> Iterator[str]:
    buckets = picture.lines[place].buckets
    bands: list[Interval | None] = [None if b.low is None else (b.low, b.high) for b in buckets]
    yield f'<g class="of{place}">'
    yield from (f'<path class="band" d="{path}"/>' for path in frame.bands(bands))
    yield from (f'<path class="line" d="{path}"/>' for path in frame.lines([b.value for b in buckets]))
    yield "</g>"


def _is_open(picture: Picture) -> bool:
    return picture.final is not None and picture.final < picture.columns


def _open(picture: Picture, frame: Frame) -> Iterator[str]:
    if _is_open(picture):
        x = frame.x(picture.final or 0)
        yield f'<rect class="open" x="{x}" y="{TOP}" width="{round(RIGHT - x, 2)}" height="{BOTTOM - TOP}"/>'


def _told(several: Sequence[AnswerSeries], picture: Picture, column: int) -> str:
    lines = [f"{utc(several[0].buckets[column].from_us)} to {utc(several[0].buckets[column].to_us)} UTC"]
    for series, line in zip(several, picture.lines, strict=True):
        bucket = series.buckets[column]
        if bucket.answers or not line.name:
            told = f"{_number(bucket.value)}  [{_number(bucket.low)}, {_number(bucket.high)}]"
            lines.append(f"{line.name}  {told}".strip())
    if picture.final is not None and column >= picture.final:
        lines.append("may still change")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.10g}"


def revisions_chart(stretches: Sequence[Facts]) -> Chart | None:
    """Return how many answers late rows have changed, at once and by repair; None while there is no answer."""
    if not stretches:
        return None
    most = max(max(stretch["revised"], stretch["repaired"]) for stretch in stretches)
    frame = Frame(len(stretches), 0.0, max(1, most) * 1.06, BOTTOM)
    revised, repaired = ([stretch[name] for stretch in stretches] for name in ("revised", "repaired"))
    svg = [
        *frame.value_axis(),
        *frame.time_axis(stretches[0]["from_us"], stretches[-1]["to_us"]),
        *(f'<path class="second" d="{path}"/>' for path in frame.lines(repaired)),
        *(f'<path class="line" d="{path}"/>' for path in frame.lines(revised)),
    ]
    keys = (("value", "revisions by late rows, at once"), ("of-second", "revisions by repair"))
    columns = [
        (_changed(stretch), [frame.y(stretch["revised"]), frame.y(stretch["repaired"])])
        for stretch in stretches
    ]
    return Chart("Revisions over event time", keys, svg, columns)


def _changed(stretch: Facts) -> str:
    return (
        f"{utc(stretch['from_us'])} to {utc(stretch['to_us'])} UTC\n{stretch['answers']:,} answers\n"
        f"{stretch['revised']:,} revisions at once, {stretch['repaired']:,} by repair"
    )
