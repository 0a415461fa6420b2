"""``tidemark metrics``: print the home's metrics in Prometheus' format, or write them for node_exporter."""

from pathlib import Path
from typing import Annotated

import typer

from lakehouse.cli.options import globals_of

EXAMPLES = ("tidemark metrics", "tidemark metrics --textfile /var/lib/node_exporter/tidemark.prom")


def metrics(
    context: typer.Context,
    textfile: Annotated[
        Path | None,
        typer.Option(help="Write the metrics to this file, for node_exporter's textfile collector."),
    ] = None,
) -> None:
    """Print the home's metrics in Prometheus' text format.

    Metrics are read from the home's files, with or without a service; no JVM is started.
    """
    from lakehouse.service.metrics import exposition
    from lakehouse.serving.published_quarantine import PublishedQuarantine
    from lakehouse.storage.atomic_files import write_text
    from lakehouse.storage.layout import Home

    layout = Home(globals_of(context).home_folder())
    text = exposition(layout, PublishedQuarantine(layout))
    if textfile is None:
        print(text, end="")
        return
    write_text(textfile, text)
