"""A registered selection as it stands, and explained: its plan, its operators in their order, its batches."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import groupby

from lakehouse.queries.runtime.operators import (
    conditions_of,
    operator_facts,
    order_in_words,
    ordered,
    ranked,
    scan_facts,
)
from lakehouse.queries.runtime.state import Declared, Facts, QueryState, last
from lakehouse.queries.selection.query import SelectionQuery, deadline_in_words, where_in_words


@dataclass(frozen=True)
class SelectionState(QueryState):
    """One selection, as its tables have it."""

    query: SelectionQuery

    def own_summary(self) -> Facts:
        """Return what it selects, how many rows, deadlines missed, and its operators in their current order."""
        return {
            "condition": where_in_words(self.query),
            "deadline_us": self.query.deadline_us,
            "stopped": None if self.stopped is None else asdict(self.stopped),
            "selected": self.metrics.standing("selected"),
            "misses": self.metrics.total("misses"),
            "worst_delay_us": max((row["worst_delay_us"] or 0 for row in self.metrics.rows), default=None),
            "operators": [operator_facts(row) for row in ordered(self.metrics.last_batch)],
        }


state_of = SelectionState


def explain(state: SelectionState, declared: Declared) -> Facts:
    """Return what is known of a query of this kind alone, as plain values."""
    query, rows = state.query, state.metrics.last_batch
    return {
        "plan": {
            "stream": query.stream,
            "conditions": conditions_of(query.conjuncts),
            "outputs": [{"name": each.name, "column": each.column} for each in query.outputs],
            "deadline": deadline_in_words(query),
        },
        "why": list(order_in_words(ranked(rows))) if rows else [],
        "last_batches": last(batches(state)),
    }


def batches(state: SelectionState) -> Iterator[Facts]:
    """Yield each finished batch: rows, delays, V and tau, and per operator what was measured."""
    for number, of_batch in groupby(state.metrics.rows, key=lambda row: row["batch"]):
        yield {"batch": number, **scan_facts(list(of_batch))}
