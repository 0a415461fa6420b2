from __future__ import annotations

import random

import pytest

from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.missing import missing_of
from lakehouse.serving.ask.question import Question
from tests.serving.conftest import STREAMS, Lakehouse


@pytest.mark.parametrize("by", [(), ("device",)])
@pytest.mark.parametrize("name", ["flat", "deep", "sparse"])
def test_rows_without_a_value_are_those_that_an_answer_does_not_count(
    lakehouse: Lakehouse, name: str, by: tuple[str, ...]
) -> None:
    pick, stream, connection, exact = random.Random(name), STREAMS[name], lakehouse.reader.connection, 0
    for number in range(12):
        # Edges of the widest nodes, so that some answers are exact, and any others.
        step = 120 if number % 2 else 1
        start, end = (step * edge for edge in sorted(pick.sample(range(0, 3000 // step), 2)))
        question = Question(name, "temp", pick.choice(["sum", "avg", "count"]), start, end, by=by)

        found = missing_of(connection, question, answer(connection, question))

        rows = [row for row in stream.rows if start <= row.event_us < end]
        if found is not None and found.is_exact:
            exact += 1
            assert (found.rows, found.missing) == (len(rows), sum(row.temp is None for row in rows))
    assert exact


def test_all_rows_of_a_whole_stream_are_told_apart(lakehouse: Lakehouse) -> None:
    rows = STREAMS["deep"].rows
    question = Question("deep", "temp", "avg", 0, 10**6)

    found = missing_of(lakehouse.reader.connection, question, answer(lakehouse.reader.connection, question))

    assert found is not None
    assert (found.rows, found.missing, found.is_exact) == (
        *(len(rows), sum(row.temp is None for row in rows)),
        True,
    )


def test_rows_themselves_lack_nothing(lakehouse: Lakehouse) -> None:
    question = Question("deep", "*", "count", 0, 10**6)
    connection = lakehouse.reader.connection
    assert missing_of(connection, question, answer(connection, question)) is None
