"""``tidemark rebuild``: a stream's rollups again from its raw rows."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, declared, globals_of

EXAMPLES = ("tidemark rebuild telemetry",)


def rebuild(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    as_json: AsJson = False,
) -> None:
    """Build a stream's rollups again from its raw rows.

    Needed after a change of its levels, groupings or measures.
    """
    from lakehouse.cli.output import print_json, print_table

    settings = globals_of(context).settings()
    declared(settings, [stream])
    from jobs import build_rollups
    from jobs.outcome import recorded
    from lakehouse.spark.session import build_session

    spark = build_session(settings)
    figures = recorded("rebuild", settings, stream, lambda: build_rollups.rebuild(settings, spark, stream))
    if as_json:
        print_json({"stream": stream, **(figures or {})})
    else:
        print_table(("figure", "count"), list((figures or {}).items()), title=f"rebuilt: {stream}")
