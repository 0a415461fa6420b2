"""An aggregate over evenly spaced buckets of a range, each with its interval, for a chart; also key by key.

One question for all buckets and keys, by the macros of the published file; each bucket is answered from the coarsest
nodes that fit it, as ``ask`` would. Cost: planning, then a few nodes per level, bucket and series; keys are looked up
first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving.ask import parts
from lakehouse.serving.ask.ladder import is_refined
from lakehouse.serving.ask.limits import TIMEOUT_S, limited
from lakehouse.serving.ask.macros import answer, inside, prepared
from lakehouse.serving.ask.question import (
    INCREASE,
    AskError,
    Question,
    Timestamp,
    check,
    microseconds,
    values_as_text,
    with_default,
    withheld_of,
)
from lakehouse.serving.literals import text, text_map, texts
from lakehouse.serving.sandbox.sandbox import PublishedReader, reading
from lakehouse.storage.layout import Home

MOST_POINTS = 10_000
# More lines than this cannot be told apart on one page, nor read on one screen.
MOST_KEYS = 12
_OF_BUCKET = "from_us, to_us, value, low, high, exact, exact_value, rows, final, finest_granularity_us"
_COLUMNS = f"{_OF_BUCKET}, grouping, as_of_version, nodes_read"
Key = dict[str, str | None]


@dataclass(frozen=True)
class Bucket:
    """One part of the range, ``[from_us, to_us)``, and its answer; fields as those of an Answer."""

    from_us: int
    to_us: int
    value: float | None
    low: float | None
    high: float | None
    exact: bool
    exact_value: str | None
    rows: int
    final: bool
    finest_granularity_us: int | None


@dataclass(frozen=True)
class Series:
    """The question and its buckets in order of time; times in microseconds UTC.

    ``key`` holds the values of the keys asked by, as text; it is empty without keys. ``withheld``: a sentence if newer
    data of the stream are withheld.
    """

    question: Question
    grouping: list[str]
    as_of_version: int
    nodes_read: int
    buckets: list[Bucket]
    key: Key = field(default_factory=dict)
    withheld: str | None = None


def series(
    home: Path | Home | PublishedReader,
    stream: str,
    measure: str,
    agg: str | None,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    points: int = 100,
    where: Mapping[str, object] | None = None,
    timeout_s: float | None = TIMEOUT_S,
) -> Series:
    """Answer an aggregate for at most ``points`` equal parts of ``[start, end)``, by default of all rows.

    ``timeout_s``: most seconds, None for no limit. Raises NotPublished if nothing has been published yet; AskError if
    a name does not exist, the range is empty, there are too many points, or it exceeds its time or memory.
    """
    with reading(home) as published, limited(published, timeout_s):
        asked = _question(published.connection, (stream, measure, agg or ""), (start, end), where)
        check_size(points)
        check(published.connection, asked)
        found = buckets(published.connection, asked, points)
        return replace(found, withheld=withheld_of(published.connection, stream))


def series_by(
    home: Path | Home | PublishedReader,
    stream: str,
    measure: str,
    agg: str | None,
    by: Sequence[str],
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    points: int = 100,
    where: Mapping[str, object] | None = None,
    limit: int | None = None,
    timeout_s: float | None = TIMEOUT_S,
) -> list[Series]:
    """Answer as ``series`` does, once per combination of the keys in ``by``, in the order of their values.

    Keys without a row in the range are left out, as in ``ask``; the others have every bucket. ``limit``: only the
    first ones. Raises NotPublished if nothing has been published yet. Raises AskError as ``series``; and if there are
    more than ``MOST_KEYS`` and no ``limit`` is given.
    """
    check_size(points, limit)
    with reading(home) as published, limited(published, timeout_s):
        asked = _question(published.connection, (stream, measure, agg or ""), (start, end), where, by)
        check(published.connection, asked)
        found = buckets_by(published.connection, replace(asked, limit=limit), points)
        withheld = withheld_of(published.connection, stream)
        return [replace(one, withheld=withheld) for one in found]


def buckets(connection: duckdb.DuckDBPyConnection, question: Question, points: int) -> Series:
    """Ask the macro of the aggregate for all buckets at once; the question must have been checked.

    A connection plans each aggregate once, which takes as long as answering it does.
    """
    edges = even_edges(question.start_us, question.end_us, points)
    rows = _asked(connection, question, edges, refined=False)
    if is_refined(connection, question, (row[-1] for row in rows), len(edges) - 1):
        rows = _asked(connection, question, edges, refined=True)
    return _series(question, rows, {})


def _asked(
    connection: duckdb.DuckDBPyConnection, question: Question, edges: Sequence[int], refined: bool
) -> list[tuple[Any, ...]]:
    asked = prepared(connection, question, edges, _COLUMNS, refined, "ORDER BY bucket")
    return connection.execute(asked).fetchall()


def even_edges(start_us: int, end_us: int, points: int) -> list[int]:
    """Return the edges of at most so many buckets, as the macro of that name does.

    >>> even_edges(0, 10, 4)
    [0, 2, 5, 7, 10]
    """
    count = max(1, min(points, end_us - start_us))
    return [start_us + place * (end_us - start_us) // count for place in range(count + 1)]


def buckets_by(connection: duckdb.DuckDBPyConnection, question: Question, points: int) -> list[Series]:
    """Ask for all buckets of all keys at once; the question must have been checked."""
    import duckdb

    keys = _keys(connection, question)
    if not keys:
        return []
    try:
        found = connection.execute(_statement(connection, question, points, keys, refined=False)).fetchall()
        buckets = min(points, question.end_us - question.start_us)
        if is_refined(connection, question, (row[-1] for row in found), buckets):
            found = connection.execute(
                _statement(connection, question, points, keys, refined=True)
            ).fetchall()
    except duckdb.OutOfMemoryException:
        raise AskError(parts.too_many(connection, question)) from None
    # The answer of a bucket without rows does not depend on the key: it comes once per bucket, without a key.
    empty = {row[1]: row for row in found if row[0] is None}
    rows: dict[tuple[str | None, ...], dict[int, tuple[Any, ...]]] = {
        tuple(key.values()): dict(empty) for key in keys
    }
    for row in found:
        if row[0] is not None:
            rows[tuple(row[0][name] for name in question.by)][row[1]] = row
    return [_series(question, [row[1:] for row in rows[tuple(key.values())].values()], key) for key in keys]


def _question(
    connection: duckdb.DuckDBPyConnection,
    what: tuple[str, str, str],
    between: tuple[Timestamp | None, Timestamp | None],
    where: Mapping[str, object] | None,
    by: Sequence[str] = (),
) -> Question:
    whole = _whole_range(connection, what[0]) if None in between else (0, 1)
    start_us, end_us = (
        whole[place] if end is None else microseconds(end) for place, end in enumerate(between)
    )
    asked = Question(*what, start_us, end_us, values_as_text(where), tuple(dict.fromkeys(by)))
    return with_default(connection, asked)


def check_size(points: int, limit: int | None = None, lines: str = "keys") -> None:
    """Refuse more buckets or lines than a chart can show. Raises AskError naming the bounds."""
    if limit is not None and not 1 <= limit <= MOST_KEYS:
        raise AskError(
            f"a chart shows at most {MOST_KEYS} {lines}: limit must be from 1 to that, found {limit}"
        )
    if not 1 <= points <= MOST_POINTS:
        raise AskError(f"points must be from 1 to {MOST_POINTS}, found {points}")


def check_lines(keys: Sequence[Key], by: Sequence[str], lines: str = "keys", have: str = "rows") -> None:
    """Refuse more lines than can be told apart. Raises AskError with how to ask for fewer."""
    if len(keys) > MOST_KEYS:
        raise AskError(
            f"a chart shows at most {MOST_KEYS} {lines}, and more have {have} in this range by {', '.join(by)}: "
            f"narrow with where, or take the first ones with a limit of up to {MOST_KEYS}"
        )


def _keys(connection: duckdb.DuckDBPyConnection, question: Question) -> list[Key]:
    """Return the keys by which ``ask`` would answer, refusing more than can be drawn.

    Reading one more than that is enough, which matters if there are a million. Any aggregate finds the same keys, and
    a count costs least; only an increase reads other nodes.
    """
    aggregate = INCREASE if question.aggregate == INCREASE else "count"
    counted = replace(question, aggregate=aggregate, limit=question.limit or MOST_KEYS + 1)
    found = [one.key for one in answer(connection, counted)]
    check_lines(found, question.by)
    return [{name: key[name] for name in question.by} for key in found]


def _statement(
    connection: duckdb.DuckDBPyConnection, question: Question, points: int, keys: Sequence[Key], refined: bool
) -> str:
    aggregate = question.aggregate
    first, last = parts.span(connection, question, keys)
    wanted = ", ".join(f"to_json({text_map(key)})" for key in keys)
    return f"""
        WITH asked AS MATERIALIZED (FROM bucket_asked(
            {text(question.stream)}, {text(question.measure)},
            even_edges({question.start_us}, {question.end_us}, {points}),
            {text_map(question.where)}, {texts(question.by)},
            by_meter := {aggregate == INCREASE}
        )),
        reads AS (
            FROM reads_of('asked', first_rank := {first}, last_rank := {last}) WHERE key_json IN ({wanted})
        ),
        inside AS (FROM {inside(aggregate, refined)}),
        asked_of_none AS (SELECT * REPLACE (false AS is_by_key) FROM asked),
        none_inside AS (FROM inside WHERE false)
        SELECT key, {_COLUMNS}, least_cut FROM {aggregate}_of('asked', 'inside')
        UNION ALL
        SELECT NULL, {_COLUMNS}, least_cut FROM {aggregate}_of('asked_of_none', 'none_inside')
        ORDER BY from_us
    """


def _series(question: Question, rows: Sequence[tuple[Any, ...]], key: Key) -> Series:
    grouping, version = rows[0][10], rows[0][11]
    nodes_read = sum(row[12] for row in rows)
    return Series(question, grouping, version, nodes_read, [Bucket(*row[:10]) for row in rows], key)


def _whole_range(connection: duckdb.DuckDBPyConnection, stream: str) -> tuple[int, int]:
    row = connection.execute(
        f"SELECT earliest_us, newest_us + 1 FROM streams WHERE stream = {text(stream)}"
    ).fetchone()
    return (0, 1) if row is None or row[0] is None else (row[0], row[1])
