"""One range question -> its answers, each with the interval that is sure to hold the truth.

Chooses the way: the macros of the published file, or the raw rows where they are kept and ``exact`` asks for them.
Cost: opening the file and DuckDB's planning; a few nodes per level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lakehouse.home.layout import Home
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import Answer, Question, Timestamp, check, microseconds, values_as_text
from lakehouse.serving.sandbox.sandbox import open_published


def ask(
    home: Path | Home,
    stream: str,
    measure: str,
    agg: str,
    start: Timestamp,
    end: Timestamp,
    where: Mapping[str, object] | None = None,
    by: Sequence[str] | None = None,
    exact: bool = False,
    limit: int | None = None,
) -> list[Answer]:
    """Answer an aggregate over ``[start, end)``: one answer, or one per combination of the keys in ``by``.

    Times are ISO text, dates, datetimes or microseconds since the epoch; UTC where they carry no offset. No row in
    the range: sum and count are 0, the others None; by keys, no answer at all. ``limit``: only the first answers in
    the order of their keys, where there may be millions.

    Raises:
        NotPublished: when nothing has been published yet.
        AskError: when something asked for does not exist, the range is empty, or ``exact`` lacks its raw rows.
    """
    times, keys = (microseconds(start), microseconds(end)), values_as_text(where)
    question = Question(stream, measure, agg, *times, keys, tuple(dict.fromkeys(by or ())), limit, exact)
    with open_published(home) as published:
        check(published.connection, question)
        if not exact:
            return answer(published.connection, question)
        # Reads the corrections of the home and DuckDB's Delta reader: nothing that other questions should wait for.
        from lakehouse.serving.ask.raw import exact_answers

        return exact_answers(published, question)
