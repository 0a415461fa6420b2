"""One range question -> its answers, each with the interval that is sure to hold the truth.

Goes through the macros of the published file, so Python, SQL and the command line say the same. ``exact`` reads the
raw rows instead, where they are kept. Cost: opening the file and DuckDB's planning; a few nodes per level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakehouse.home.layout import Home
from lakehouse.serving.ask import parts, point
from lakehouse.serving.ask.point import INCREASE
from lakehouse.serving.literals import text, texts
from lakehouse.serving.sandbox.sandbox import open_published

if TYPE_CHECKING:
    import duckdb

AGGREGATES = ("sum", "count", "avg", "min", "max")
Moment = str | int | date | datetime
# Which statements a connection has planned; it forgets with the connection.
_PLANNED: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = (
    "value, low, high, exact, rows, nodes_read, finest_granularity_us, as_of_version, key, grouping, final, "
    "rows_low, rows_high"
)


class AskError(ValueError):
    """A question that cannot be answered; the message names what was expected."""


@dataclass(frozen=True)
class Answer:
    """An estimate between two sides that the truth cannot cross; a side is None where nothing can be promised.

    ``exact``: the sides coincide but for the rounding of double additions. ``rows``: about how many values are
    behind it, surely between ``rows_low`` and ``rows_high``. ``final``: the range ends before the stream's newest
    time by more than its ``latest``. ``key`` holds the values of the keys asked by, as text.
    """

    value: float | None
    low: float | None
    high: float | None
    exact: bool
    rows: int
    nodes_read: int
    finest_granularity_us: int | None
    as_of_version: int
    key: dict[str, str | None]
    grouping: list[str]
    final: bool
    rows_low: int
    rows_high: int


@dataclass(frozen=True)
class Question:
    """What is asked, checked against what is published; times in microseconds UTC, half-open."""

    stream: str
    measure: str
    aggregate: str
    start_us: int
    end_us: int
    where: dict[str, str | None]
    by: tuple[str, ...]


def ask(
    home: Path | Home,
    stream: str,
    measure: str,
    agg: str,
    start: Moment,
    end: Moment,
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
    with open_published(home) as published:
        start_us, end_us = microseconds(start), microseconds(end)
        keys = values_as_text(where)
        question = Question(stream, measure, agg, start_us, end_us, keys, tuple(dict.fromkeys(by or ())))
        check(published.connection, question)
        answers = answer(published.connection, question, limit)
        if not exact:
            return answers
        from lakehouse.serving.ask.raw import exact_answers

        return exact_answers(published, question)[:limit]


def answer(
    connection: duckdb.DuckDBPyConnection, question: Question, limit: int | None = None
) -> list[Answer]:
    """Ask the macro of the aggregate; the question must have been checked.

    A connection plans each aggregate once: a further question costs less, one about a single series least.
    """
    # An increase adds up meters, whatever is asked by.
    is_point = question.aggregate != INCREASE
    if is_point and (given := point.values(connection, question)) is not None:
        plan = f"point_{question.aggregate}"
        _plan(connection, plan, point.prepared(plan, question.aggregate, _COLUMNS))
        return _answers(connection, f"EXECUTE {plan}({given})", question)
    keys, values = texts(question.where), texts(question.where.values())
    given = (
        f"{text(question.stream)}, {text(question.measure)}, "
        f"[{question.start_us}, {question.end_us}]::BIGINT[], {keys}, {values}, {texts(question.by)}"
    )
    if ranges := parts.ranges(connection, question):
        return _in_parts(connection, question, given, ranges, limit)
    plan = f"asked_{question.aggregate}_{limit or 'all'}"
    _plan(connection, plan, _whole(plan, question.aggregate, limit))
    return _answers(connection, f"EXECUTE {plan}({given})", question)


def _in_parts(
    connection: duckdb.DuckDBPyConnection,
    question: Question,
    given: str,
    ranges: Sequence[tuple[int, int]],
    limit: int | None,
) -> list[Answer]:
    plan = f"part_{question.aggregate}_{limit or 'all'}"
    _plan(connection, plan, parts.prepared(plan, question.aggregate, _COLUMNS, limit))
    found: list[Answer] = []
    for first, last in ranges:
        found += _answers(connection, f"EXECUTE {plan}({given}, {first}::BIGINT, {last}::BIGINT)", question)
        if limit:
            found = sorted(found, key=order)[:limit]
    return sorted(found, key=order)


def _plan(connection: duckdb.DuckDBPyConnection, plan: str, statement: str) -> None:
    planned = _PLANNED.setdefault(connection, set())
    if plan not in planned:
        connection.execute(statement)
        planned.add(plan)


def _whole(plan: str, aggregate: str, limit: int | None) -> str:
    return (
        f"PREPARE {plan} AS SELECT {_COLUMNS} FROM bucket_{aggregate}($1::VARCHAR, $2::VARCHAR, "
        "$3::BIGINT[], keys := MAP($4::VARCHAR[], $5::VARCHAR[]), by := $6::VARCHAR[]) "
        + (f"ORDER BY map_values(key) NULLS LAST LIMIT {limit}" if limit else "")
    )


def _answers(connection: duckdb.DuckDBPyConnection, asked: str, question: Question) -> list[Answer]:
    import duckdb

    try:
        rows = connection.execute(asked).fetchall()
    except duckdb.OutOfMemoryException:
        raise AskError(parts.too_many(connection, question)) from None
    return sorted((Answer(*row) for row in rows), key=order)


def order(found: Answer) -> list[tuple[bool, str]]:
    """Return what answers are sorted by: their key's values, missing ones last."""
    return [(value is None, value or "") for value in found.key.values()]


def microseconds(moment: Moment) -> int:
    """Return microseconds since the epoch; a time without an offset is UTC.

    Raises:
        AskError: when the text is no time.
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            raise AskError(
                f"expected a time such as 2020-07-13, 2020-07-13T06:00 or 2020-07-13T06:00+02:00, found {moment!r}"
            ) from None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def values_as_text(where: Mapping[str, object] | None) -> dict[str, str | None]:
    """Return what keys must be as text, as the published file has them; true and false as JSON writes them."""
    return {name: _text(value) for name, value in (where or {}).items()}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def check(connection: duckdb.DuckDBPyConnection, question: Question) -> None:
    """Refuse a question about what is not published.

    Raises:
        AskError: naming what is wrong and what there is.
    """
    if question.aggregate not in (*AGGREGATES, INCREASE):
        raise AskError(unknown("aggregate", question.aggregate, (*AGGREGATES, INCREASE)))
    streams = dict(connection.execute("SELECT stream, key_names FROM streams ORDER BY stream").fetchall())
    if question.stream not in streams:
        raise AskError(unknown("stream", question.stream, list(streams)))
    found = connection.execute(
        f"SELECT measure, is_counter FROM measures WHERE stream = {text(question.stream)}"
    ).fetchall()
    measures, counters = [row[0] for row in found], [row[0] for row in found if row[1]]
    if question.measure not in measures:
        raise AskError(unknown(f"measure of {question.stream}", question.measure, measures))
    if question.measure == "*" and question.aggregate != "count":
        raise AskError(f"* counts rows: ask for its count, or for the {question.aggregate} of {measures[1:]}")
    if question.aggregate == INCREASE and question.measure not in counters:
        told = f"the counters of {question.stream} are {counters}" if counters else "the stream declares none"
        raise AskError(f"only counters have an increase, {question.measure} is none: {told}")
    for name in (*question.where, *question.by):
        if name not in streams[question.stream]:
            raise AskError(unknown(f"key of {question.stream}", name, streams[question.stream]))
    _check_range_and_grouping(connection, question)


def _check_range_and_grouping(connection: duckdb.DuckDBPyConnection, question: Question) -> None:
    if question.start_us >= question.end_us:
        raise AskError(
            f"the range must begin before it ends: from {question.start_us} to {question.end_us} us is empty"
        )
    row = connection.execute(
        f"SELECT groupings FROM ladder WHERE stream = {text(question.stream)} LIMIT 1"
    ).fetchone()
    declared: list[dict[str, Any]] = row[0] if row else []
    asked = {*question.where, *question.by}
    if not any(asked <= set(grouping["key_names"]) for grouping in declared):
        names = [grouping["key_names"] for grouping in declared]
        raise AskError(
            f"no grouping of {question.stream} holds the keys {sorted(asked)} together; declared: {names}"
        )


def unknown(what: str, name: str, among: Sequence[str]) -> str:
    """Return the message about a name that is not published, with the nearest that is."""
    from difflib import get_close_matches

    close = get_close_matches(name, among, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"no {what} {name!r}{hint} There are: {', '.join(among) or 'none'}"
