"""A registered query that selects rows of one stream: what running it needs, and words for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from lakehouse.config.durations import format_duration
from lakehouse.queries.kind import Conjunct, Output, Query, RowScan, Side
from lakehouse.queries.language.words import condition_in_words


@dataclass(frozen=True)
class SelectionQuery(Query):
    """A registered selection: the rows of a stream for which all conjuncts hold, which are in the written order.

    Every row of the stream is looked at, so the one side has no condition: the query has them.
    ``deadline_us``: T, how long after the work on a batch began its rows are to be out.
    """

    kind: ClassVar[str] = "selection"
    kernel: ClassVar[str | None] = None
    sides: tuple[Side]
    conjuncts: tuple[Conjunct, ...]
    outputs: tuple[Output, ...]
    deadline_us: int

    @property
    def stream(self) -> str:
        """The stream that it reads."""
        return self.sides[0].stream

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that its conditions and its outputs read, sorted."""
        columns = {column for each in self.conjuncts for column in each.columns}
        return tuple(sorted(columns | {each.column for each in self.outputs}))

    def definition(self) -> str:
        """Definition that the rows depend on, as one line; texts that mean the same give the same line.

        What a predicate's file says is no part of it: a mended one goes on where the old one stopped.
        """
        where = " AND ".join(sorted(each.text for each in self.conjuncts))
        outputs = ", ".join(f"{each.name} = {each.column}" for each in self.outputs)
        return f"{self.stream} WHERE {where} OUTPUTS [{outputs}]".replace("\n", "\\n")

    def how(self) -> str:
        """Each row is decided alone."""
        return "ROW BY ROW"

    def row_scans(self) -> Mapping[int, RowScan]:
        """Return how the stream is read: row by row, whatever the conditions are."""
        columns = dict.fromkeys(output.column for output in self.outputs)
        return {0: RowScan(self.conjuncts, tuple(columns), self.deadline_us)}


def where_in_words(query: SelectionQuery) -> str:
    """Return all conditions in the written order."""
    return " and ".join(condition_in_words(each.text) for each in query.conjuncts)


def deadline_in_words(query: SelectionQuery) -> str:
    """Return what T is, and from when it counts."""
    return f"rows are out within {format_duration(query.deadline_us)} of the start of the work on a batch"
