"""Questions by more keys than fit in memory at once: by all keys of a grouping, answered some series at a time.

If each key is one series, any part of the series answers part of the question. Series are numbered in the order of
their keys, so a part reads neighbouring nodes. Cost: memory for ``SERIES`` of them, and the answers kept.
"""

import itertools
from collections.abc import Mapping, Sequence

import duckdb

from lakehouse.serving.ask.ladder import chosen_grouping
from lakehouse.serving.ask.question import INCREASE, Question
from lakehouse.serving.literals import text

# Few enough that the nodes of all of them, even if several segments hold them, fit into a reader's memory.
SERIES = 10_000


def statement(aggregate: str, columns: str, limit: int | None) -> str:
    """Return the statement of an aggregate by key over the series between two numbers."""
    return f"""
        WITH asked AS MATERIALIZED (FROM bucket_asked(
            $1::VARCHAR, $2::VARCHAR, $3::BIGINT[], MAP($4::VARCHAR[], $5::VARCHAR[]), $6::VARCHAR[]
        )), reads AS (FROM reads_of('asked', first_rank := $7::BIGINT, last_rank := $8::BIGINT)),
        inside AS (FROM {aggregate}_inside('asked', 'reads'))
        SELECT {columns} FROM {aggregate}_of('asked', 'inside')
        {f"ORDER BY map_values(key) NULLS LAST LIMIT {limit}" if limit else ""}
    """


def ranges(connection: duckdb.DuckDBPyConnection, question: Question) -> list[tuple[int, int]]:
    """Return the first and last number of each part's series; none if one part is enough, or keys span series."""
    chosen = chosen_grouping(connection, question)
    if chosen is None or not question.by or question.keys != set(chosen.names):
        return []
    first, last = span(connection, question, [{}])
    if last - first < SERIES:
        return []
    return [(rank, min(rank + SERIES - 1, last)) for rank in range(first, last + 1, SERIES)]


def span(
    connection: duckdb.DuckDBPyConnection, question: Question, keys: Sequence[Mapping[str, str | None]]
) -> tuple[int, int]:
    """Return the first and last number of the series that these keys can have; the last is -1 without series.

    Uses the leading keys of the grouping that have a value, so other series may lie between.
    """
    chosen = chosen_grouping(connection, question)
    if chosen is None:
        return (0, -1)
    leading = [_leading(chosen.names, {**key, **question.where}) for key in keys]
    row = connection.execute(
        f"SELECT min(series_rank), max(series_rank) FROM series WHERE grouping_id = {chosen.number} "
        f"AND lookup >= {text(min(leading))} AND lookup <= {text(max(leading))} || chr(1114111)"
    ).fetchone()
    return (0, -1) if row is None or row[0] is None else (row[0], row[1])


def _leading(names: Sequence[str], values: Mapping[str, str | None]) -> str:
    known = itertools.takewhile(values.__contains__, names)
    return "".join(("\1" if values[name] is None else str(values[name])) + "\x1f" for name in known)


def too_many(connection: duckdb.DuckDBPyConnection, question: Question) -> str:
    """Return why a question did not fit in memory, and what to do."""
    chosen = chosen_grouping(connection, question)
    names = list(chosen.names) if chosen else []
    asked = sorted(question.keys)
    free = [name for name in names if name not in asked]
    if free and question.aggregate != INCREASE:
        return (
            f"{question.stream} has no grouping by {asked} alone, so all series by {names} are read, and they do not "
            f"fit in memory; declare the grouping {asked}, or name some of {free} in where"
        )
    return (
        f"by {', '.join(question.by)} {question.stream} has more series than fit in memory; "
        "name some keys in where, or ask by fewer"
    )
