"""The sentences and tables of ``tidemark queries`` and ``tidemark explain`` about selections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.catalog.durations import format_duration
from lakehouse.cli.explain_text import ended_at, length, share, state_in_full
from lakehouse.cli.output import moment, print_table

Facts = Mapping[str, Any]
OPERATORS = (
    *("query", "operator", "written", "now", "S", "us/row", "(1-S)n /s", "priority /s", "slice"),
    "most waited",
)
_OPERATOR = (*OPERATORS[1:], "rows in", "rows out")
_BATCH = (
    *("batch", "ended", "rows", "selected", "order", "rows/s", "tau", "replans", "tasks", "together"),
    *("misses", "mean delay", "longest", "queue bytes", "stream time"),
)


def print_selection(facts: Facts) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    told = f": {facts['description']}" if facts["description"] else ""
    print(f"{facts['query']}{told}\nstate: {state_in_full(facts)}")
    for name, sentence in selection_plan_in_words(facts):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    rows = [(*_operator(row), row["taken"], row["passed"]) for row in facts["operators"]]
    print_table(_OPERATOR, rows, title="operators, in the order that the next batch begins with")
    print_table(_BATCH, list(map(_batch, facts["last_batches"])), title="last batches")


def selection_plan_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name, and why its conditions stand as they do."""
    plan = facts["plan"]
    yield "stream", facts["join"]
    for number, each in enumerate(plan["conditions"], start=1):
        yield "where", f"{number}. {each['condition']} ({each['asked']})"
    yield "shows", ", ".join(each["name"] for each in plan["outputs"])
    yield "deadline", plan["deadline"]
    for sentence in facts["why"]:
        yield "order", sentence


def operator_rows(facts: Facts) -> list[tuple[Any, ...]]:
    """Return the rows of ``OPERATORS`` of one query."""
    return [(facts["query"], *_operator(row)) for row in facts["operators"]]


def _operator(row: Facts) -> tuple[Any, ...]:
    return (
        *(row["operator"], row["written"], row["now"], share(row["selectivity"])),
        *(f"{row['us_a_row']:.3g}", round(row["filtered_per_s"]), round(row["priority"])),
        *(length(row["slice_us"]), row["waited"]),
    )


def _batch(row: Facts) -> tuple[Any, ...]:
    order = " ".join(map(str, row["order"]))
    delays = (length(row["delay_us"]), length(row["worst_delay_us"]))
    return (
        *(row["batch"], ended_at(row), row["rows"], row["selected"], order, round(row["arrived_per_s"])),
        *(format_duration(row["tau_us"]), row["changes"], row["tasks"], row["together"], row["misses"]),
        *(*delays, row["queue_bytes"], moment(row["time_us"])),
    )
