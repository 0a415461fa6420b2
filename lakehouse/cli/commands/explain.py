"""``tidemark explain``: a registered query's plan, state, missed rows and open repairs, also as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of
from lakehouse.cli.output import print_json
from lakehouse.config.problems import nearest

if TYPE_CHECKING:
    from lakehouse.queries.runtime.state import QueryState
    from lakehouse.settings import Settings

EXAMPLES = (
    "tidemark explain replies",
    "tidemark explain replies --html replies.html",
    "tidemark explain replies --json > replies.json",
)


def explain(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A registered query.")],
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with charts of results and memory.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a query: plan, memory, results, missed rows.

    Shows the plan in words, the contents of each bucket, the last batches, the rows that wait for repair and the last
    repairs. For a query with RECALL it also shows the present slack, which periods reached the recall, and the worst
    that did not. For an aggregate: the method and why it was chosen, how often answers were revised, which
    ticks are final, and alarms. For a multiway query: which rows each batch moved on which route, and the planned and
    real cost. For a selection, and where predicates are called: the order of the conditions and the reason for it.

    The page of --html needs only a browser. Times are in UTC. No JVM is started.
    """
    from lakehouse.cli.pages.explain_page import whole_page
    from lakehouse.cli.pages.explain_text import print_explained
    from lakehouse.cli.queries import text_of
    from lakehouse.queries.kind import kinds
    from lakehouse.queries.runtime.state import Declared
    from lakehouse.queries.runtime.state import explain as explain_state

    settings = globals_of(context).settings()
    state = _state(settings, query)
    text = text_of(state.query.kind)
    if html is not None and text.charts is None:
        texts = [text_of(kind.name) for kind in kinds()]
        shown = " and ".join(one.title for one in texts if one.charts)
        raise WrongUsage(f"--html shows {shown}; expected none for {text.title}")
    declared = Declared(settings.streams, settings.sites, settings.queries.published)
    facts = explain_state(state, declared)
    if html is not None and text.charts is not None:
        page = whole_page(facts, text, text.charts(facts, state, declared))
        html.write_text(page, encoding="utf-8")
        facts["html"] = str(html)
    if as_json:
        print_json(facts)
        return
    print_explained(facts, text)
    if html is not None:
        print(f"\nwrote {html}")


def _state(settings: Settings, name: str) -> QueryState:
    from lakehouse.queries.runtime.state import state_of

    if name in settings.faulty:
        settings.query(name)
    if name not in settings.registered:
        raise WrongUsage(f"no query {name!r}; expected {nearest(name, settings.registered)}")
    return state_of(settings.layout, settings.query(name))
