"""What ``tidemark explain`` prints of a query of any kind; the words of one kind are in its ``text.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lakehouse.cli.output import print_table, time_text
from lakehouse.cli.pages.figures import ended_at
from lakehouse.cli.pages.operator_text import order_in_words, print_scans, where_in_words
from lakehouse.cli.pages.state_text import state_in_full

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A table under its title; one without rows is not printed."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]


class ExplainText(Protocol):
    """What a kind's ``text.py`` says of an explained query."""

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
    print(f"{facts['query']}{description}\nstate: {state_in_full(facts)}")
    for name, sentence in plan_in_words(facts, text):
        print(f"{name + ':':<11}{sentence}")
    if not facts["batches"]:
        return
    print_scans(facts)
    _print_tables(text.tables(facts))
    sentences = list(text.found_in_words(facts))
    if sentences:
        print("\n".join(["", text.HEADING, *sentences]))
    _print_tables(text.last_tables(facts))


def plan_in_words(facts: Facts, text: ExplainText) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name, and why its conditions stand as they do."""
    yield "streams" if len(facts["streams"]) > 1 else "stream", facts["from_clause"]
    yield from where_in_words(facts["plan"])
    yield from text.plan_in_words(facts)
    yield from order_in_words(facts)


def _print_tables(tables: Iterable[Table]) -> None:
    for table in tables:
        if table.rows:
            print_table(table.headers, table.rows, title=table.title)


def outputs_in_words(facts: Facts) -> str:
    """Return the columns that a join shows, and which stream each is of."""
    return ", ".join(f"{each['name']} ({each['stream']})" for each in facts["plan"]["outputs"])


def to_repair_in_words(found: Facts) -> str:
    """Return how many logged rows no repair has looked at."""
    begun = "; a repair was begun and is not finished" if found["begun"] else ""
    if not found["rows"]:
        return f"to repair: nothing{begun}"
    first, last = found["batches"]
    times = f"{time_text(found['oldest_us'])} to {time_text(found['newest_us'])}"
    taken = f"batch {last}" if first == last else f"batches {first} to {last}"
    return f"to repair: {found['rows']:,} logged rows of {taken}, {times}{begun}"


def repairs_table(facts: Facts, found: str, until: str = "stream time") -> Table:
    """Return the last repairs; ``found`` and ``until`` are the headers of what they found and up to when."""
    headers = ("repair", "ended", "through batch", "rows looked at", found, "beyond raw", until)
    return Table("last repairs", headers, [_repair(row) for row in facts["last_repairs"]])


def _repair(row: Facts) -> tuple[Any, ...]:
    counts = (row["through"], row["looked_at"], row["found"], row["gone"])
    return (row["repair"], ended_at(row), *counts, time_text(row["time_us"]))
