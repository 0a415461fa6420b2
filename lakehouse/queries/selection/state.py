"""A registered selection as it stands, and its operators in the order that the next batch begins with."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakehouse.queries.runtime.operators import BATCH, OPERATOR, operator_facts, ordered
from lakehouse.queries.runtime.state import Facts, QueryState
from lakehouse.queries.selection.describe import where_in_words
from lakehouse.queries.selection.query import SelectionQuery


@dataclass(frozen=True)
class SelectionState(QueryState):
    """One selection, as its tables have it."""

    query: SelectionQuery
    partition_column = "operator"
    shared_metrics = ("rows", "time_us", "committed_at")
    own_metrics = (*OPERATOR, *BATCH)

    def own_summary(self) -> Facts:
        """Return what it selects, how many rows, deadlines missed, and its operators in their current order."""
        return {
            "condition": where_in_words(self.query),
            "deadline_us": self.query.deadline_us,
            "stopped": None if self.stopped is None else asdict(self.stopped),
            "selected": self.metrics.total("selected"),
            "misses": self.metrics.total("misses"),
            "worst_delay_us": max((row["worst_delay_us"] or 0 for row in self.metrics.rows), default=None),
            "operators": [operator_facts(row) for row in ordered(self.metrics.last_batch)],
        }


state_of = SelectionState
