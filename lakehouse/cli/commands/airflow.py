"""``tidemark airflow``: Airflow's scheduler and pages on the same home."""

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
    from infra.airflow_standalone import start
    from lakehouse.settings import read_settings

    # Its tasks open the home, with secrets that they alone may have.
    asked = globals_of(context)
    start(read_settings(asked.config, asked.home), port, host)
