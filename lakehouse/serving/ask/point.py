"""The short way to one series: what the macros look up for every question, looked up once per connection.

A published file never changes, so what is known of a measure is kept with the connection. What is left to DuckDB is
the part of the macro that reads nodes and folds them (``sum_of`` and its siblings), planned once. Questions by key, and
about several series, go through the whole macro; a test holds both ways to the same answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakehouse.serving.literals import text, texts

if TYPE_CHECKING:
    import duckdb

    from lakehouse.serving.ask.ask import Question

INCREASE = "increase"
_TOP_US = -(2**62)
_MOST_SERIES = 10_000
_READS = ("slot", "parent_us", "a_us", "b_us", "width_us", "parent_width_us", "finer_us")


@dataclass(frozen=True)
class _Ladder:
    """A measure as the table ``ladder`` has it.

    Levels are (first_slot, width_us, parent_width_us, finer_us), groupings
    as (number, key names, the names as DuckDB writes them), fewest keys first.
    """

    levels: tuple[tuple[int, int, int, int], ...]
    groupings: tuple[tuple[int, tuple[str, ...], str], ...]
    is_exact: bool
    divisor: float
    version: int
    final_before_us: int
    earliest_us: int
    kept_us: int


@dataclass
class _Known:
    """What a connection has looked up: measures, and the series met, of which there may be millions."""

    ladders: dict[tuple[str, str], _Ladder | None] = field(default_factory=dict)
    ranks: dict[tuple[int, tuple[str | None, ...]], list[int]] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[duckdb.DuckDBPyConnection, _Known] = WeakKeyDictionary()


def prepared(plan: str, aggregate: str, columns: str) -> str:
    """Return the statement that plans an aggregate over pieces of one series, each parameter once."""
    lists = ", ".join(f"unnest(${10 + place}::BIGINT[]) AS {name}" for place, name in enumerate(_READS))
    return f"""
        PREPARE {plan} AS
        WITH asked AS (
            SELECT 1 AS level, 1 AS bucket, false AS is_by_key, $1::BIGINT AS a_us, $2::BIGINT AS b_us,
                $3::VARCHAR AS grouping_text, $4::INTEGER AS version, $5::DOUBLE AS divisor,
                $6::BOOLEAN AS has_values, $7::BOOLEAN AS is_exact, $8::BOOLEAN AS is_forgotten, $9::BOOLEAN AS is_final
        ), reads AS (
            SELECT 1 AS bucket, '{{}}' AS key_json, unnest($17::BOOLEAN[]) AS is_exact, {lists}
        )
        SELECT {columns} FROM {aggregate}_of('asked', 'reads')
    """


def values(connection: duckdb.DuckDBPyConnection, question: Question) -> str | None:
    """Return what to execute the planned statement with; None where more than one series could be asked for.

    Each value has the type of its parameter: DuckDB plans anew for any other.
    """
    ladder = _ladder(connection, question.stream, question.measure)
    chosen = chosen_grouping(connection, question)
    if ladder is None or chosen is None or question.by or question.start_us >= question.end_us:
        return None
    number, names, named = chosen
    if len(names) != len(question.where):
        return None
    pieces = list(_pieces(ladder, _ranks(connection, question, number, names), question))
    scalars = (
        *(f"{question.start_us}::BIGINT", f"{question.end_us}::BIGINT", text(named)),
        *(
            f"{ladder.version}::INTEGER",
            f"{ladder.divisor}::DOUBLE",
            question.measure != "*",
            ladder.is_exact,
        ),
        *(_is_forgotten(ladder, question), question.end_us <= ladder.final_before_us),
    )
    lists = [
        f"[{', '.join(str(piece[place]) for piece in pieces)}]::BIGINT[]" for place in range(len(_READS))
    ]
    exact = f"[{', '.join([str(ladder.is_exact)] * len(pieces))}]::BOOLEAN[]"
    return ", ".join(str(value) for value in (*scalars, *lists, exact))


def chosen_grouping(
    connection: duckdb.DuckDBPyConnection, question: Question
) -> tuple[int, tuple[str, ...], str] | None:
    """Return number, keys and keys as text of the grouping that answers; None where there is none."""
    ladder = _ladder(connection, question.stream, question.measure)
    asked = {*question.where, *question.by}
    fitting = [one for one in ladder.groupings if asked <= set(one[1])] if ladder else []
    if question.aggregate == INCREASE:
        # Readings are kept meter by meter: by all keys, whatever is asked by.
        return max(fitting, key=lambda one: len(one[1]), default=None)
    return next(iter(fitting), None)


def _ladder(connection: duckdb.DuckDBPyConnection, stream: str, measure: str) -> _Ladder | None:
    known = _KNOWN.setdefault(connection, _Known()).ladders
    if (stream, measure) not in known:
        known[stream, measure] = _read(connection, stream, measure)
    return known[stream, measure]


def _read(connection: duckdb.DuckDBPyConnection, stream: str, measure: str) -> _Ladder | None:
    rows = connection.execute(
        f"SELECT first_slot, width_us, parent_width_us, finer_us, "
        "list_transform(groupings, lambda g: {id: g.id, names: g.key_names, text: g.key_names::VARCHAR}), "
        f"is_exact, divisor, version, final_before_us, earliest_us, kept_us FROM ladder, publication "
        f"WHERE stream = {text(stream)} AND measure = {text(measure)} ORDER BY level"
    ).fetchall()
    if not rows:
        return None
    groupings: list[dict[str, Any]] = rows[0][4]
    named = tuple((grouping["id"], tuple(grouping["names"]), grouping["text"]) for grouping in groupings)
    return _Ladder(tuple(row[:4] for row in rows), named, *rows[0][5:])


def _ranks(
    connection: duckdb.DuckDBPyConnection, question: Question, grouping: int, names: tuple[str, ...]
) -> list[int]:
    """Return the number of the series asked for, or none."""
    known = _KNOWN.setdefault(connection, _Known()).ranks
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


def _pieces(ladder: _Ladder, ranks: list[int], question: Question) -> Iterator[tuple[int, ...]]:
    """Yield what the macro ``reads_of`` would: the whole top, below it the children of nodes that an end cuts."""
    start, end = question.start_us, question.end_us
    for rank in ranks:
        for first_slot, width, parent_width, finer in ladder.levels:
            ends = {edge - edge % parent_width if parent_width else _TOP_US for edge in (start, end)}
            for parent in ends:
                if parent < start or end - parent_width < parent < end:
                    yield first_slot + rank, parent, start, end, width, parent_width, finer


def _is_forgotten(ladder: _Ladder, question: Question) -> bool:
    return max(question.start_us, ladder.earliest_us) < min(question.end_us, ladder.kept_us)
