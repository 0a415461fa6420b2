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
        plan = f"point_{aggregate}"
        _plan(connection, plan, point.prepared(plan, aggregate, COLUMNS))
        return _answers(connection, f"EXECUTE {plan}({given})", question)
    keys, values = texts(question.where), texts(question.where.values())
    given = (
        f"{text(question.stream)}, {text(question.measure)}, "
        f"[{question.start_us}, {question.end_us}]::BIGINT[], {keys}, {values}, {texts(question.by)}"
    )
    if ranges := parts.ranges(connection, question):
        return _in_parts(connection, question, given, ranges)
    plan = f"asked_{aggregate}_{limit or 'all'}"
    _plan(connection, plan, _whole(plan, aggregate, limit))
    return _answers(connection, f"EXECUTE {plan}({given})", question)


def _in_parts(
    connection: duckdb.DuckDBPyConnection, question: Question, given: str, ranges: Sequence[tuple[int, int]]
) -> list[Answer]:
    aggregate, limit = question.aggregate, question.limit
    plan = f"part_{aggregate}_{limit or 'all'}"
    _plan(connection, plan, parts.prepared(plan, aggregate, COLUMNS, limit))
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
        f"PREPARE {plan} AS SELECT {COLUMNS} FROM bucket_{aggregate}($1::VARCHAR, $2::VARCHAR, "
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
