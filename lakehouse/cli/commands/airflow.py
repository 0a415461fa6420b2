"""``tidemark airflow``: Airflow's scheduler and pages on the same home."""

from __future__ import annotations

import typer

from lakehouse.cli.options import globals_of

EXAMPLES = (
    "tidemark airflow",
    "tidemark --config site/tidemark.toml airflow",
)


def airflow(context: typer.Context) -> None:
    """Start Airflow's scheduler and pages on this home.

    The command runs until it is interrupted.
    """
    settings = globals_of(context).settings()
    from infra.airflow_standalone import start

    start(settings)
