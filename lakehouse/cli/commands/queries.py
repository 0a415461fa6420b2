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
    from lakehouse.queries.runtime.state import overview

    found = overview(settings.layout, settings.registered)
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


def _print_operators(queries: Sequence[Mapping[str, Any]]) -> None:
    from lakehouse.cli.output import print_table
    from lakehouse.cli.pages.operator_text import OPERATORS, operator_rows

    rows = [row for facts in queries for row in operator_rows(facts)]
    if rows:
        of_selections = all(facts["kind"] == "selection" for facts in queries if facts.get("operators"))
        told = "operators of selections" if of_selections else "operators"
        print_table(OPERATORS, rows, title=f"{told}, in the order that the next batch begins with")


def _print(found: Mapping[str, Any], settings: Settings) -> None:
    from lakehouse.cli.output import print_table, printable
    from lakehouse.cli.pages.state_text import stopped_in_words
    from lakehouse.queries.kind import kinds

    if not found["queries"]:
        print(f"no query is registered; one is a file {settings.queries.folder}/NAME.sql")
    is_mixed = len({facts["kind"] for facts in found["queries"]}) > 1
    for kind in kinds():
        own = [facts for facts in found["queries"] if facts["kind"] == kind.name]
        if own:
            text = kind.file("text")
            print_table(
                text.HEADERS, [text.cells(facts) for facts in own], title=text.TITLE if is_mixed else ""
            )
    _print_operators(found["queries"])
    for facts in found["queries"]:
        if facts["state"] == "stopped":
            print(printable(f"\n{facts['query']} is stopped: {stopped_in_words(facts['stopped'])}"))
    for name in found["unregistered"]:
        print(f"{name}: has tables and is registered no longer; tidemark queries --forget {name}")
