"""A short cut to one series: DuckDB reads its nodes, and this process folds them, instead of a macro that does both.

Setting up the operators of a macro takes most of its time. Levels and groupings of a measure are kept with the
connection (ladder.py), and so are the series found. One statement, which a connection plans once, reads the nodes; the
fold is ``lakehouse/algorithms/rollup/ranges.py``. Questions by key, questions about several series, those with
thousands of nodes, those whose cut nodes are refined, and those over rows that may repeat others use the whole macro;
tests compare the answers of both ways.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from lakehouse.algorithms.rollup.ranges import (
    AGGREGATES,
    HOLD_WITHOUT_FORGOTTEN,
    Node,
    rows_inside,
    rows_of,
)
from lakehouse.serving.ask.ladder import Grouping, Ladder, chosen_grouping, ladder_of
from lakehouse.serving.ask.plans import plan
from lakehouse.serving.ask.question import Answer, Question
from lakehouse.serving.literals import texts

if TYPE_CHECKING:
    import duckdb

_TOP_US = -(2**62)
# Slot, start and segment of a row that was read.
_PLACE = itemgetter(0, 1, 2)
_MOST_SERIES = 10_000
# DuckDB folds more nodes than these in less time.
_MOST_NODES = 4_096
_Series = tuple[int, tuple[str | None, ...]]


@dataclass
class _Known:
    """The numbers of the series that a connection has looked up, and how many it has per grouping."""

    ranks: dict[_Series, list[int]] = field(default_factory=dict)
    looked_up: Counter[int] = field(default_factory=Counter)


_KNOWN: WeakKeyDictionary[duckdb.DuckDBPyConnection, _Known] = WeakKeyDictionary()
# A parameter in a filter has DuckDB plan the statement anew for each question. As rows of a list they only filter.
_SERIES = """
    PREPARE point_series AS SELECT series_rank
    FROM (SELECT $1::BIGINT AS grouping_id, unnest($2::VARCHAR[]) AS lookup, $3::VARCHAR[] AS key_values) AS asked
    JOIN series USING (grouping_id, lookup, key_values)
"""
# Rows sort by the place of their node, the newest segment last.
_NODES = f"""
    PREPARE {{name}} AS SELECT
        nodes.slot, start_us, segment, nodes.parent_us, n, total, {{exact}}, lowest, highest, magnitude,
        first_us, last_us
    FROM (
        SELECT piece[1] AS slot, piece[2] AS parent_us, piece[3] AS after_us, piece[4] AS end_us
        FROM (SELECT unnest($1::BIGINT[][]) AS piece)
    ) AS pieces
    JOIN node_segments AS nodes ON nodes.slot = pieces.slot AND nodes.parent_us = pieces.parent_us
        AND start_us > after_us AND start_us < end_us
    LIMIT {_MOST_NODES + 1}
"""


class Read(NamedTuple):
    """The statement that reads the nodes of a question, the ``name`` of its plan, and the values ``given`` to it."""

    name: str
    statement: str
    given: str


class Piece(NamedTuple):
    """Part of a level that a question reads: the children of one node, or the nodes of the coarsest level."""

    slot: int
    parent_us: int
    width_us: int
    parent_width_us: int
    finer_us: int
    horizon_us: int


class Point(NamedTuple):
    """A question about one series, with the levels and the grouping that answer it and the pieces to read."""

    question: Question
    ladder: Ladder
    chosen: Grouping
    pieces: list[Piece]

    def read(self) -> Read:
        """Return what to ask DuckDB. Each value has the type of its parameter, because DuckDB plans anew for others."""
        # A column of 128 bits is slow to read, and a measure of doubles has no exact sums.
        exact = "ifnull(exact_total, wide_total)" if self.ladder.is_exact else "NULL"
        name = f"point_{'exact' if self.ladder.is_exact else 'double'}"
        start, end = self.question.start_us, self.question.end_us
        pieces = (f"[{one.slot}, {one.parent_us}, {start - one.width_us}, {end}]" for one in self.pieces)
        # As text, because DuckDB makes an expression of each element of a written list.
        return Read(name, _NODES.format(name=name, exact=exact), f"'[{', '.join(pieces)}]'::BIGINT[][]")

    def answer(self, rows: list[tuple[Any, ...]]) -> tuple[Answer, int | None] | None:
        """Fold the rows that were read; return the answer and the rows of its least cut node.

        None if there are too many nodes, or if their values are too large to add as doubles.
        """
        if len(rows) > _MOST_NODES:
            return None
        question, ladder = self.question, self.ladder
        met = [*_met(rows, self.pieces, question)]
        if question.measure != "*" and not math.isfinite(sum(node.magnitude for node, _ in met)):
            return None
        nodes, is_forgotten = [node for node, _ in met], _is_forgotten(ladder, question)
        value, low, high, is_exact = AGGREGATES[question.aggregate](nodes, ladder.divisor, ladder.is_exact)
        if is_forgotten:
            holds_low, holds_high = HOLD_WITHOUT_FORGOTTEN[question.aggregate]
            low, high = low if holds_low else None, high if holds_high else None
        inside = rows_of(nodes)
        found = Answer(
            value=value,
            low=low,
            high=high,
            exact=is_exact and not is_forgotten,
            rows=_rounded(inside.spread),
            nodes_read=len(nodes),
            finest_granularity_us=min((width for _, width in met), default=None),
            as_of_version=ladder.version,
            key={},
            grouping=list(self.chosen.names),
            final=question.end_us <= ladder.final_before_us,
            rows_low=inside.low,
            rows_high=None if is_forgotten else inside.high,
        )
        return found, min((node.n for node in nodes if node.is_cut), default=None)


def asked(connection: duckdb.DuckDBPyConnection, question: Question) -> Point | None:
    """Return what to read; None if the question could be about more than one series, or no series holds it."""
    ladder = ladder_of(connection, question)
    chosen = chosen_grouping(connection, question)
    if ladder is None or chosen is None or question.by or question.start_us >= question.end_us:
        return None
    if ladder.in_doubt(question.start_us, question.end_us):
        return None
    if len(chosen.names) != len(question.where) or (
        question.measure == "*" and question.aggregate != "count"
    ):
        return None
    pieces = [*_pieces(ladder, _ranks(connection, question, chosen), question)]
    return Point(question, ladder, chosen, pieces) if pieces else None


def _ranks(connection: duckdb.DuckDBPyConnection, question: Question, chosen: Grouping) -> list[int]:
    """Return the number of the series asked for, or none.

    The second series of a grouping that a connection asks for brings all of them, unless they are too many: a lookup
    takes as long as the nodes do, and a process that asks about two series asks about more.
    """
    known = _KNOWN.setdefault(connection, _Known())
    series = (chosen.number, tuple(question.where[name] for name in chosen.names))
    if series not in known.ranks:
        known.looked_up[chosen.number] += 1
        if len(known.ranks) >= _MOST_SERIES:
            known.ranks.clear()
        if known.looked_up[chosen.number] == 2:
            known.ranks |= _all_series(connection, chosen.number)
        if series not in known.ranks:
            known.ranks[series] = _find(connection, *series)
    return known.ranks[series]


def _all_series(connection: duckdb.DuckDBPyConnection, grouping: int) -> dict[_Series, list[int]]:
    """Return the numbers of all series of a grouping; of none if they are too many."""
    rows = connection.execute(
        f"SELECT key_values, series_rank FROM series WHERE grouping_id = {grouping} LIMIT {_MOST_SERIES + 1}"
    ).fetchall()
    found: dict[_Series, list[int]] = {}
    for key_values, rank in rows if len(rows) <= _MOST_SERIES else []:
        found.setdefault((grouping, tuple(key_values)), []).append(rank)
    return found


def _find(
    connection: duckdb.DuckDBPyConnection, grouping: int, key_values: tuple[str | None, ...]
) -> list[int]:
    """Look a series up by `lookup`, which sorts, so that other series are not read; values may imitate a lookup."""
    lookup = "".join(("\1" if value is None else value) + "\x1f" for value in key_values)
    plan(connection, "point_series", _SERIES)
    given = f"{grouping}::BIGINT, {texts([lookup])}, {texts(key_values)}"
    rows = connection.execute(f"EXECUTE point_series({given})").fetchall()
    return [row[0] for row in rows]


def _pieces(ladder: Ladder, ranks: list[int], question: Question) -> Iterator[Piece]:
    """Yield the pieces that the macro ``reads_of`` would: the whole top, below it the children of cut nodes."""
    start, end = question.start_us, question.end_us
    for rank in ranks:
        for first_slot, width, parent_width, finer, horizon in ladder.levels:
            ends = {edge - edge % parent_width if parent_width else _TOP_US for edge in (start, end)}
            for parent in ends:
                if parent < start or end - parent_width < parent < end:
                    yield Piece(first_slot + rank, parent, width, parent_width, finer, horizon)


def _met(rows: list[tuple[Any, ...]], pieces: list[Piece], question: Question) -> Iterator[tuple[Node, int]]:
    """Yield the nodes that the macro ``nodes_inside`` would, in order of slot and start, each with its width."""
    start, end = question.start_us, question.end_us
    by_place = {piece[:2]: piece[2:] for piece in pieces}
    for row in {row[:2]: row for row in sorted(rows, key=_PLACE)}.values():
        slot, at, _, parent, n, total, exact, lowest, highest, magnitude, first_us, last_us = row
        width, parent_width, finer, horizon = by_place[slot, parent]
        if at < horizon:
            continue
        values = n, total, exact, lowest, highest, magnitude
        if start <= at <= end - width:
            # If its parent is whole too, that stands for it.
            if parent < start or parent > end - parent_width:
                yield Node(*values, n, n, 1.0), width
        elif start - width < at < end and at < finer:
            share = (min(end, at + width) - max(start, at)) / width
            yield Node(*values, *rows_inside(n, first_us, last_us, start, end), share), width


def _rounded(value: float) -> int:
    """Round as DuckDB does: halves up."""
    whole = int(value)
    return whole + (value - whole >= 0.5)


def _is_forgotten(ladder: Ladder, question: Question) -> bool:
    return max(question.start_us, ladder.earliest_us) < min(question.end_us, ladder.kept_us)
