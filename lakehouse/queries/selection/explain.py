"""A registered selection explained: its plan, why its conditions stand as they do, what each batch measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lakehouse.queries.runtime.explain import Declared, last
from lakehouse.queries.runtime.operators import conditions_of, order_in_words, ranked, scan_facts
from lakehouse.queries.runtime.state import Facts
from lakehouse.queries.selection.describe import deadline_in_words
from lakehouse.queries.selection.state import SelectionState


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
