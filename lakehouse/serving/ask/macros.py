"""Answers by the macros of the published file, so that Python, SQL and the command line say the same.

One series goes the short way (point.py), more keys than fit in memory go in parts (parts.py), all else in one
statement, which a connection plans once. Cost: DuckDB's planning; a few nodes per level and series.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakehouse.serving.ask import parts, point
from lakehouse.serving.ask.question import INCREASE, Answer, AskError, Question, order
from lakehouse.serving.literals import text, texts

if TYPE_CHECKING:
    import duckdb

# Which statements a connection has planned; it forgets with the connection.
_PLANNED: WeakKeyDictionary[duckdb.DuckDBPyConnection, set[str]] = WeakKeyDictionary()
COLUMNS = (
    "value, low, high, exact, rows, nodes_read, finest_granularity_us, as_of_version, key, grouping, final, "
    "rows_low, rows_high"
)


def answer(connection: duckdb.DuckDBPyConnection, question: Question) -> list[Answer]:
    """Ask the macro of the aggregate; the question must have been checked.

    A connection plans each aggregate once: a further question costs less, one about a single series least.
    """
    aggregate, limit = question.aggregate, question.limit
    # An increase adds up meters, whatever is asked by.
    if aggregate != INCREASE and (given := point.values(connection, question)) is not None:
        name = f"point_{aggregate}"
        plan(connection, name, point.prepared(name, aggregate, COLUMNS))
        return _answers(connection, f"EXECUTE {name}({given})", question)
    keys, values = texts(question.where), texts(question.where.values())
    given = (
        f"{text(question.stream)}, {text(question.measure)}, "
        f"[{question.start_us}, {question.end_us}]::BIGINT[], {keys}, {values}, {texts(question.by)}"
    )
    if ranges := parts.ranges(connection, question):
        return _in_parts(connection, question, given, ranges)
    name = f"asked_{aggregate}_{limit or 'all'}"
    plan(connection, name, _whole(name, aggregate, limit))
    return _answers(connection, f"EXECUTE {name}({given})", question)


def _in_parts(
    connection: duckdb.DuckDBPyConnection, question: Question, given: str, ranges: Sequence[tuple[int, int]]
) -> list[Answer]:
    aggregate, limit = question.aggregate, question.limit
    name = f"part_{aggregate}_{limit or 'all'}"
    plan(connection, name, parts.prepared(name, aggregate, COLUMNS, limit))
    found: list[Answer] = []
    for first, last in ranges:
        found += _answers(connection, f"EXECUTE {name}({given}, {first}::BIGINT, {last}::BIGINT)", question)
        if limit:
            found = sorted(found, key=order)[:limit]
    return sorted(found, key=order)


def plan(connection: duckdb.DuckDBPyConnection, name: str, statement: str) -> None:
    """Have a connection plan a statement, once; ``name``: what it prepares it as."""
    planned = _PLANNED.setdefault(connection, set())
    if name not in planned:
        connection.execute(statement)
        planned.add(name)


def _whole(name: str, aggregate: str, limit: int | None) -> str:
    return (
        f"PREPARE {name} AS SELECT {COLUMNS} FROM bucket_{aggregate}($1::VARCHAR, $2::VARCHAR, "
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
