"""``tidemark explain``: what a registered query does, holds, has missed and is owed; and the picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of, nearest

if TYPE_CHECKING:
    from lakehouse.catalog.settings import Settings
    from lakehouse.serving.queries import QueryState

EXAMPLES = (
    "tidemark explain replies",
    "tidemark explain replies --html replies.html",
    "tidemark explain replies --json > replies.json",
)


def explain(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A registered query.")],
    html: Annotated[
        Path | None, typer.Option(help="Also write a page: recall, wait and memory over time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a query: plan, buffers, slack, target, misses.

    What it does in words; what each bucket holds and the slack it gives now; the last batches; which periods
    reached the recall asked for and the worst that did not; what waits for repair, and the last repairs. The
    page of --html needs nothing but a browser. Times are in UTC. No JVM is started.
    """
    from lakehouse.cli.output import print_json
    from lakehouse.serving.completeness import Completeness
    from lakehouse.serving.explain import explain as explain_of

    state = _state(globals_of(context).settings(), query)
    completeness = Completeness(state)
    facts: dict[str, Any] = explain_of(state, completeness)
    if html is not None:
        from lakehouse.cli.explain_page import page

        html.write_text(page(facts, completeness), encoding="utf-8")
        facts["html"] = str(html)
    if as_json:
        print_json(facts)
        return
    from lakehouse.cli.explain_text import print_query

    print_query(facts)
    if html is not None:
        print(f"\nwrote {html}")


def _state(settings: Settings, name: str) -> QueryState:
    from lakehouse.serving.queries import QueryState

    if name not in settings.registered:
        raise WrongUsage(f"no query {name!r}; expected {nearest(name, settings.registered)}")
    return QueryState(settings.layout, settings.query(name), settings.queries.buckets)
