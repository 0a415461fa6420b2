"""``tidemark explain``: what a registered query does, holds, has missed and is owed; and the picture of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of, nearest

if TYPE_CHECKING:
    from lakehouse.declare.settings import Settings
    from lakehouse.queries.aggregate.state import AggregateState
    from lakehouse.queries.multiway.state import MultiwayState
    from lakehouse.queries.pairs.state import JoinState
    from lakehouse.queries.runtime.state import Facts
    from lakehouse.queries.runtime.states import State
    from lakehouse.queries.selection.state import SelectionState

EXAMPLES = (
    "tidemark explain replies",
    "tidemark explain replies --html replies.html",
    "tidemark explain replies --json > replies.json",
)


def explain(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="A registered query.")],
    html: Annotated[
        Path | None, typer.Option(help="Also write a page: what it found, and memory, over time.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain a query: plan, memory, what it found and what is late.

    What it does in words; what each bucket holds; the last batches; what waits for repair, and the last repairs.
    Of a join of pairs also the slack it gives now, which periods reached the recall asked for and the worst that
    did not; of a join-aggregate the method that runs it and why, how often answers were revised, which ticks are
    final, and its alarms; of a join of three streams or more, per batch, which rows were moved on which way, and what
    that was to cost and cost; of a selection, and where predicates are called, why conditions stand in the order in
    which they are.
    The page of --html needs nothing but a browser. Times are in UTC. No JVM is started.
    """
    from lakehouse.cli.output import print_json
    from lakehouse.queries.aggregate.state import AggregateState
    from lakehouse.queries.multiway.state import MultiwayState
    from lakehouse.queries.selection.state import SelectionState

    settings = globals_of(context).settings()
    state = _state(settings, query)
    if isinstance(state, AggregateState):
        facts, show = _aggregate(settings, state, html)
    elif isinstance(state, SelectionState):
        facts, show = _selection(state, html)
    elif isinstance(state, MultiwayState):
        facts, show = _multiway(settings, state, html)
    else:
        facts, show = _join(state, html)
    if html is not None:
        facts["html"] = str(html)
    if as_json:
        print_json(facts)
        return
    show(facts)
    if html is not None:
        print(f"\nwrote {html}")


def _join(state: JoinState, html: Path | None) -> tuple[Facts, Callable[[Facts], None]]:
    from lakehouse.cli.pages.explain_text import print_query
    from lakehouse.queries.pairs.completeness import Completeness
    from lakehouse.queries.pairs.explain import explain as explain_of

    completeness = Completeness(state)
    facts = explain_of(state, completeness)
    if html is not None:
        from lakehouse.cli.pages.explain_page import page

        html.write_text(page(facts, completeness), encoding="utf-8")
    return facts, print_query


def _aggregate(
    settings: Settings, state: AggregateState, html: Path | None
) -> tuple[Facts, Callable[[Facts], None]]:
    from lakehouse.queries.aggregate.explain import aggregate_batches, explain_aggregate
    from lakehouse.queries.aggregate.publish import snapshot_of
    from lakehouse.queries.aggregate.text import print_aggregate

    answers = snapshot_of(state.layout, state.query, settings.streams, settings.queries.published)
    facts = explain_aggregate(state, answers)
    if html is not None:
        from lakehouse.cli.charts.explain_charts import POINTS
        from lakehouse.queries.aggregate.live_answers import over_time
        from lakehouse.queries.aggregate.page import aggregate_page

        page = aggregate_page(facts, over_time(answers, POINTS // 2), aggregate_batches(state))
        html.write_text(page, encoding="utf-8")
    return facts, print_aggregate


def _multiway(
    settings: Settings, state: MultiwayState, html: Path | None
) -> tuple[Facts, Callable[[Facts], None]]:
    from lakehouse.queries.multiway.explain import explain_multiway
    from lakehouse.queries.multiway.text import print_multiway

    if html is not None:
        raise WrongUsage(
            "--html shows joins of pairs and aggregates; expected none for three streams or more"
        )
    return explain_multiway(state, settings.streams, settings.sites), print_multiway


def _selection(state: SelectionState, html: Path | None) -> tuple[Facts, Callable[[Facts], None]]:
    from lakehouse.queries.selection.explain import explain_selection
    from lakehouse.queries.selection.text import print_selection

    if html is not None:
        raise WrongUsage("--html shows joins of pairs and aggregates; expected none for a selection")
    return explain_selection(state), print_selection


def _state(settings: Settings, name: str) -> State:
    from lakehouse.queries.runtime.states import state_of

    if name not in settings.registered:
        raise WrongUsage(f"no query {name!r}; expected {nearest(name, settings.registered)}")
    return state_of(settings.layout, settings.query(name), settings.queries.buckets)
