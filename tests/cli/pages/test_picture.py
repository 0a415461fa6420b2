from __future__ import annotations

from dataclasses import replace

import pytest

from lakehouse.cli.pages.picture import BAND, HEIGHT, LABEL, VALUE, charts, picture_of, plot_columns
from lakehouse.serving.ask.question import Question
from lakehouse.serving.ask.series import Bucket, Series

MINUTE_US = 60_000_000


def series(
    *sides: tuple[float | None, float | None, float | None], stream: str = "s", **where: str
) -> Series:
    """A series of minutes with these values and sides; exact where all three are one."""
    buckets = [
        Bucket(
            i * MINUTE_US, (i + 1) * MINUTE_US, value, low, high, value == low == high, None, 5, True, None
        )
        for i, (value, low, high) in enumerate(sides)
    ]
    return Series(
        Question(stream, "temp", "avg", 0, len(sides) * MINUTE_US, dict(where), ()), [], 1, 9, buckets
    )


def by_device(*keys: str | None) -> list[Series]:
    """A series per key, of minutes; the first is at 0, the next at 10, and so on, sure to one."""
    several = []
    for place, key in enumerate(keys):
        one = series(*[(10.0 * place, 10.0 * place - 1, 10.0 * place + 1)] * 40)
        several.append(replace(one, question=replace(one.question, by=("device",)), key={"device": key}))
    return several


def chart(one: Series) -> list[str]:
    return charts(picture_of([one]))


def drawn(lines: list[str]) -> list[str]:
    """The plot area's columns, bottom up."""
    rows = [line[LABEL + 2 :].ljust(40) for line in lines[2 : 2 + HEIGHT]]
    return ["".join(row[place] for row in reversed(rows)).rstrip() for place in range(40)]


def test_each_column_has_its_value_on_its_interval() -> None:
    columns = drawn(chart(series((5.0, 0.0, 10.0), (10.0, 10.0, 10.0), (None, None, None))))

    assert columns[0].count(VALUE) == 1
    assert columns[0].strip().count(BAND) == len(columns[0].strip()) - 1 >= HEIGHT - 4
    assert (columns[1].strip(), columns[2]) == (VALUE, "")
    assert columns[1].index(VALUE) > columns[0].index(VALUE)


def test_a_side_that_nobody_can_promise_reaches_the_edge() -> None:
    (column,) = drawn(chart(series((5.0, None, 6.0))))[:1]

    assert column[0] == BAND


def test_times_are_told_in_utc_below_the_ends() -> None:
    lines = chart(series(*[(1.0, 1.0, 1.0)] * 40))

    assert "1970-01-01 00:00" in lines[-3]
    assert lines[-3].endswith("1970-01-01 00:40 UTC")
    assert len(lines[-3]) == LABEL + 2 + 40
    assert "\x1b" not in "".join(lines)


def test_the_chart_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")

    lines = chart(series(*[(float(i), 0.0, 99.0) for i in range(plot_columns())]))

    assert max(map(len, lines)) == 100


def test_series_by_key_stand_under_each_other_on_the_same_axes() -> None:
    lines = charts(picture_of(by_device("a", None)))

    assert lines[0] == "avg(temp) of s by device, per 1m"
    names = [place for place, line in enumerate(lines) if "┌─" in line]
    assert [lines[place].split("┌─ ")[1] for place in names] == ["a", "-"]
    above, below = lines[names[0] + 1 : names[1]], lines[names[1] + 1 : -4]
    assert len(above) == len(below)
    assert [line[:LABEL] for line in above] == [line[:LABEL] for line in below]
    assert sum(VALUE in line for line in above) == 1
    assert min(place for place, line in enumerate(above) if VALUE in line) > len(above) / 2
    assert max(place for place, line in enumerate(below) if VALUE in line) < len(below) / 2
    assert sum("UTC" in line for line in lines) == 1
    assert lines[-1].endswith("0 of 80 buckets exact")


def test_twelve_series_are_seen_at_once_at_80_columns() -> None:
    lines = charts(
        picture_of(by_device(*("long name " * 20 + "\x1b[2J" if i == 3 else f"{i}" for i in range(12))))
    )

    assert len(lines) < 70 and max(map(len, lines)) <= 80
    assert "\x1b" not in "".join(lines)


def test_a_name_cannot_steer_the_terminal() -> None:
    steered = series((1.0, 1.0, 1.0), stream="\x1b[2J", device="\x1b]0;x\x07")

    assert "\x1b" not in picture_of([steered]).title


def test_nothing_and_a_constant_have_room_around_them() -> None:
    sides = ((None, None, None), (3.0, 3.0, 3.0))
    nothing, constant = (picture_of([series(side)]).span for side in sides)

    assert nothing == (0.0, 1.0)
    assert constant[0] < 3.0 < constant[1]
