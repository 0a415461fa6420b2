"""What ``tidemark queries`` and ``tidemark explain`` say of conditions that are asked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakehouse.cli.output import print_table, time_text
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.declare.durations import format_duration

Facts = Mapping[str, Any]
OPERATORS = (
    *("query", "operator", "written", "now", "S", "us/row", "(1-S)n /s", "priority /s", "slice"),
    "most waited",
)
_OPERATOR = (*OPERATORS[1:], "rows in", "rows out")
SCAN = (
    *("ended", "rows", "selected", "order", "rows/s", "tau", "replans", "tasks", "together"),
    *("misses", "mean delay", "longest", "queue bytes", "stream time"),
)


def operator_rows(facts: Facts) -> list[tuple[Any, ...]]:
    """Return the rows of ``OPERATORS`` of one query; none where it has no such conditions."""
    return [(facts["query"], *_operator(row)) for row in facts.get("operators", ())]


def print_scans(facts: Facts) -> None:
    """Print the operators of a query in their current order, and the last scans of its sides, as far as it has such."""
    if "operators" not in facts:
        return
    operators = [(*_operator(row), row["taken"], row["passed"]) for row in facts["operators"]]
    print_table(_OPERATOR, operators, title="operators, in the order that the next batch begins with")
    scans = [
        (batch["batch"], side["side"], *scan_cells(side))
        for batch in facts.get("last_scans", ())
        for side in batch["sides"]
    ]
    if scans:
        print_table(("batch", "side", *SCAN), scans, title="last scans")


def scan_cells(row: Facts) -> tuple[Any, ...]:
    """Return the columns ``SCAN`` of one batch, or of one side in it."""
    order = " ".join(map(str, row["order"]))
    delays = (length(row["delay_us"]), length(row["worst_delay_us"]))
    return (
        *(ended_at(row), row["rows"], row["selected"], order, round(row["arrived_per_s"])),
        *(format_duration(row["tau_us"]), row["changes"], row["tasks"], row["together"], row["misses"]),
        *(*delays, row["queue_bytes"], time_text(row["time_us"])),
    )


def conditions_in_words(conditions: list[Facts]) -> Iterator[str]:
    """Yield conditions with their place in the written order and how each is asked."""
    for number, each in enumerate(conditions, start=1):
        yield f"{number}. {each['condition']} ({each['asked']})"


def where_in_words(plan: Facts) -> Iterator[tuple[str, str]]:
    """Yield what WHERE says of the one stream of a selection, or of each side of a join or an aggregate."""
    for sentence in conditions_in_words(plan.get("conditions", [])):
        yield "where", sentence
    for side in plan.get("sides", []):
        for sentence in conditions_in_words(side.get("conditions", [])):
            yield "where", f"{side['alias']}: {sentence}"
        if side["where"] and "conditions" not in side:
            yield "where", f"{side['alias']}: {side['where']}"


def order_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield why conditions stand as they do; nothing of a query without such conditions."""
    for sentence in facts.get("why", ()):
        yield "order", sentence


def _operator(row: Facts) -> tuple[Any, ...]:
    side = f"{row['side']}: " if row.get("side") else ""
    return (
        *(side + row["operator"], row["written"], row["now"], _or_none(share, row["selectivity"])),
        *(_or_none("{:.3g}".format, row["us_a_row"]), _or_none(round, row["filtered_per_s"])),
        *(_or_none(round, row["priority"]), _or_none(length, row["slice_us"]), row["waited"]),
    )


def _or_none(told: Callable[[Any], Any], value: float | None) -> Any:
    return None if value is None else told(value)
