"""The request of a question about one series, with the pieces of levels to read, as the parameters of one statement.

Finding levels, grouping and series takes a macro as long as reading and folding the nodes does. A published file never
changes, so they are kept with the connection, and the macros begin where they read nodes. Of other questions the macros
find them: by key, about several series, of counters, whose cut nodes are refined, and over rows in doubt.
"""

from collections.abc import Iterator

import duckdb

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.serving.ask.ladder import Ladder, chosen_grouping, ladder_of
from lakehouse.serving.ask.question import INCREASE, Question, kept, planned
from lakehouse.serving.literals import literal, texts

_MOST_SERIES = 10_000
_Series = tuple[int, tuple[str | None, ...]]
# A parameter in a filter has DuckDB plan the statement anew for each question. As rows of a list they only filter.
_FIND = """
    SELECT series_rank
    FROM (SELECT $1::BIGINT AS grouping_id, unnest($2::VARCHAR[]) AS lookup, $3::VARCHAR[] AS key_values) AS asked
    JOIN series USING (grouping_id, lookup, key_values)
"""
# What the folds need of bucket_asked and reads_of.
_REQUEST = """STRUCT(
    bucket BIGINT, level INTEGER, is_by_key BOOLEAN, a_us BIGINT, b_us BIGINT, is_exact BOOLEAN, divisor DOUBLE,
    version INTEGER, has_values BOOLEAN, is_counter BOOLEAN, grouping_text VARCHAR, is_forgotten BOOLEAN,
    is_final BOOLEAN, asked_stream VARCHAR, asked_measure VARCHAR
)[]"""
_STATEMENT = f"""
    WITH asked AS MATERIALIZED (SELECT unnest($1::{_REQUEST}, recursive := true)),
    reads AS (
        SELECT
            1 AS bucket, '{{{{}}}}' AS key_json, piece[1] AS slot, piece[2] AS parent_us, piece[3] AS width_us,
            piece[4] AS parent_width_us, piece[5] AS finer_us, piece[6] AS horizon_us, piece[7] AS a_us,
            piece[8] AS b_us
        FROM (SELECT unnest($2::BIGINT[][]) AS piece)
    ),
    inside AS (FROM nodes_inside('reads'))
    SELECT {{columns}}, least_cut FROM {{aggregate}}_folded('asked', 'inside')
"""


def prepared(connection: duckdb.DuckDBPyConnection, question: Question, columns: str) -> str | None:
    """Return the call of a statement, planned if need be, that answers; None if macros must find what to read."""
    ladder, chosen = ladder_of(connection, question), chosen_grouping(connection, question)
    if ladder is None or chosen is None or question.by or question.aggregate == INCREASE:
        return None
    if len(chosen.names) != len(question.where) or ladder.in_doubt(question.start_us, question.end_us):
        return None
    series = chosen.number, tuple(question.where[name] for name in chosen.names)
    pieces = [*_pieces(ladder, _ranks(connection, series), question)]
    if not pieces:
        return None
    start, end = question.start_us, question.end_us
    is_forgotten = max(start, ladder.earliest_us) < min(end, ladder.kept_us)
    known = (ladder.is_exact, ladder.divisor, ladder.version, question.measure != "*", False, chosen.text)
    request = (1, 1, False, start, end, *known, is_forgotten, end <= ladder.final_before_us, question.stream)
    asked = ", ".join(map(literal, (*request, question.measure)))
    name = planned(connection, _STATEMENT.format(columns=columns, aggregate=question.aggregate))
    # Of its parameters' types, because DuckDB plans anew for others; pieces as text, which it reads at once.
    return f"EXECUTE {name}([ROW({asked})]::{_REQUEST}, '{pieces}'::BIGINT[][])"


def _ranks(connection: duckdb.DuckDBPyConnection, series: _Series) -> list[int]:
    """Look a series up by `lookup`, which sorts, so that other series are not read; values may imitate a lookup."""
    known: dict[_Series, list[int]] = kept(connection, "ranks", dict)
    if series not in known:
        grouping, key_values = series
        lookup = "".join(("\1" if value is None else value) + "\x1f" for value in key_values)
        given = f"{grouping}::BIGINT, {texts([lookup])}, {texts(key_values)}"
        rows = connection.execute(f"EXECUTE {planned(connection, _FIND)}({given})").fetchall()
        if len(known) >= _MOST_SERIES:
            known.clear()
        known[series] = [row[0] for row in rows]
    return known[series]


def _pieces(ladder: Ladder, ranks: list[int], question: Question) -> Iterator[list[int]]:
    """Yield the pieces that the macro ``reads_of`` would: the whole top, below it the children of cut nodes."""
    start, end = question.start_us, question.end_us
    for rank in ranks:
        for first_slot, width, parent_width, finer, horizon in ladder.levels:
            ends = {edge - edge % parent_width if parent_width else KEPT_FOREVER_US for edge in (start, end)}
            for parent in sorted(ends):
                if parent < start or end - parent_width < parent < end:
                    yield [first_slot + rank, parent, width, parent_width, finer, horizon, start, end]
