"""Answers by the macros of the published file, so that Python, SQL and the command line agree.

A question by more keys than fit in memory is answered in parts (parts.py), and all others in one statement, which a
connection plans once. If an answer says that its cut nodes should be refined, the question is asked again with the
nodes of a finer grouping (refinement.py). Cost: DuckDB's planning; a few nodes per level and series.
"""

from collections.abc import Sequence
from typing import Any

import duckdb

from lakehouse.serving.ask import one_series, parts
from lakehouse.serving.ask.ladder import is_refined, ladder_of
from lakehouse.serving.ask.question import INCREASE, Answer, AskError, Question, order, planned
from lakehouse.serving.literals import text, texts

COLUMNS = (
    "value, low, high, exact, exact_value, rows, nodes_read, finest_granularity_us, as_of_version, key, grouping, "
    "final, rows_low, rows_high, unchecked, ambiguous"
)


def answer(connection: duckdb.DuckDBPyConnection, question: Question) -> list[Answer]:
    """Ask the macro of the aggregate; the question must have been checked.

    A connection plans each aggregate once: further questions cost less.
    """
    if ranges := parts.ranges(connection, question):
        return _in_parts(connection, question, ranges)
    rows = _whole(connection, question, refined=False)
    if is_refined(connection, question, (row[-1] for row in rows)):
        rows = _whole(connection, question, refined=True)
    return sorted((Answer(*row[:-1]) for row in rows), key=order)


def _in_parts(
    connection: duckdb.DuckDBPyConnection, question: Question, ranges: Sequence[tuple[int, int]]
) -> list[Answer]:
    aggregate, limit = question.aggregate, question.limit
    given = parameters(question, [question.start_us, question.end_us])
    name = planned(connection, parts.statement(aggregate, COLUMNS, limit))
    found: list[Answer] = []
    for first, last in ranges:
        asked = f"EXECUTE {name}({given}, {first}::BIGINT, {last}::BIGINT)"
        found += (Answer(*row) for row in _rows(connection, asked, question))
        if limit:
            found = sorted(found, key=order)[:limit]
    return sorted(found, key=order)


def _whole(connection: duckdb.DuckDBPyConnection, question: Question, refined: bool) -> list[tuple[Any, ...]]:
    one = None if refined else one_series.prepared(connection, question, COLUMNS)
    tail = f"ORDER BY map_values(key) NULLS LAST LIMIT {question.limit}" if question.limit else ""
    edges = [question.start_us, question.end_us]
    return _rows(connection, one or prepared(connection, question, edges, COLUMNS, refined, tail), question)


def prepared(
    connection: duckdb.DuckDBPyConnection,
    question: Question,
    edges: Sequence[int],
    columns: str,
    refined: bool,
    tail: str,
) -> str:
    """Return the call of a statement, planned if need be, that asks the same as the macro of the aggregate.

    Without the macro's refinement if not ``refined``, and without its steps for rows in doubt where there are none.
    The last column is the number of rows of the least cut node of an answer.
    """
    aggregate, ladder = question.aggregate, ladder_of(connection, question)
    in_doubt = ladder is None or ladder.in_doubt(question.start_us, question.end_us)
    statement = f"""
        WITH asked AS MATERIALIZED (FROM bucket_asked(
            $1::VARCHAR, $2::VARCHAR, $3::BIGINT[], MAP($4::VARCHAR[], $5::VARCHAR[]), $6::VARCHAR[],
            by_meter := {aggregate == INCREASE}
        )), reads AS (FROM reads_of('asked')), inside AS (FROM {inside(aggregate, refined)})
        SELECT {columns}, least_cut FROM {aggregate}_{"of" if in_doubt else "folded"}('asked', 'inside') {tail}
    """
    return f"EXECUTE {planned(connection, statement)}({parameters(question, edges)})"


def inside(aggregate: str, refined: bool) -> str:
    """Return SQL for the nodes that the aggregate folds, of the tables ``asked`` and ``reads``."""
    return (
        f"{aggregate}_inside('asked', 'reads')"
        if refined or aggregate == INCREASE
        else "nodes_inside('reads')"
    )


def parameters(question: Question, edges: Sequence[int]) -> str:
    """Return the parameters of the statement of ``prepared``."""
    keys, values = texts(question.where), texts(question.where.values())
    return (
        f"{text(question.stream)}, {text(question.measure)}, "
        f"[{', '.join(map(str, edges))}]::BIGINT[], {keys}, {values}, {texts(question.by)}"
    )


def _rows(connection: duckdb.DuckDBPyConnection, asked: str, question: Question) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return connection.execute(asked).fetchall()
    except duckdb.OutOfMemoryException:
        raise AskError(parts.too_many(connection, question)) from None
