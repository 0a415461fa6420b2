"""``tidemark requeue``: ingest quarantined records again."""

import sys
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, declared, globals_of, run_job
from lakehouse.cli.output import print_json, print_table

EXAMPLES = (
    "tidemark requeue telemetry",
    "tidemark requeue telemetry --reason bad_value --reason clock",
    "tidemark requeue telemetry --reason set_aside",
)


def requeue(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    reason: Annotated[
        list[str] | None,
        typer.Option(help="Only records rejected for this reason, or set_aside; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Ingest quarantined records, and files set aside, again.

    The present configuration judges them; `tidemark run` then adds the accepted rows to the rollups.
    """
    settings = globals_of(context).settings()
    declared(settings, [stream])
    from jobs import requeue as job
    from lakehouse.ingest.quarantine import waiting_records
    from lakehouse.ingest.sources.manifest import SET_ASIDE

    waiting = waiting_records(settings.layout, settings.stream(stream))
    for name in sorted({*(reason or ())} - {*waiting, SET_ASIDE}):
        rejected = ", ".join(f"{code} {records:,}" for code, records in sorted(waiting.items())) or "none"
        print(
            f"no record of {stream} waits that was rejected as {name!r}; waiting: {rejected}", file=sys.stderr
        )
    figures = run_job("requeue", settings, stream, job.run, reason or [])
    if as_json:
        print_json({"stream": stream, **figures})
    else:
        print_table(("figure", "count"), list(figures.items()), title=f"requeued: {stream}")
