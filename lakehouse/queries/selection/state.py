"""A registered selection as it stands, and its operators in the order that the next batch begins with."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakehouse.queries.runtime.operators import BATCH, OPERATOR, operator_facts, ordered
from lakehouse.queries.runtime.state import Facts, QueryState
from lakehouse.queries.selection.describe import stream_in_words, where_in_words
from lakehouse.queries.selection.query import SelectionQuery


@dataclass(frozen=True)
class SelectionState(QueryState):
    """One selection, as its tables have it."""

    query: SelectionQuery
    kind = "selection"
    piece = "operator"
    shared_figures = ("rows", "time_us", "committed_at")
    own_figures = (*OPERATOR, *BATCH)

    def own_facts(self) -> Facts:
        """Return what it selects, how many rows, deadlines missed, and its operators in their current order."""
        return {
            "join": stream_in_words(self.query),
            "condition": where_in_words(self.query),
            "deadline_us": self.query.deadline_us,
            "stopped": None if self.stopped is None else asdict(self.stopped),
            "selected": self.figures.total("selected"),
            "misses": self.figures.total("misses"),
            "worst_delay_us": max((row["worst_delay_us"] or 0 for row in self.figures.rows), default=None),
            "operators": [operator_facts(row) for row in ordered(self.figures.last_batch)],
        }
