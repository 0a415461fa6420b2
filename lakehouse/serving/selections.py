"""A registered selection as it stands, and its operators in the order that the next batch begins with."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakehouse.catalog.selection_query import SelectionQuery
from lakehouse.catalog.selection_words import Ranked, condition_in_words, stream_in_words, where_in_words
from lakehouse.serving.query_state import Facts, QueryState

_OPERATOR = (
    *("name", "position", "taken", "passed", "busy_us", "handled_per_s", "selectivity", "priority"),
    *("slice_us", "waited"),
)
BATCH = (
    *("selected", "pieces", "misses", "delay_us", "worst_delay_us", "arrived_per_s", "switch_us"),
    *("tau_us", "changes", "tasks", "together", "queue_bytes"),
)


@dataclass(frozen=True)
class SelectionState(QueryState):
    """One selection, as its tables have it."""

    query: SelectionQuery
    kind = "selection"
    piece = "operator"
    shared_figures = ("rows", "time_us", "committed_at")
    own_figures = (*_OPERATOR, *BATCH)

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
            "operators": [self._operator(row) for row in self.ordered(self.figures.last_batch)],
        }

    def ordered(self, rows: list[Facts]) -> list[Facts]:
        """Return the operators of a batch in the order that the one after it begins with."""
        return sorted((row for row in rows if row["operator"] >= 0), key=lambda row: row["position"])

    def ranked(self) -> list[Ranked]:
        """Return the operators in their current order, with what was measured of them."""
        return [
            Ranked(row["name"], row["handled_per_s"], row["selectivity"], row["operator"])
            for row in self.ordered(self.figures.last_batch)
        ]

    def _operator(self, row: Facts) -> Facts:
        ranked = Ranked(row["name"], row["handled_per_s"], row["selectivity"], row["operator"])
        return {
            "operator": condition_in_words(row["name"]),
            "written": row["operator"] + 1,
            "now": row["position"] + 1,
            "selectivity": row["selectivity"],
            "us_a_row": ranked.us_a_row,
            "handled_per_s": row["handled_per_s"],
            "filtered_per_s": ranked.filtered_per_s,
            "priority": row["priority"],
            "slice_us": row["slice_us"],
            "waited": row["waited"],
            "taken": row["taken"],
            "passed": row["passed"],
        }
