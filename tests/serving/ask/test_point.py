from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given

from lakehouse.algorithms.rollup.levels import Level
from lakehouse.serving.ask import ladder, parts, point
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import AGGREGATES, Question
from lakehouse.serving.file.publish import publish
from lakehouse.serving.sandbox.sandbox import open_published
from lakehouse.storage.layout import Home
from tests.serving.ask.test_ask import SLOW, questions
from tests.serving.conftest import STREAMS, Lakehouse
from tests.serving.streams import RandomStream, Row
from tests.serving.whole import whole


@SLOW
@given(questions())
def test_the_short_way_gives_the_answer_of_the_macro(lakehouse: Lakehouse, question: Question) -> None:
    assert answer(lakehouse.reader.connection, question) == whole(lakehouse.reader.connection, question)


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


def test_values_too_large_to_add_and_more_nodes_than_are_folded_here_have_the_answer_of_the_macro(
    tmp_path: Path,
) -> None:
    """Sums of whole numbers beyond 64 bits are cast to doubles as DuckDB casts them."""
    wide = [-(2**63), 2**63 - 1, -(2**62) - 1, 2**53 + 1]
    rows = [
        Row(at, "a", 0, 1.7e308 if at % 2 else -1.7e308, wide[at * at % 7 % 4], Decimal("0.07") * at)
        for at in range(9_000)
    ]
    stream = RandomStream("wide", (Level(2, None),), rows)
    publish(Home(tmp_path / "home"), [stream.write(tmp_path / "wide")])

    with open_published(Home(tmp_path / "home")) as reader:
        for start, end in ((10, 20), (1, 31), (3, 4), (17, 8_950)):
            for aggregate, measure in itertools.product(AGGREGATES, ("temp", "hits", "price")):
                question = Question("wide", measure, aggregate, start, end, {"device": "a"}, ())
                assert point.asked(reader.connection, question)
                ways = (answer(reader.connection, question), whole(reader.connection, question))
                # A sum of infinities is no number, which equals nothing.
                assert repr(ways[0]) == repr(ways[1])


@pytest.mark.parametrize("most", [1, 10_000])
def test_all_series_are_looked_up_at_once_unless_they_are_too_many(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(point, "_MOST_SERIES", most)
    with open_published(lakehouse.home) as reader:
        for device in ("a", "b", None, "a", "nobody"):
            question = Question("deep", "temp", "sum", 0, 900, {"device": device}, ())

            assert answer(reader.connection, question) == whole(reader.connection, question)

        kept = point._KNOWN[reader.connection].ranks
    assert (len(kept) > 4) == (most > 1)
