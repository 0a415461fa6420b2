"""``tidemark bridge``: write the messages of an MQTT broker into landing files."""

from dataclasses import asdict
from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, WrongUsage, duration, globals_of, landed_streams
from lakehouse.cli.output import print_json, print_table, progress

EXAMPLES = ("tidemark bridge", "tidemark bridge lora", "tidemark bridge lora --for 10m --json")


def bridge(
    context: typer.Context,
    stream: Annotated[
        str | None, typer.Argument(help='A stream with kind = "mqtt" [default: the only one].')
    ] = None,
    lasting: Annotated[str, typer.Option("--for", help="End after this time [default: at a signal].")] = "",
    as_json: AsJson = False,
) -> None:
    """Write messages of an MQTT broker into landing files.

    Runs until SIGTERM or Ctrl-C. The bridge subscribes with QoS 1 in a session that the broker keeps. It acknowledges
    a message when it is on disk, so none is lost. A message that the broker sends again becomes a duplicate at the
    next `tidemark run`, never a second row. Run the bridge as a service that is restarted whenever it ends. Progress
    goes to stderr; `tidemark status` shows the bridge's state.
    """
    settings = globals_of(context).settings()
    seconds = duration(lasting, "--for") / 1e6 if lasting else None
    names = landed_streams(settings, "mqtt", [stream] if stream else [])
    if len(names) > 1:
        raise WrongUsage(f"give one stream, each has a bridge of its own: {', '.join(names)}")
    from lakehouse.collect.bridge import bridge as land
    from lakehouse.collect.broker import password_of
    from lakehouse.collect.running import until_stopped

    declared = settings.streams[names[0]]
    password = password_of(declared)
    with until_stopped(seconds) as is_stopping:
        done = land(declared, settings.layout, password, is_stopping, progress())
    figures = {key: asdict(done)[key] for key in ("stream", "messages", "repeated", "files")}
    if as_json:
        print_json(figures)
    else:
        print_table(tuple(figures), [tuple(figures.values())])
