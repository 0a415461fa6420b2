"""``tidemark accept-loss``: go on without messages that a broker deleted, or without rejected records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, declared, globals_of, run_job
from lakehouse.cli.output import print_json

if TYPE_CHECKING:
    from lakehouse.ingest.sources.manifest import OffsetRange
    from lakehouse.settings import Settings

EXAMPLES = (
    "tidemark accept-loss telemetry",
    "tidemark accept-loss telemetry --yes --json",
    "tidemark accept-loss readings --reason ambiguous_time",
)


def accept_loss(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    reason: Annotated[
        list[str] | None, typer.Option(help="Give up records rejected for this reason; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int | None:
    """Go on without messages that a broker deleted, or without rejected records.

    A stream stops when the broker no longer has the next messages. This command shows which messages are missing and
    asks for confirmation. It then writes them into the ledger as a batch of kind `lost`, with their number in each
    partition; `tidemark run` continues behind them. If nothing is missing, nothing happens.

    With --reason, open records that were rejected for it are closed instead: they stay in quarantine, but no requeue
    takes them, and answers no longer wait for them.
    """
    settings = globals_of(context).settings()
    declared(settings, [stream])
    kind = settings.stream(stream).source.kind
    if kind != "kafka" and not reason:
        raise WrongUsage(
            f"{stream}: its source is of kind {kind!r}; expected 'kafka', or a --reason of rejected records"
        )
    if as_json and not yes:
        raise WrongUsage("--json asks nothing: it needs --yes")
    if reason:
        return _close(settings, stream, reason, yes, as_json)
    from jobs import accept_loss as job

    refused: list[OffsetRange] = []

    def agree(lost: Sequence[OffsetRange]) -> bool:
        listing = "".join(f"{loss}\n" for loss in lost)
        if yes or typer.confirm(f"The broker no longer has\n{listing}Go on without them?", err=True):
            return True
        refused.extend(lost)
        return False

    figures = run_job("accept_loss", settings, stream, job.run, agree)
    if as_json:
        print_json({"stream": stream, **figures})
    elif figures["lost"]:
        places = ", ".join(f"{partition} {count:,}" for partition, count in figures["partitions"].items())
        print(f"{stream}: went on without {figures['lost']:,} messages: {places}; next: `tidemark run`")
    elif not refused:
        print(f"{stream}: nothing is gone that was not read; nothing to accept")
    return 1 if refused else None


def _close(settings: Settings, stream: str, reasons: Sequence[str], yes: bool, as_json: bool) -> int | None:
    """Give up open records of some reasons, once this is confirmed."""
    from jobs import accept_loss as job
    from lakehouse.ingest.quarantine import waiting_records

    waiting = waiting_records(settings.layout, settings.stream(stream))
    listing = ", ".join(f"{name} {waiting[name]:,}" for name in reasons if name in waiting)
    if (
        listing
        and not yes
        and not typer.confirm(f"{stream}: give up rejected records ({listing})?", err=True)
    ):
        return 1
    figures = run_job("accept_loss", settings, stream, job.close, reasons)
    if as_json:
        print_json({"stream": stream, **figures})
    elif figures["lost"]:
        print(f"{stream}: gave up {figures['lost']:,} rejected records: {listing}; next: `tidemark run`")
    else:
        print(f"{stream}: no record is open that was rejected as {' or '.join(reasons)}; nothing to accept")
    return None
