"""Text of ``tidemark explain`` and ``tidemark queries`` for any kind: a query's plan, operators and state.

The text of one kind is in its module of ``lakehouse/cli/queries``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.cli.output import cell, print_line, print_table, time_text
from lakehouse.cli.pages.figures import ended_at, length, share
from lakehouse.cli.pages.status_page import age
from lakehouse.config.durations import format_duration

if TYPE_CHECKING:
    from lakehouse.queries.runtime.state import Declared

Facts = Mapping[str, Any]
# A column's values: a field of the row, or a function of the row.
Value = str | Callable[[Facts], Any]
# Values by the headers of their columns.
Columns = Mapping[str, Value]


def of(field: str, text: Callable[[Any], Any]) -> Callable[[Facts], Any]:
    """Return the function of a row that is the text of one of its fields."""
    return lambda row: text(row[field])


def cells(columns: Columns, row: Facts) -> tuple[Any, ...]:
    """Return a row's values in the columns."""
    return tuple(row[value] if isinstance(value, str) else value(row) for value in columns.values())


@dataclass(frozen=True)
class Table:
    """A table of an explanation: its title, its rows as a field of the facts or a function, and its columns."""

    title: str
    rows: Value
    columns: Columns


def no_sentences(facts: Facts) -> Iterator[str]:
    """Yield nothing, where all that a query found is in its tables."""
    return iter(())


@dataclass(frozen=True)
class KindText:
    """Text of one kind of query: its list, the sentences of its plan and results, and its tables.

    ``results``: sentences under ``heading``, between ``tables`` and ``last_tables``. ``charts``: those of its page, by
    facts, state and what is declared. ``waiting``: the next tick that raised alarms wait for.
    """

    title: str
    columns: Columns
    plan: Callable[[Facts], Iterator[tuple[str, str]]]
    tables: Sequence[Table]
    last_tables: Sequence[Table] = ()
    heading: str = ""
    results: Callable[[Facts], Iterator[str]] = no_sentences
    charts: Callable[[Facts, Any, Declared], Sequence[Facts]] | None = None
    waiting: Callable[[Facts], str | None] | None = None


def _ago(row: Facts) -> str:
    since = row["last_batch_age_s"]
    return "-" if since is None else f"{age(since)} ago"


TIME: Columns = {"stream time": of("time_us", time_text)}
LAST_BATCH: Columns = {"newest": of("newest_us", time_text), "last batch": _ago}
HELD: Columns = {"open": "open", "held": "held", "state bytes": "state_bytes", **LAST_BATCH}
SCAN: Columns = {
    "ended": ended_at,
    "rows": "rows",
    "selected": "selected",
    "order": of("order", lambda order: " ".join(map(str, order))),
    "rows/s": of("arrived_per_s", round),
    "tau": of("tau_us", format_duration),
    **{"replans": "changes", "tasks": "tasks", "together": "together", "misses": "misses"},
    "mean delay": of("delay_us", length),
    "longest": of("worst_delay_us", length),
    "queue bytes": "queue_bytes",
    **TIME,
}


def print_explained(facts: Facts, text: KindText) -> None:
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
    print_tables(facts, text.tables)
    sentences = list(text.results(facts))
    if sentences:
        print_line("\n".join(["", text.heading, *sentences]))
    print_tables(facts, text.last_tables)


def plan_in_words(facts: Facts, text: KindText) -> Iterator[tuple[str, str]]:
    """Yield what the query does, each part under its name, and why its conditions stand as they do."""
    yield "streams" if len(facts["streams"]) > 1 else "stream", facts["from_clause"]
    yield from _where_in_words(facts["plan"])
    yield from text.plan(facts)
    yield from _order_in_words(facts)


def print_tables(facts: Facts, tables: Iterable[Table]) -> None:
    """Print tables, without those that have no rows."""
    for table in tables:
        if rows := list(cells({"": table.rows}, facts)[0]):
            print_table(list(table.columns), [cells(table.columns, row) for row in rows], title=table.title)


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


def repairs_table(results: str, until: str = "stream time") -> Table:
    """Return the last repairs; ``results`` and ``until`` are the headers of what they found and up to when."""
    columns: Columns = {
        **{"repair": "repair", "ended": ended_at, "through batch": "through", "rows looked at": "looked_at"},
        **{results: "found", "beyond raw": "gone", until: of("time_us", time_text)},
    }
    return Table("last repairs", "last_repairs", columns)


def _print_scans(facts: Facts) -> None:
    """Print the operators of a query in their current order, and the last scans of its sides, as far as it has such."""
    sides = [
        {**side, "batch": batch["batch"]} for batch in facts.get("last_scans", ()) for side in batch["sides"]
    ]
    title = "operators, in the order that the next batch begins with"
    operators = Table(title, of("operators", list), {**OPERATOR, "rows in": "taken", "rows out": "passed"})
    scans = Table("last scans", lambda _: sides, {"batch": "batch", "side": "side", **SCAN})
    print_tables(facts, (operators, scans) if "operators" in facts else ())


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


def _known(field: str, text_of: Callable[[Any], Any]) -> Callable[[Facts], Any]:
    return of(field, lambda value: None if value is None else text_of(value))


OPERATOR: Columns = {
    "operator": lambda row: f"{row['side']}: {row['operator']}" if row.get("side") else row["operator"],
    **{"written": "written", "now": "now", "S": _known("selectivity", share)},
    "us/row": _known("us_a_row", "{:.3g}".format),
    "(1-S)n /s": _known("filtered_per_s", round),
    "priority /s": _known("priority", round),
    "slice": _known("slice_us", length),
    "most waited": "waited",
}


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
