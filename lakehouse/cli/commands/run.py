"""``tidemark run``: run every DAG once over the landed files, in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, WrongUsage, declared, globals_of
from lakehouse.cli.output import figures_cell, print_json, print_table
from lakehouse.cli.output import progress as printer

if TYPE_CHECKING:
    from lakehouse.settings import Settings

EXAMPLES = (
    "tidemark run",
    "tidemark run --stream telemetry --json",
    "tidemark run --stream telemetry --query alarms",
)


def run(
    context: typer.Context,
    stream: Annotated[list[str] | None, typer.Option(help="Only this stream; may be repeated.")] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help="Only this registered query; may be repeated [default: all over these streams]."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run every DAG once over the landed files.

    First says what a changed tidemark.toml will do (`tidemark plan`). Then runs ingest, rollups, queries, repair,
    quality, publish and maintain, in this order. Progress goes to stderr. Safe to repeat, and to kill anywhere. Exit
    code 1 if a job failed; a query whose file is wrong fails where all are run, and is named where only some are.
    """
    from lakehouse.cli.commands.plan import changes
    from lakehouse.serving.storage_plan import storage_plan

    settings = globals_of(context).settings()
    declared(settings, stream or [])
    for name in query or ():
        _require_runnable(settings, name, stream or list(settings.streams))
    started = time.monotonic()
    progress = printer()
    for name, problems in settings.faulty.items() if stream or query else ():
        # A run of everything has a task for each that fails with this message.
        progress(f"query {name} is set aside until its file is mended: {'; '.join(map(str, problems))}")
    for name in stream or settings.streams:
        for sentence in changes(storage_plan(settings.layout, settings.stream(name))):
            progress(f"{name}: {sentence}")
    progress(f"running Airflow's DAGs in this process; log: {settings.layout.airflow / 'logs' / 'run.log'}")
    from jobs import run_dags

    outcomes = run_dags.run(settings, streams=stream, progress=progress, queries=query)
    if as_json:
        print_json(outcomes)
    else:
        _print(outcomes, time.monotonic() - started)
    return 0 if all(outcome.get("ok", True) for outcome in outcomes) else 1


def _require_runnable(settings: Settings, query: str, streams: Sequence[str]) -> None:
    """Refuse a query that is not registered, or reads streams that this run leaves out."""
    if query in settings.faulty:
        settings.query(query)
    if query not in settings.registered:
        names = ", ".join(sorted(settings.registered)) or "none"
        raise WrongUsage(f"no query {query!r}; registered: {names}")
    if lacking := [name for name in settings.query(query).streams if name not in streams]:
        raise WrongUsage(
            f"query {query!r} reads {', '.join(lacking)} too: give --stream for each, or none at all"
        )


def _print(outcomes: Sequence[Mapping[str, Any]], seconds: float) -> None:
    rows = []
    for one in outcomes:
        state, did = "ok" if one.get("ok", True) else "failed", figures_cell(one.get("figures") or {})
        rows.append((one.get("job"), one.get("stream"), state, one.get("seconds"), one.get("error") or did))
    print_table(("job", "stream", "state", "seconds", "what it did"), rows)
    failed = sum(not outcome.get("ok", True) for outcome in outcomes)
    print(f"{len(outcomes)} jobs in {seconds:.1f} s{f', {failed} failed' if failed else ''}")
