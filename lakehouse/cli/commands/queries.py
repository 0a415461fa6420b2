"""``tidemark queries``: every registered query with its state; or a query that is to start over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of, nearest

if TYPE_CHECKING:
    from lakehouse.declare.settings import Settings

EXAMPLES = (
    "tidemark queries",
    "tidemark queries --json",
    "tidemark queries --forget replies",
    "tidemark queries --forget replies --yes --json",
)


def queries(
    context: typer.Context,
    forget: Annotated[
        str, typer.Option(metavar="QUERY", help="Remove its tables, plans and outcomes, to start over.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Forget without being asked.")] = False,
    as_json: AsJson = False,
) -> int | None:
    """List registered queries with state; forget one.

    Per query: what it joins, batches and rows taken in, logged rows that a repair still has to look at, rows and
    bytes held, stream time, age of the last batch. Of a join of pairs also the recall asked for, and pairs found
    online and by repair; of a join of three streams or more the results, rows that left their site, and bytes moved;
    of a join-aggregate the answers given, revised and repaired, and alarms raised now; of a selection, and of each
    side on which a predicate is called, the operators in the order that the next batch begins with: the share S that
    each lets through, what a row costs, how many rows it takes out a second, how long its turn may last, how many
    rows have waited for it.
    State: new, behind (by how many ingest batches), current, stopped: one of its operators raised an error, or
    changed: it means something else than its tables, which --forget removes. Refused while the query is run
    or repaired. No JVM is started.
    """
    settings = globals_of(context).settings()
    if forget:
        return _forget(settings, forget, yes, as_json)
    from lakehouse.cli.output import print_json
    from lakehouse.queries.runtime.states import overview

    found = overview(settings.layout, settings.registered, settings.queries.buckets)
    if as_json:
        print_json(found)
    else:
        _print(found, settings)
    return None


def _forget(settings: Settings, query: str, yes: bool, as_json: bool) -> int | None:
    from lakehouse.cli.output import print_json
    from lakehouse.queries.runtime.reset_query import forget, known_queries

    known = sorted({*settings.registered, *known_queries(settings.layout)})
    if query not in known:
        raise WrongUsage(f"no query {query!r}; expected {nearest(query, known)}")
    if as_json and not yes:
        raise WrongUsage("--forget with --json asks nothing: it needs --yes")
    if not yes and not typer.confirm(f"Remove all tables and state of {query}?", err=True):
        return 1
    size = forget(settings.layout, query)
    if as_json:
        print_json({"query": query, "removed_bytes": size})
    else:
        print(f"{query}: forgotten, {size:,} bytes; its next batch begins with the first rows that raw keeps")
    return None


def state_in_words(facts: Mapping[str, Any]) -> str:
    """Return a query's state; one that is behind, by how many ingest batches."""
    waiting = sum(facts["waiting"].values())
    if facts["state"] == "behind":
        return f"behind by {waiting}"
    return f"new, {waiting} wait" if facts["state"] == "new" and waiting else str(facts["state"])


def stopped_in_words(stopped: Mapping[str, Any]) -> str:
    """Return why a query stands still, and what to do."""
    place = f" ({stopped['place']})" if stopped["place"] else ""
    return (
        f"batch {stopped['batch']}, at {stopped['operator'].replace('`', '')}{place}: {stopped['error']}; mend it, the "
        "next run goes on from there"
    )


def _print_operators(queries: Sequence[Mapping[str, Any]]) -> None:
    from lakehouse.cli.output import print_table
    from lakehouse.cli.pages.operator_text import OPERATORS, operator_rows

    rows = [row for facts in queries for row in operator_rows(facts)]
    if rows:
        of_selections = all(facts["kind"] == "selection" for facts in queries if facts.get("operators"))
        told = "operators of selections" if of_selections else "operators"
        print_table(OPERATORS, rows, title=f"{told}, in the order that the next batch begins with")


def _print(found: Mapping[str, Any], settings: Settings) -> None:
    from lakehouse.cli.output import print_table

    if not found["queries"]:
        print(f"no query is registered; one is a file {settings.queries.folder}/NAME.sql")
    kinds = {facts["kind"] for facts in found["queries"]}
    for kind, title, headers, cells in _KINDS:
        rows = [cells(facts) for facts in found["queries"] if facts["kind"] == kind]
        if rows:
            print_table(headers, rows, title=title if len(kinds) > 1 else "")
    _print_operators(found["queries"])
    for facts in found["queries"]:
        if facts["state"] == "stopped":
            print(f"\n{facts['query']} is stopped: {stopped_in_words(facts['stopped'])}")
    for name in found["unregistered"]:
        print(f"{name}: has tables and is registered no longer; tidemark queries --forget {name}")


_HELD = ("open", "held", "state bytes", "newest", "last batch")


def _pairs(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    from lakehouse.declare.durations import format_duration

    asked = f"{facts['recall']:g} over {format_duration(facts['period_us'])}"
    return (
        *(facts["query"], state_in_words(facts), facts["join"], format_duration(facts["window_us"])),
        *(facts["condition"], asked, facts["batches"], facts["rows"]),
        *(facts["pairs_online"], facts["pairs_repaired"], *_held(facts)),
    )


def _results(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        *(facts["query"], state_in_words(facts), facts["join"], facts["condition"], facts["batches"]),
        *(facts["rows"], facts["results_online"], facts["results_repaired"], facts["left"]),
        *(facts["moved_bytes"], *_held(facts)),
    )


def _aggregate(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    from lakehouse.declare.durations import format_duration

    return (
        *(facts["query"], state_in_words(facts), facts["join"], facts["condition"], facts["groups"]),
        *(format_duration(facts["every_us"]), facts["method"], facts["batches"], facts["rows"]),
        *(facts["answered"], facts["revised"], facts["repaired"], facts["alarms"], *_held(facts)),
    )


def _selection(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    from lakehouse.cli.pages.figures import length
    from lakehouse.declare.durations import format_duration

    newest, ended = _held(facts)[-2:]
    return (
        *(facts["query"], state_in_words(facts), facts["join"], facts["condition"], facts["batches"]),
        *(facts["rows"], facts["selected"], format_duration(facts["deadline_us"]), facts["misses"]),
        *(length(facts["worst_delay_us"]), newest, ended),
    )


def _held(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    from lakehouse.cli.output import moment
    from lakehouse.cli.pages.status_page import age

    since = facts["last_batch_age_s"]
    ended = "-" if since is None else f"{age(since)} ago"
    return (facts["open"], facts["held"], facts["state_bytes"], moment(facts["newest_us"]), ended)


_PAIRS = (
    *("query", "state", "streams", "window", "condition", "recall", "batches", "rows", "online", "repaired"),
    *_HELD,
)
_RESULTS = (
    *("query", "state", "streams", "condition", "batches", "rows", "online", "repaired", "left site"),
    *("bytes moved", *_HELD),
)
_AGGREGATE = (
    *("query", "state", "streams", "condition", "groups", "every", "method", "batches", "rows", "answered"),
    *("revised", "repaired", "alarms", *_HELD),
)
_SELECTION = (
    *("query", "state", "stream", "condition", "batches", "rows", "selected", "deadline", "misses"),
    *("longest delay", "newest", "last batch"),
)
_KINDS = (
    ("pairs", "joins of pairs", _PAIRS, _pairs),
    ("results", "joins of three streams or more", _RESULTS, _results),
    ("aggregate", "join-aggregates", _AGGREGATE, _aggregate),
    ("selection", "selections", _SELECTION, _selection),
)
