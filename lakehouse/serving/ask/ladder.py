"""The levels and groupings of a measure in a published file, looked up once per connection.

A published file never changes, so the result is kept with the connection.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from lakehouse.algorithms.rollup.refinement import MOST_READS
from lakehouse.serving.ask.question import INCREASE, Question, kept
from lakehouse.serving.literals import text


class Grouping(NamedTuple):
    """A grouping's number, its keys, and these as DuckDB writes them.

    Nodes of a finer grouping replace its cut nodes of at most ``refined_rows`` rows; ``series``: the number of its
    series.
    """

    number: int
    names: tuple[str, ...]
    text: str
    refined_rows: int
    series: int


class Doubtful(NamedTuple):
    """The first and last time of ``n`` rows with a value that answers cannot be sure of."""

    from_us: int
    to_us: int
    n: int

    def touches(self, start_us: int, end_us: int) -> bool:
        """Return whether one of them may be in a range."""
        return self.from_us < end_us and self.to_us >= start_us


@dataclass(frozen=True)
class Ladder:
    """A measure in the table ``ladder``.

    Levels are (first_slot, width_us, parent_width_us, finer_us, horizon_us); groupings come fewest keys first;
    ``unchecked``: the first and last times of rows that may repeat others, and how many; ``ambiguous``: likewise, of
    rejected rows whose local time comes twice.
    """

    levels: tuple[tuple[int, int, int, int, int], ...]
    groupings: tuple[Grouping, ...]
    is_exact: bool
    divisor: float
    version: int
    final_before_us: int
    earliest_us: int
    kept_us: int
    unchecked: tuple[Doubtful, ...]
    ambiguous: tuple[Doubtful, ...]

    def in_doubt(self, start_us: int, end_us: int) -> bool:
        """Return whether a range touches times with rows that answers cannot be sure of."""
        return any(one.touches(start_us, end_us) for one in (*self.unchecked, *self.ambiguous))


_LADDER = """
    SELECT first_slot, width_us, parent_width_us, finer_us, horizon_us,
        list_transform(groupings, lambda g: {{
            id: g.id, names: g.key_names, text: g.key_names::VARCHAR,
            rows: ifnull(g.refined_rows, 0), series: ifnull(g.refined_series, 0)
        }}),
        is_exact, divisor, version, final_before_us, earliest_us, kept_us,
        list_transform(unchecked, lambda met: [met.from_us, met.to_us, met.n]),
        list_transform(ambiguous, lambda met: [met.from_us, met.to_us, met.n])
    FROM ladder, publication WHERE stream = {stream} AND measure = {measure} ORDER BY level
"""


def chosen_grouping(connection: duckdb.DuckDBPyConnection, question: Question) -> Grouping | None:
    """Return the grouping that answers, in the form of ``Ladder``; None if there is none."""
    ladder = ladder_of(connection, question)
    fitting = [one for one in ladder.groupings if question.keys <= set(one[1])] if ladder else []
    if question.aggregate == INCREASE:
        # Readings are kept meter by meter: by all keys, whatever the question's keys are.
        return max(fitting, key=lambda one: len(one[1]), default=None)
    return next(iter(fitting), None)


def is_refined(
    connection: duckdb.DuckDBPyConnection,
    question: Question,
    least_cuts: Iterable[int | None],
    ranges: int = 1,
) -> bool:
    """Return whether the macros would refine a cut node; ``least_cuts``: the rows of the least one of each answer."""
    chosen = chosen_grouping(connection, question)
    if chosen is None or ranges * chosen.series > MOST_READS:
        return False
    return any(rows is not None and rows <= chosen.refined_rows for rows in least_cuts)


def ladder_of(connection: duckdb.DuckDBPyConnection, question: Question) -> Ladder | None:
    """Return the ladder of the measure asked for; None if it is not published."""
    asked = question.stream, question.measure
    return kept(connection, ("ladder", *asked), lambda: _read(connection, *asked))


def _read(connection: duckdb.DuckDBPyConnection, stream: str, measure: str) -> Ladder | None:
    rows = connection.execute(_LADDER.format(stream=text(stream), measure=text(measure))).fetchall()
    if not rows:
        return None
    groupings: list[dict[str, Any]] = rows[0][5]
    named = tuple(
        Grouping(one["id"], tuple(one["names"]), one["text"], one["rows"], one["series"]) for one in groupings
    )
    doubtful = (tuple(Doubtful(*each) for each in ranges) for ranges in rows[0][-2:])
    return Ladder(tuple(row[:5] for row in rows), named, *rows[0][6:-2], *doubtful)
