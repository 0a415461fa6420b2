"""``tidemark queries``: every registered query with its state; or a query that is to start over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of, nearest

if TYPE_CHECKING:
    from lakehouse.catalog.settings import Settings

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

    Per query: what it joins, the recall asked for, batches and rows taken in, pairs found online and by repair,
    logged rows that a repair still has to look at, rows and bytes held, stream time, age of the last batch.
    State: new, behind (by how many ingest batches), current, or changed: it means something else than its
    tables, which --forget removes. Refused while the query is run or repaired. No JVM is started.
    """
    settings = globals_of(context).settings()
    if forget:
        return _forget(settings, forget, yes, as_json)
    from lakehouse.cli.output import print_json
    from lakehouse.serving.queries import overview

    found = overview(settings.layout, settings.registered, settings.queries.buckets)
    if as_json:
        print_json(found)
    else:
        _print(found, settings)
    return None


def _forget(settings: Settings, query: str, yes: bool, as_json: bool) -> int | None:
    from lakehouse.catalog.forgetting import forget, known_queries
    from lakehouse.cli.output import print_json

    known = sorted({*settings.registered, *known_queries(settings.layout)})
    if query not in known:
        raise WrongUsage(f"no query {query!r}; expected {nearest(query, known)}")
    if as_json and not yes:
        raise WrongUsage("--forget with --json asks nothing: it needs --yes")
    if not yes and not typer.confirm(f"Remove all pairs and state of {query}?", err=True):
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


def _print(found: Mapping[str, Any], settings: Settings) -> None:
    from lakehouse.cli.output import print_table

    if not found["queries"]:
        print(f"no query is registered; one is a file {settings.queries.folder}/NAME.sql")
    else:
        print_table(_HEADERS, [_row(facts) for facts in found["queries"]])
    for name in found["unregistered"]:
        print(f"{name}: has tables and is registered no longer; tidemark queries --forget {name}")


_HEADERS = (
    *("query", "state", "streams", "window", "condition", "recall", "batches", "rows", "online", "repaired"),
    *("open", "held", "state bytes", "newest", "last batch"),
)


def _row(facts: Mapping[str, Any]) -> tuple[Any, ...]:
    from lakehouse.catalog.durations import format_duration
    from lakehouse.cli.output import moment
    from lakehouse.cli.status_page import age

    asked = f"{facts['recall']:g} over {format_duration(facts['period_us'])}"
    since = facts["last_batch_age_s"]
    return (
        *(facts["query"], state_in_words(facts), facts["join"], format_duration(facts["window_us"])),
        *(facts["condition"], asked, facts["batches"], facts["rows"]),
        *(facts["pairs_online"], facts["pairs_repaired"], facts["open"], facts["held"], facts["state_bytes"]),
        *(moment(facts["newest_us"]), "-" if since is None else f"{age(since)} ago"),
    )
