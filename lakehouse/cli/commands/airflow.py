"""``tidemark airflow``: Airflow's scheduler and pages on the same home."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.options import globals_of

EXAMPLES = ("tidemark airflow", "tidemark --config site/tidemark.toml airflow --port 8081")


def airflow(
    context: typer.Context,
    port: Annotated[int, typer.Option(help="where the pages are")] = 8080,
    host: Annotated[
        str, typer.Option(help="at which address; 0.0.0.0: at all of this machine")
    ] = "127.0.0.1",
) -> None:
    """Start Airflow's scheduler and pages on this home.

    The command prints the address, user and password's file, and runs until it is interrupted.
    """
    settings = globals_of(context).settings()
    from infra.airflow_standalone import start

    start(settings, port, host)
