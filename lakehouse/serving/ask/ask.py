"""One range question -> its answers, each with the interval that is sure to hold the truth.

Uses the macros of the published file, or the raw rows if ``exact`` asks for them and they are kept. Cost: opening the
file and DuckDB's planning; a few nodes per level.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb

from lakehouse.serving.ask.ladder import chosen_grouping
from lakehouse.serving.ask.limits import TIMEOUT_S, limited
from lakehouse.serving.ask.macros import answer
from lakehouse.serving.ask.question import (
    Answer,
    Question,
    Timestamp,
    check,
    microseconds,
    values_as_text,
    with_default,
    withheld_of,
)
from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.sandbox import PublishedReader, reading
from lakehouse.storage.layout import Home

# How many values of a key an error names.
_NAMED = 10


def ask(
    home: Path | Home | PublishedReader,
    stream: str,
    measure: str,
    agg: str | None,
    start: Timestamp,
    end: Timestamp,
    where: Mapping[str, object] | None = None,
    by: Sequence[str] | None = None,
    exact: bool = False,
    limit: int | None = None,
    timeout_s: float | None = TIMEOUT_S,
) -> list[Answer]:
    """Answer an aggregate over ``[start, end)``: one answer, or one per combination of the keys in ``by``.

    ``agg``: None asks for the measure's own: increase of a counter, sum where it is declared, else the average.

    Times are ISO text, dates, datetimes or microseconds since the epoch; UTC if they have no offset. Without a value in
    the range, count is 0 and the others None; by keys, there is no answer at all. ``limit``: only the first
    answers in the order of their keys, of which there may be millions. Several questions cost less with one version
    kept open: ``with open_published(home) as published: ask(published, ...)``. ``timeout_s``: most seconds, None for
    no limit. Raises NotPublished if nothing has been published yet; AskError if a name does not exist, the range is
    empty, ``exact`` lacks its raw rows, or the question exceeds its time or memory.
    """
    times, keys = (microseconds(start), microseconds(end)), values_as_text(where)
    question = Question(
        stream, measure, agg or "", *times, keys, tuple(dict.fromkeys(by or ())), limit, exact
    )
    with reading(home) as published, limited(published, timeout_s):
        return answers(published, question)


def answers(published: PublishedReader, question: Question) -> list[Answer]:
    """Answer a question from an open version. Raises AskError as ``ask``."""
    question = with_default(published.connection, question)
    check(published.connection, question)
    found = _answers(published, question)
    withheld = withheld_of(published.connection, question.stream)
    return [replace(one, withheld=withheld) for one in found] if withheld else found


def _answers(published: PublishedReader, question: Question) -> list[Answer]:
    if not question.exact:
        return answer(published.connection, question)
    # Reads the home's corrections and the logs of tables, for which other questions should not wait.
    from lakehouse.serving.ask.raw import exact_answers

    return exact_answers(published, question)


def unknown_keys(
    home: Path | Home | PublishedReader,
    stream: str,
    measure: str,
    where: Mapping[str, object],
    timeout_s: float | None = TIMEOUT_S,
) -> list[str]:
    """Return a sentence for each key whose value no row ever had, with the existing values that are nearest.

    Cost: grows with the series of the grouping that holds these keys; called only for answers without rows, which are
    rare.
    """
    keys = values_as_text(where)
    with reading(home) as published, limited(published, timeout_s):
        connection, said = published.connection, list[str]()
        grouping = chosen_grouping(connection, Question(stream, measure, "count", 0, 1, keys))
        if grouping is None:
            return said
        for name, value in keys.items():
            series = f"SELECT DISTINCT key[{text(name)}] AS value FROM series WHERE grouping_id = {grouping.number}"
            known = f"SELECT 1 FROM ({series}) WHERE value IS NOT DISTINCT FROM {text(value)}"
            if not connection.execute(known).fetchall():
                said.append(
                    f"no row of {stream} has {name} {value!r}; {_existing(connection, series, value)}"
                )
    return said


def _existing(connection: duckdb.DuckDBPyConnection, series: str, value: str | None) -> str:
    """Return all values of a key where there are few, else how many and those whose text is nearest."""
    nearness = f"jaro_winkler_similarity(value, {text(value or '')})"
    nearest = connection.execute(
        f"SELECT value, count(*) OVER () FROM ({series}) ORDER BY {nearness} DESC, value NULLS LAST LIMIT {_NAMED}"
    ).fetchall()
    count, named = nearest[0][1] if nearest else 0, [str(each) for each, _ in nearest]
    if count <= _NAMED:
        return f"there are: {', '.join(sorted(named)) or 'none'}"
    return f"of {count:,} values near ones are: {', '.join(named)}"
