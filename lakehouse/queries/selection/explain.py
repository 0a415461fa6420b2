"""A registered selection explained: what it does, why its conditions stand as they do, what each batch measured.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lakehouse.queries.pairs.explain import LAST
from lakehouse.queries.runtime.describe import order_in_words
from lakehouse.queries.runtime.operators import conditions_of, ranked, scan_facts
from lakehouse.queries.runtime.state import Facts
from lakehouse.queries.selection.describe import deadline_in_words
from lakehouse.queries.selection.state import SelectionState


def explain_selection(state: SelectionState) -> Facts:
    """Return all that is known of a query, as plain values; times in microseconds, None for no time yet."""
    query, last = state.query, state.figures.last_batch
    return {
        **state.facts(),
        "text": query.text,
        "meant_before": state.meant,
        "means": state.means,
        "plan": {
            "stream": query.stream,
            "conditions": conditions_of(query.conjuncts),
            "outputs": [{"name": each.name, "column": each.column} for each in query.outputs],
            "deadline": deadline_in_words(query),
        },
        "why": list(order_in_words(ranked(last))) if last else [],
        "last_batches": list(selection_batches(state))[-LAST:],
    }


def selection_batches(state: SelectionState) -> Iterator[Facts]:
    """Yield each finished batch: rows, delays, V and tau, and per operator what was measured."""
    for number, of_batch in groupby(state.figures.rows, key=lambda row: row["batch"]):
        yield {"batch": number, **scan_facts(list(of_batch))}
