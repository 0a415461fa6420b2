"""Text of ``tidemark explain`` and ``tidemark queries`` for any kind: a query's plan, operators and state.

The text of one kind is in its module of ``lakehouse/cli/queries``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse.cli.output import cell, print_line, print_table, time_text
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.cli.pages.status_page import age
from lakehouse.config.durations import format_duration

OPERATORS = (
    *("query", "operator", "written", "now", "S", "us/row", "(1-S)n /s", "priority /s", "slice"),
    "most waited",
)
_OPERATOR = (*OPERATORS[1:], "rows in", "rows out")
SCAN = (
    *("ended", "rows", "selected", "order", "rows/s", "tau", "replans", "tasks", "together"),
    *("misses", "mean delay", "longest", "queue bytes", "stream time"),
)
Facts = Mapping[str, Any]
HELD = ("open", "held", "state bytes", "newest", "last batch")


@dataclass(frozen=True)
class Table:
    """A table under its title; one without rows is not printed."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


class ExplainText(Protocol):
    """Text of an explained query by its kind's module of ``lakehouse/cli/queries``."""

    HEADING: str

    def plan_in_words(self, facts: Facts) -> Iterator[tuple[str, str]]:
        """Yield how its rows are found and what is shown, each part under its name."""

    def found_in_words(self, facts: Facts) -> Iterator[str]:
        """Yield what it found, to stand under ``HEADING``."""

    def tables(self, facts: Facts) -> Iterator[Table]:
        """Yield the tables that stand before these sentences."""

    def last_tables(self, facts: Facts) -> Iterator[Table]:
        """Yield those that stand behind them."""


def print_explained(facts: Facts, text: ExplainText) -> None:
    """Print what is known of a query; before its first batch that is its plan."""
    description = f": {facts['description']}" if facts["description"] else ""
    print_line(f"{facts['query']}{description}\nstate: {_state_in_full(facts)}")
    for doubt in facts["doubts"]:
        print_line(f"not final: {doubt}")
    for name, sentence in plan_in_words(facts, text):
        print_line(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    _print_scans(facts)
    _print_tables(text.tables(facts))
    sentences = list(text.found_in_words(facts))
    if sentences:
        print_line("\n".join(["", text.HEADING, *sentences]))
    _print_tables(text.last_tables(facts))


def plan_in_words(facts: Facts, text: ExplainText) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name, and why its conditions stand as they do."""
    yield "streams" if len(facts["streams"]) > 1 else "stream", facts["from_clause"]
    yield from _where_in_words(facts["plan"])
    yield from text.plan_in_words(facts)
    yield from _order_in_words(facts)


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        if table.rows:
            print_table(table.headers, table.rows, title=table.title)


def outputs_in_words(facts: Facts) -> str:
    """Return the columns that a join shows, and which stream each is of."""
    return ", ".join(f"{output['name']} ({output['stream']})" for output in facts["plan"]["outputs"])


def to_repair_in_words(waiting: Facts) -> str:
    """Return how many logged rows no repair has looked at."""
    begun = "; a repair was begun and is not finished" if waiting["begun"] else ""
    if not waiting["rows"]:
        return f"to repair: nothing{begun}"
    first, last = waiting["batches"]
    times = f"{time_text(waiting['oldest_us'])} to {time_text(waiting['newest_us'])}"
    taken = f"batch {last}" if first == last else f"batches {first} to {last}"
    return f"to repair: {waiting['rows']:,} logged rows of {taken}, {times}{begun}"


def repairs_table(facts: Facts, results: str, until: str = "stream time") -> Table:
    """Return the last repairs; ``results`` and ``until`` are the headers of what they found and up to when."""
    headers = ("repair", "ended", "through batch", "rows looked at", results, "beyond raw", until)
    return Table("last repairs", headers, [_repair(row) for row in facts["last_repairs"]])


def _repair(row: Facts) -> tuple[Any, ...]:
    counts = (row["through"], row["looked_at"], row["found"], row["gone"])
    return (row["repair"], ended_at(row), *counts, time_text(row["time_us"]))


def operator_rows(facts: Facts) -> list[tuple[Any, ...]]:
    """Return the rows of ``OPERATORS`` of one query; none where it has no such conditions."""
    return [(facts["query"], *_operator(row)) for row in facts.get("operators", ())]


def _print_scans(facts: Facts) -> None:
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


def _conditions_in_words(conditions: list[Facts]) -> Iterator[str]:
    """Yield conditions with their place in the written order and how each is asked."""
    for number, condition in enumerate(conditions, start=1):
        yield f"{number}. {condition['condition']} ({condition['asked']})"


def _where_in_words(plan: Facts) -> Iterator[tuple[str, str]]:
    """Yield what WHERE says of the one stream of a selection, or of each side of a join or an aggregate."""
    for sentence in _conditions_in_words(plan.get("conditions", [])):
        yield "where", sentence
    for side in plan.get("sides", []):
        for sentence in _conditions_in_words(side.get("conditions", [])):
            yield "where", f"{side['alias']}: {sentence}"
        if side["where"] and "conditions" not in side:
            yield "where", f"{side['alias']}: {side['where']}"


def _order_in_words(facts: Facts) -> Iterator[tuple[str, str]]:
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


def _or_none(text_of: Callable[[Any], Any], value: float | None) -> Any:
    return None if value is None else text_of(value)


def state_in_words(facts: Facts) -> str:
    """Return a query's state; one that is behind, by how many ingest batches."""
    waiting = sum(facts["waiting"].values())
    if facts["state"] == "behind":
        return f"behind by {waiting}"
    return f"new, {waiting} wait" if facts["state"] == "new" and waiting else str(facts["state"])


def stopped_in_words(stopped: Facts) -> str:
    """Return why a query stands still, and what to do."""
    at = f" ({stopped['place']})" if stopped["place"] else ""
    return (
        f"batch {stopped['batch']}, at {stopped['operator'].replace('`', '')}{at}: {stopped['error']}; mend it, the "
        "next run goes on from there"
    )


def _state_in_full(facts: Facts) -> str:
    """Return a query's state with what waits and when its last batch ended; of a changed one, both meanings."""
    state, since = state_in_words(facts), facts["last_batch_age_s"]
    if facts["meant_before"] is not None:
        return (
            f"changed; its tables are of {facts['meant_before']}\n       now it means {facts['means']}\n       "
            f"give it a name of its own, or start over with `tidemark queries --forget {facts['query']}`"
        )
    if state == "stopped":
        return f"stopped; {stopped_in_words(facts['stopped'])}"
    waiting = cell({stream: count for stream, count in facts["waiting"].items() if count})
    behind = f" ({waiting} ingest batches)" if waiting != "-" else ""
    ended = (
        "" if since is None else f"; last batch {age(since)} ago, stream time {time_text(facts['newest_us'])}"
    )
    return f"{state}{behind}{ended}"


def held_cells(facts: Facts) -> tuple[Any, ...]:
    """Return the columns ``HELD`` of a query."""
    since = facts["last_batch_age_s"]
    ended = "-" if since is None else f"{age(since)} ago"
    return (facts["open"], facts["held"], facts["state_bytes"], time_text(facts["newest_us"]), ended)
