"""A registered selection explained: what it does, why its conditions stand as they do, what each batch measured.

Reads the query's tables as they are now, not a published version; starts no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from lakehouse.catalog.selection_words import (
    condition_in_words,
    deadline_in_words,
    kind_in_words,
    order_in_words,
)
from lakehouse.serving.explain import LAST
from lakehouse.serving.query_state import Facts
from lakehouse.serving.selections import BATCH, SelectionState


def explain_selection(state: SelectionState) -> Facts:
    """Return all that is known of a query, as plain values; times in microseconds, None for no time yet."""
    query = state.query
    return {
        **state.facts(),
        "text": query.text,
        "meant_before": state.meant,
        "means": state.means,
        "plan": {
            "stream": query.stream,
            "conditions": [
                {"condition": condition_in_words(each.text), "asked": kind_in_words(each)}
                for each in query.conjuncts
            ],
            "outputs": [{"name": each.name, "column": each.column} for each in query.outputs],
            "deadline": deadline_in_words(query),
        },
        "why": list(order_in_words(state.ranked())) if state.figures.finished else [],
        "last_batches": list(selection_batches(state))[-LAST:],
    }


def selection_batches(state: SelectionState) -> Iterator[Facts]:
    """Yield each finished batch: rows, delays, V and tau, and per operator what was measured."""
    for number, of_batch in groupby(state.figures.rows, key=lambda row: row["batch"]):
        rows = list(of_batch)
        whole = next(row for row in rows if row["operator"] < 0)
        yield {
            "batch": number,
            **{name: whole[name] for name in ("committed_at", "rows", "time_us", *BATCH)},
            "order": [row["operator"] + 1 for row in state.ordered(rows)],
            "operators": [
                {
                    "operator": condition_in_words(row["name"]),
                    **{name: row[name] for name in ("taken", "passed", "busy_us", "selectivity")},
                    "handled_per_s": row["handled_per_s"],
                }
                for row in rows
                if row["operator"] >= 0
            ],
        }
