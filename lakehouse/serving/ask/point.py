"""A short cut to one series: the lookups that the macros make for every question are made once per connection.

Levels and groupings of a measure are kept with the connection (ladder.py), and so are the series found. DuckDB then
only reads nodes and folds them, by a statement that it plans once (range_template.py). Questions by key, questions
about several series, those without a node, and those whose cut nodes are refined use the whole macro; a test compares
the answers of both ways.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from lakehouse.serving.ask.ladder import Grouping, Ladder, chosen_grouping, ladder_of
from lakehouse.serving.ask.question import Question
from lakehouse.serving.literals import text, texts
from lakehouse.serving.range_template import point_query

if TYPE_CHECKING:
    import duckdb

_TOP_US = -(2**62)
_MOST_SERIES = 10_000
_Series = tuple[int, tuple[str | None, ...]]
# The numbers of the series that a connection has looked up; there may be millions.
_RANKS: WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[_Series, list[int]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Asked:
    """A question about one series: the statement, the ``name`` of its plan, and the values ``given`` to it."""

    name: str
    statement: str
    given: str
    ladder: Ladder
    chosen: Grouping
    is_final: bool

    def row(self, found: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row of the statement as the macro returns it, and the number of rows of the least cut node."""
        value, low, high, is_exact, rows, rows_low, rows_high, nodes_read, finest_us, least_cut = found
        answer = value, low, high, is_exact, rows, nodes_read, finest_us
        said = self.ladder.version, dict[str, str](), list(self.chosen.names), self.is_final
        return *answer, *said, rows_low, rows_high, least_cut


def asked(connection: duckdb.DuckDBPyConnection, question: Question) -> Asked | None:
    """Return what to ask; None if the question could be about more than one series, or no series holds it.

    Each value has the type of its parameter, because DuckDB plans anew for any other.
    """
    ladder = ladder_of(connection, question)
    chosen = chosen_grouping(connection, question)
    if ladder is None or chosen is None or question.by or question.start_us >= question.end_us:
        return None
    if len(chosen.names) != len(question.where):
        return None
    pieces = [list(piece) for piece in _pieces(ladder, _ranks(connection, question, chosen), question)]
    if not pieces:
        return None
    name = f"point_{question.aggregate}{'_exact' if ladder.is_exact else ''}"
    # As text, because DuckDB makes an expression of each element of a written list.
    given = f"'[{', '.join(map(str, pieces))}]'::BIGINT[][], {ladder.divisor}::DOUBLE"
    given += f", {question.measure != '*'}, {_is_forgotten(ladder, question)}"
    statement = f"PREPARE {name} AS {point_query(question.aggregate, ladder.is_exact)}"
    return Asked(name, statement, given, ladder, chosen, question.end_us <= ladder.final_before_us)


def _ranks(connection: duckdb.DuckDBPyConnection, question: Question, chosen: Grouping) -> list[int]:
    """Return the number of the series asked for, or none."""
    known = _RANKS.setdefault(connection, {})
    series = (chosen.number, tuple(question.where[name] for name in chosen.names))
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
                    shape = (width, parent_width, finer, horizon)
                    yield first_slot + rank, parent, start, end, *shape


def _is_forgotten(ladder: Ladder, question: Question) -> bool:
    return max(question.start_us, ladder.earliest_us) < min(question.end_us, ladder.kept_us)
