"""An aggregate over evenly spaced buckets of a range, each with its interval: what a chart shows.

One question for all buckets, by the macros of the published file; each bucket is answered from the coarsest nodes that
fit it, as ``ask`` would. Cost: planning, then a few nodes per level and bucket.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.catalog.layout import Home
from lakehouse.serving.ask import AskError, Moment, Question, check, microseconds, values_as_text
from lakehouse.serving.literals import text, texts
from lakehouse.serving.sandbox import open_published

if TYPE_CHECKING:
    import duckdb

MOST_POINTS = 10_000


@dataclass(frozen=True)
class Bucket:
    """One part of the range, ``[from_us, to_us)``, and its answer; fields as those of an Answer."""

    from_us: int
    to_us: int
    value: float | None
    low: float | None
    high: float | None
    exact: bool
    rows: int


@dataclass(frozen=True)
class Series:
    """What was asked and its buckets in order of time; times in microseconds UTC."""

    question: Question
    grouping: list[str]
    as_of_version: int
    nodes_read: int
    buckets: list[Bucket]


def series(
    home: Path | Home,
    stream: str,
    measure: str,
    agg: str,
    start: Moment | None = None,
    end: Moment | None = None,
    points: int = 100,
    where: Mapping[str, object] | None = None,
) -> Series:
    """Answer an aggregate for at most ``points`` equal parts of ``[start, end)``, by default of all that came in.

    Raises:
        NotPublished: when nothing has been published yet.
        AskError: when something asked for does not exist, the range is empty, or there are too many points.
    """
    if not 1 <= points <= MOST_POINTS:
        raise AskError(f"points must be from 1 to {MOST_POINTS}, found {points}")
    with open_published(home) as published:
        first, last = _whole_range(published.connection, stream)
        start_us = first if start is None else microseconds(start)
        end_us = last if end is None else microseconds(end)
        question = Question(stream, measure, agg, start_us, end_us, values_as_text(where), ())
        check(published.connection, question)
        return buckets(published.connection, question, points)


def buckets(connection: duckdb.DuckDBPyConnection, question: Question, points: int) -> Series:
    """Ask the macro of the aggregate for all buckets at once; the question must have been checked."""
    rows = connection.execute(
        f"SELECT from_us, to_us, value, low, high, exact, rows, grouping, as_of_version, nodes_read "
        f"FROM bucket_{question.aggregate}({text(question.stream)}, {text(question.measure)}, "
        f"even_edges({question.start_us}, {question.end_us}, {points}), "
        f"keys := MAP({texts(question.where)}, {texts(question.where.values())})) ORDER BY bucket"
    ).fetchall()
    grouping, version = rows[0][7], rows[0][8]
    return Series(
        question, grouping, version, sum(row[9] for row in rows), [Bucket(*row[:7]) for row in rows]
    )


def _whole_range(connection: duckdb.DuckDBPyConnection, stream: str) -> tuple[int, int]:
    row = connection.execute(
        f"SELECT earliest_us, newest_us + 1 FROM streams WHERE stream = {text(stream)}"
    ).fetchone()
    return (0, 1) if row is None or row[0] is None else (row[0], row[1])
