from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from lakehouse.serving.ask import ladder, one_series, parts
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Question
from tests.serving.ask.test_ask import SLOW, questions
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.whole import whole


@SLOW
@given(questions())
def test_a_request_of_the_process_has_the_answer_of_the_macro(
    lakehouse: Lakehouse, question: Question
) -> None:
    assert answer(lakehouse.reader.connection, question) == whole(lakehouse.reader.connection, question)


@pytest.mark.parametrize(
    ("where", "is_one"),
    [({}, True), ({"device": "a"}, True), ({"device": None}, True), ({"zone": "1"}, False)],
)
def test_one_series_is_requested_by_the_process(
    lakehouse: Lakehouse, where: dict[str, str | None], is_one: bool
) -> None:
    question = Question("deep", "temp", "sum", 0, 100, where, ())

    assert (one_series.prepared(lakehouse.reader.connection, question, "value") is not None) is is_one


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
