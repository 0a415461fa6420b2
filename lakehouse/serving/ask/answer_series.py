"""An output of an aggregate query over evenly spaced buckets of ticks, group by group, for a chart of its answers.

Uses the macro ``answer_series`` of the published file. Cost: the answers of the range are read once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from lakehouse.serving.ask.limits import TIMEOUT_S, limited
from lakehouse.serving.ask.question import (
    AskError,
    Timestamp,
    UnknownName,
    check_range,
    microseconds,
    unknown,
    values_as_text,
)
from lakehouse.serving.ask.series import MOST_KEYS, Key, check_lines, check_size
from lakehouse.serving.literals import text, text_map
from lakehouse.serving.sandbox.sandbox import PublishedReader, reading
from lakehouse.storage.layout import Home

_COLUMNS = "epoch_us(starts_at), epoch_us(ends_at), value, low, high, ticks, answers, holding, final"


@dataclass(frozen=True)
class TickBucket:
    """The ticks of ``[from_us, to_us)``: the value at the last one, ``low`` and ``high`` of all.

    ``ticks``: how many are answered and published. ``answers``: at how many the join has results; ``holding``: at how
    many HAVING holds. ``final``: none can change any more, except by rows later than the streams' ``latest``.
    """

    from_us: int
    to_us: int
    value: float | None
    low: float | None
    high: float | None
    ticks: int
    answers: int
    holding: int
    final: bool


@dataclass(frozen=True)
class AnswerQuestion:
    """A checked question about a query; ``[start_us, end_us)`` is divided into at most ``points`` buckets."""

    query: str
    output: str
    start_us: int
    end_us: int
    points: int
    where: dict[str, str | None]
    groups: tuple[str, ...]


@dataclass(frozen=True)
class AnswerSeries:
    """The question, the group as text (empty without GROUP BY), and the group's buckets in order of time."""

    question: AnswerQuestion
    key: Key
    buckets: list[TickBucket]


def answer_series(
    home: Path | Home | PublishedReader,
    query: str,
    output: str | None = None,
    start: Timestamp | None = None,
    end: Timestamp | None = None,
    points: int = 100,
    where: Mapping[str, object] | None = None,
    limit: int | None = None,
    timeout_s: float | None = TIMEOUT_S,
) -> list[AnswerSeries]:
    """Answer an output, by default the first, for at most ``points`` parts of ``[start, end)``, by default of all.

    One series per group that has an answer in the range, in the order of their values. ``where``: only groups with
    these values, as text. ``limit``: only the first groups. ``timeout_s``: most seconds, None for no limit. Raises
    NotPublished if nothing has been published yet; AskError if a name does not exist, the range is empty, there are
    too many points, there are more than ``MOST_KEYS`` groups and no ``limit`` is given, or it exceeds its time or
    memory.
    """
    check_size(points, limit, "groups")
    with reading(home) as published, limited(published, timeout_s):
        asked = _question(published.connection, query, output, (start, end), points, values_as_text(where))
        groups = groups_of(published.connection, asked, "key_values", limit or MOST_KEYS + 1)
        check_lines(groups, asked.groups, "groups", "answers")
        return series_of(published.connection, asked, groups)


def whole_question(
    connection: duckdb.DuckDBPyConnection, query: str, output: str, points: int
) -> AnswerQuestion | None:
    """Return the question about all ticks of a query, None if it has no answer yet."""
    found = connection.execute(
        f"""
        SELECT min(tick_us), any_value(tick_from(time_us + 1, every_us)), any_value("groups")
        FROM queries JOIN answer_values USING (query)
        WHERE queries.query = {text(query)} AND answer_values.output = {text(output)}
        """
    ).fetchone()
    if found is None or found[0] is None:
        return None
    return AnswerQuestion(query, output, found[0], found[1], points, {}, tuple(found[2]))


def series_of(
    connection: duckdb.DuckDBPyConnection, asked: AnswerQuestion, keys: Sequence[Key]
) -> list[AnswerSeries]:
    """Ask for all buckets of these groups at once; the question must have been checked."""
    if not keys:
        return []
    wanted = ", ".join(map(text_map, keys))
    rows = connection.execute(
        f"""
        SELECT key, {_COLUMNS} FROM answer_series(
            {text(asked.query)}, {text(asked.output)}, make_timestamp({asked.start_us}), make_timestamp({asked.end_us}),
            {asked.points}
        ) WHERE key IN ({wanted}) ORDER BY starts_at
        """
    ).fetchall()
    found: dict[tuple[str | None, ...], list[TickBucket]] = {tuple(key.values()): [] for key in keys}
    for key, *bucket in rows:
        found[tuple(key[name] for name in asked.groups)].append(TickBucket(*bucket))
    return [AnswerSeries(asked, key, found[tuple(key.values())]) for key in keys]


def groups_of(
    connection: duckdb.DuckDBPyConnection, asked: AnswerQuestion, order: str, limit: int
) -> list[Key]:
    """Return the first groups that have an answer in the range, in a fixed order; one group without GROUP BY."""
    if not asked.groups:
        return [{}]
    places = {name: place for place, name in enumerate(asked.groups, start=1)}
    where = "".join(f" AND key_values[{places[name]}] = {text(value)}" for name, value in asked.where.items())
    rows = connection.execute(
        f"""
        SELECT key_values FROM answer_values WHERE query = {text(asked.query)} AND output = {text(asked.output)}
            AND tick_us >= {asked.start_us} AND tick_us < {asked.end_us}{where}
        GROUP BY key_values ORDER BY {order} LIMIT {limit}
        """
    ).fetchall()
    return [dict(zip(asked.groups, values, strict=True)) for (values,) in rows]


def _question(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    output: str | None,
    between: tuple[Timestamp | None, Timestamp | None],
    points: int,
    where: dict[str, str | None],
) -> AnswerQuestion:
    outputs, groups = _published(connection, query)
    output = output or outputs[0]
    if output not in outputs:
        raise UnknownName(unknown(f"output of {query}", output, outputs))
    for name in where:
        if name not in groups:
            raise UnknownName(unknown(f"group of {query}", name, groups))
    whole = whole_question(connection, query, output, points)
    if whole is None:
        raise AskError(f"{query} has no answer yet: nothing has joined at any tick that is published")
    start_us, end_us = (
        default if end is None else microseconds(end)
        for end, default in zip(between, (whole.start_us, whole.end_us), strict=True)
    )
    check_range(start_us, end_us)
    return AnswerQuestion(query, output, start_us, end_us, points, where, groups)


def _published(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the outputs and groups of a query."""
    found = connection.execute(
        """SELECT query, "groups" FROM queries WHERE "groups" IS NOT NULL ORDER BY query"""
    ).fetchall()
    groups = dict(found)
    if query not in groups:
        raise UnknownName(unknown("published aggregate", query, list(groups)))
    rows = connection.execute(f"SELECT output FROM outputs WHERE query = {text(query)}").fetchall()
    if not rows:
        raise AskError(f"{query} tells groups alone, no aggregate of them: there is nothing to draw")
    return [row[0] for row in rows], tuple(groups[query])
