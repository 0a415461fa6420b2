"""The sentences and tables of ``tidemark explain`` about selections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.cli.output import print_table
from lakehouse.cli.pages.explain_text import state_in_full
from lakehouse.cli.pages.operator_text import (
    SCAN,
    conditions_in_words,
    order_in_words,
    print_operators,
    scan_cells,
)

Facts = Mapping[str, Any]


def print_selection(facts: Facts) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    told = f": {facts['description']}" if facts["description"] else ""
    print(f"{facts['query']}{told}\nstate: {state_in_full(facts)}")
    for name, sentence in selection_plan_in_words(facts):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    print_operators(facts)
    rows = [(row["batch"], *scan_cells(row)) for row in facts["last_batches"]]
    print_table(("batch", *SCAN), rows, title="last batches")


def selection_plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name, and why its conditions stand as they do."""
    plan = facts["plan"]
    yield "stream", facts["join"]
    for sentence in conditions_in_words(plan["conditions"]):
        yield "where", sentence
    yield "shows", ", ".join(each["name"] for each in plan["outputs"])
    yield "deadline", plan["deadline"]
    yield from order_in_words(facts)
