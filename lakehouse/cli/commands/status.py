"""``tidemark status``: each stream's rows, lateness, quarantine, levels and their ranges, versions and age."""

import typer

from lakehouse.cli.options import AsJson, globals_of
from lakehouse.cli.output import print_json

EXAMPLES = ("tidemark status", "tidemark status --json")


def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show rows, lateness, quarantine, levels, versions.

    Also shows how each job last ended. No JVM is started.
    """
    from lakehouse.serving.status import status as status_of

    status = status_of(globals_of(context).home_folder())
    if as_json:
        print_json(status)
        return
    from lakehouse.cli.pages.status_page import print_status

    print_status(status)
