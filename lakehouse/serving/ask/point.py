"""A short cut to one series: the lookups that the macros make for every question are made once per connection.

Levels and groupings of a measure are kept with the connection (ladder.py), and so are the series found. DuckDB then
only runs the part of the macro that reads nodes and folds them (``sum_of`` and its siblings), planned once. Questions
by key, questions about several series, and those whose cut nodes are refined use the whole macro; a test compares the
answers of both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakehouse.serving.ask.ladder import Ladder, chosen_grouping, ladder_of
from lakehouse.serving.ask.question import Question
from lakehouse.serving.literals import text, texts

if TYPE_CHECKING:
    import duckdb

_TOP_US = -(2**62)
_MOST_SERIES = 10_000
# A piece of a level of the series, each a whole number.
_PIECE = [
    "slot",
    "parent_us",
    "a_us",
    "b_us",
    "width_us",
    "parent_width_us",
    "finer_us",
    "horizon_us",
    "is_exact",
]


_Series = tuple[int, tuple[str | None, ...]]
# The numbers of the series that a connection has looked up; there may be millions.
_RANKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[_Series, list[int]]] = WeakKeyDictionary()


def prepared(plan: str, aggregate: str, columns: str) -> str:
    """Return the statement that plans an aggregate over pieces of one series, each parameter once.

    It also returns the number of rows of the least cut node.
    """
    piece = ", ".join(f"piece[{place}] AS {name}" for place, name in enumerate(_PIECE, start=1))
    return f"""
        PREPARE {plan} AS
        WITH asked AS (
            SELECT 1 AS level, 1 AS bucket, false AS is_by_key, $1::BIGINT AS a_us, $2::BIGINT AS b_us,
                $3::VARCHAR AS grouping_text, $4::INTEGER AS version, $5::DOUBLE AS divisor,
                $6::BOOLEAN AS has_values, $7::BOOLEAN AS is_exact, $8::BOOLEAN AS is_forgotten, $9::BOOLEAN AS is_final
        ), reads AS (
            SELECT 1 AS bucket, '{{}}' AS key_json, * REPLACE (is_exact = 1 AS is_exact)
            FROM (SELECT {piece} FROM (SELECT unnest($10::BIGINT[][]) AS piece))
        ), inside AS (FROM nodes_inside('reads'))
        SELECT {columns}, least_cut FROM {aggregate}_of('asked', 'inside')
    """


def values(connection: duckdb.DuckDBPyConnection, question: Question) -> str | None:
    """Return the parameters of the planned statement; None if the question could be about more than one series.

    Each value has the type of its parameter, because DuckDB plans anew for any other.
    """
    ladder = ladder_of(connection, question)
    chosen = chosen_grouping(connection, question)
    if ladder is None or chosen is None or question.by or question.start_us >= question.end_us:
        return None
    if len(chosen.names) != len(question.where):
        return None
    ranks = _ranks(connection, question, chosen.number, chosen.names)
    pieces = [list(piece) for piece in _pieces(ladder, ranks, question)]
    scalars = (
        *(f"{question.start_us}::BIGINT", f"{question.end_us}::BIGINT", text(chosen.text)),
        *(
            f"{ladder.version}::INTEGER",
            f"{ladder.divisor}::DOUBLE",
            question.measure != "*",
            ladder.is_exact,
        ),
        *(_is_forgotten(ladder, question), question.end_us <= ladder.final_before_us),
    )
    # As text, because DuckDB makes an expression of each element of a written list.
    given = f"'[{', '.join(map(str, pieces))}]'::BIGINT[][]"
    return ", ".join(str(value) for value in (*scalars, given))


def _ranks(
    connection: duckdb.DuckDBPyConnection, question: Question, grouping: int, names: tuple[str, ...]
) -> list[int]:
    """Return the number of the series asked for, or none."""
    known = _RANKS.setdefault(connection, {})
    series = (grouping, tuple(question.where[name] for name in names))
    if series not in known:
        if len(known) == _MOST_SERIES:
            known.clear()
        known[series] = _find(connection, *series)
    return known[series]


def _find(
    connection: duckdb.DuckDBPyConnection, grouping: int, key_values: tuple[str | None, ...]
) -> list[int]:
    """Look a series up by `lookup`, which sorts, so that other series are not read; values may imitate a lookup."""
    lookup = "".join(("\1" if value is None else value) + "\x1f" for value in key_values)
    rows = connection.execute(
        f"SELECT series_rank FROM series WHERE grouping_id = {grouping} AND lookup = {text(lookup)} "
        f"AND key_values = {texts(key_values)}"
    ).fetchall()
    return [row[0] for row in rows]


def _pieces(ladder: Ladder, ranks: list[int], question: Question) -> Iterator[tuple[int, ...]]:
    """Yield the pieces that the macro ``reads_of`` would: the whole top, below it the children of cut nodes."""
    start, end = question.start_us, question.end_us
    for rank in ranks:
        for first_slot, width, parent_width, finer, horizon in ladder.levels:
            ends = {edge - edge % parent_width if parent_width else _TOP_US for edge in (start, end)}
            for parent in ends:
                if parent < start or end - parent_width < parent < end:
                    shape = (width, parent_width, finer, horizon, int(ladder.is_exact))
                    yield first_slot + rank, parent, start, end, *shape


def _is_forgotten(ladder: Ladder, question: Question) -> bool:
    return max(question.start_us, ladder.earliest_us) < min(question.end_us, ladder.kept_us)
