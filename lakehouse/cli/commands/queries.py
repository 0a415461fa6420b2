"""``tidemark queries``: list registered queries with their state, or start one over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json, print_line
from lakehouse.config.problems import nearest

if TYPE_CHECKING:
    from lakehouse.settings import Settings

EXAMPLES = (
    "tidemark queries",
    "tidemark queries --json",
    "tidemark queries --forget replies",
    "tidemark queries --forget replies --yes --json",
)


def queries(
    context: typer.Context,
    forget: Annotated[
        str,
        typer.Option(
            metavar="QUERY", help="Start this query over: remove its tables, manifests and outcomes."
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int | None:
    """List registered queries with state; start one over.

    For each query: its streams, the batches and rows processed, the logged rows that wait for a repair, rows and
    bytes held, stream time, age of the last batch. For a pairs query also the recall asked for, and pairs found
    online and by repair. For a multiway query: results, rows that left their site, and bytes moved. For an aggregate:
    answers given, revised and repaired, and alarms raised now. For a selection, and for each side that calls a
    predicate: the operators in the order with which the next batch begins, each with the share S that it passes, its
    cost per row, the rows that it removes a second, its time slice, and the most rows that waited for it.

    States: new; behind (by how many ingest batches); current; stopped (an operator raised an error); changed (the
    query means something other than its tables hold; --forget removes them). --forget is refused while the query runs
    or is repaired. No JVM is started.
    """
    settings = globals_of(context).settings()
    if forget:
        return _forget(settings, forget, yes, as_json)
    from lakehouse.queries.runtime.state import overview

    listing = overview(settings.layout, settings.registered)
    wrong = {name: list(map(str, problems)) for name, problems in settings.faulty.items()}
    listing["unregistered"] = [name for name in listing["unregistered"] if name not in wrong]
    listing["faulty"] = wrong
    if as_json:
        print_json(listing)
    else:
        _print(listing, settings)
    return None


def _forget(settings: Settings, query: str, yes: bool, as_json: bool) -> int | None:
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
    from lakehouse.cli.pages.explain_text import OPERATOR, Table, print_tables

    rows = [{**row, "query": facts["query"]} for facts in queries for row in facts.get("operators", ())]
    of_selections = all(facts["kind"] == "selection" for facts in queries if facts.get("operators"))
    title = f"operators{' of selections' * of_selections}, in the order that the next batch begins with"
    print_tables({"rows": rows}, [Table(title, "rows", {"query": "query", **OPERATOR})])


def _print(listing: Mapping[str, Any], settings: Settings) -> None:
    from lakehouse.cli.pages.explain_text import Table, print_tables, stopped_in_words
    from lakehouse.cli.queries import text_of
    from lakehouse.queries.kind import kinds

    if not listing["queries"] and not listing["faulty"]:
        print_line(f"no query is registered; one is a file {settings.queries.folder}/NAME.sql")
    is_mixed = len({facts["kind"] for facts in listing["queries"]}) > 1
    for kind in kinds():
        own = [facts for facts in listing["queries"] if facts["kind"] == kind.name]
        if not own:
            continue
        text = text_of(kind.name)
        print_tables({"queries": own}, [Table(text.title if is_mixed else "", "queries", text.columns)])
        for facts in own:
            if text.waiting and (waiting := text.waiting(facts)):
                print_line(f"{facts['query']}: the next tick is {waiting}")
    _print_operators(listing["queries"])
    for facts in listing["queries"]:
        for doubt in facts["doubts"]:
            print_line(f"{facts['query']}: not final: {doubt}")
        if facts["state"] == "stopped":
            print_line(f"\n{facts['query']} is stopped: {stopped_in_words(facts['stopped'])}")
    for name, problems in listing["faulty"].items():
        print_line("\n".join([f"\n{name} is set aside until its file is mended:", *problems]))
    for name in listing["unregistered"]:
        print_line(f"{name}: has tables and is registered no longer; tidemark queries --forget {name}")
