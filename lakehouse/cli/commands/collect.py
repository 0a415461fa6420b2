"""``tidemark collect``: write this machine's sensor readings and connections into landing files."""

from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, duration, globals_of, landed_streams
from lakehouse.cli.output import print_json, print_table, progress

EXAMPLES = ("tidemark collect", "tidemark collect host --for 1m --json")


def collect(
    context: typer.Context,
    stream: Annotated[
        list[str] | None, typer.Argument(help='Streams with kind = "host" [default: all of them].')
    ] = None,
    lasting: Annotated[str, typer.Option("--for", help="End after this time [default: at a signal].")] = "",
    as_json: AsJson = False,
) -> None:
    """Record this machine's sensors and connections.

    Runs until SIGTERM or Ctrl-C. Records CPU, load, memory, disks, network, temperature if there is a sensor, and
    open TCP and UDP sockets. Needs no root. Each sample is on disk when it was taken; files land every `roll_after`.
    Progress goes to stderr.
    """
    settings = globals_of(context).settings()
    seconds = duration(lasting, "--for") / 1e6 if lasting else None
    names = landed_streams(settings, "host", stream or [])
    from lakehouse.collect.collector import collect as land
    from lakehouse.collect.running import until_stopped

    with until_stopped(seconds) as is_stopping:
        done = land([settings.streams[name] for name in names], settings.layout, is_stopping, progress())
    figures = [{key: asdict(one)[key] for key in ("stream", "messages", "files")} for one in done]
    if as_json:
        print_json(figures)
    else:
        print_table(("stream", "records", "files"), [tuple(one.values()) for one in figures])
