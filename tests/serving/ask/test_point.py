from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from lakehouse.serving.ask import ladder, parts, point
from lakehouse.serving.ask.macros import COLUMNS, answer
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.literals import text, texts
from tests.serving.ask.test_ask import SLOW, questions
from tests.serving.conftest import STREAMS, Lakehouse


def whole(lakehouse: Lakehouse, question: Question) -> list[Answer]:
    """The answers of the macro itself, as SQL asks it."""
    rows = lakehouse.reader.connection.execute(
        f"SELECT {COLUMNS} FROM bucket_{question.aggregate}({text(question.stream)}, {text(question.measure)}, "
        f"[{question.start_us}, {question.end_us}], "
        f"keys := MAP({texts(question.where)}, {texts(question.where.values())}))"
    ).fetchall()
    return [Answer(*row) for row in rows]


@SLOW
@given(questions())
def test_the_short_way_gives_the_answer_of_the_macro(lakehouse: Lakehouse, question: Question) -> None:
    assert answer(lakehouse.reader.connection, question) == whole(lakehouse, question)


@pytest.mark.parametrize(
    ("where", "is_short"),
    [({}, True), ({"device": "a"}, True), ({"device": None}, True), ({"zone": "1"}, False)],
)
def test_one_series_goes_the_short_way(
    lakehouse: Lakehouse, where: dict[str, str | None], is_short: bool
) -> None:
    question = Question("deep", "temp", "sum", 0, 100, where, ())

    assert (point.asked(lakehouse.reader.connection, question) is not None) is is_short


def test_a_value_that_imitates_a_missing_one_is_another_series(lakehouse: Lakehouse) -> None:
    rows = [row for row in STREAMS["deep"].rows if row.device is None]
    question = Question("deep", "*", "count", 0, 3000, {"device": "\1"}, ())

    (found,) = answer(lakehouse.reader.connection, question)

    assert rows and found.value == 0


def test_an_increase_is_never_asked_in_parts_of_another_grouping_than_the_meters(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By 50,000 keys that are not all keys, its parts had the numbers of series that hold no readings: no answer."""
    monkeypatch.setattr(parts, "SERIES", 1)
    asked = Question("deep", "hits", "sum", 0, 900, {}, ("device",))
    increase = replace(asked, aggregate="increase")
    chosen = [ladder.chosen_grouping(lakehouse.reader.connection, one) for one in (asked, increase)]

    assert [one and one[1] for one in chosen] == [("device",), ("device", "zone")]
    assert parts.ranges(lakehouse.reader.connection, asked)
    assert parts.ranges(lakehouse.reader.connection, increase) == []
