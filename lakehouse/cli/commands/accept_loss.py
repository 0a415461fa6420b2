"""``tidemark accept-loss``: continue a stream whose broker deleted messages before they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, declared, globals_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.streams.sources.manifest import OffsetRange

EXAMPLES = (
    "tidemark accept-loss telemetry",
    "tidemark accept-loss telemetry --yes --json",
)


def accept_loss(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream that reads Kafka.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> int | None:
    """Continue a stream after its broker deleted messages.

    A stream stops when the broker no longer has the next messages. This command shows which messages are missing and
    asks for confirmation. It then writes them into the ledger as a batch of kind `lost`, with their number in each
    partition; `tidemark run` continues behind them. If nothing is missing, nothing happens.
    """
    settings = globals_of(context).settings()
    declared(settings, [stream])
    kind = settings.stream(stream).source.kind
    if kind != "kafka":
        raise WrongUsage(f"{stream}: its source is of kind {kind!r}; expected 'kafka'")
    if as_json and not yes:
        raise WrongUsage("--json asks nothing: it needs --yes")
    from jobs import accept_loss as job
    from jobs.outcome import recorded
    from lakehouse.cli.output import print_json
    from lakehouse.spark.session import session_with_log

    refused: list[OffsetRange] = []

    def agree(lost: Sequence[OffsetRange]) -> bool:
        listing = "".join(f"{each}\n" for each in lost)
        if yes or typer.confirm(f"The broker no longer has\n{listing}Go on without them?", err=True):
            return True
        refused.extend(lost)
        return False

    spark = session_with_log(settings)
    figures = recorded("accept_loss", settings, stream, lambda: job.run(settings, spark, stream, agree))
    if as_json:
        print_json({"stream": stream, **figures})
    elif figures["lost"]:
        places = ", ".join(f"{place} {count:,}" for place, count in figures["partitions"].items())
        print(f"{stream}: went on without {figures['lost']:,} messages: {places}; next: `tidemark run`")
    elif not refused:
        print(f"{stream}: nothing is gone that was not read; nothing to accept")
    return 1 if refused else None
