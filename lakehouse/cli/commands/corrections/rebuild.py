"""``tidemark rebuild``: make a stream's rollups again from its raw rows, all of them or those of a range."""

from __future__ import annotations

from typing import Annotated

import typer

from lakehouse.cli.options import (
    AsJson,
    RangeEnd,
    RangeStart,
    Timezone,
    WrongUsage,
    declared,
    globals_of,
    instant,
)

EXAMPLES = (
    "tidemark rebuild telemetry",
    "tidemark rebuild telemetry --from 2026-01-05 --to 2026-01-07",
)


def rebuild(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    start: RangeStart = "",
    end: RangeEnd = "",
    timezone: Timezone = "UTC",
    as_json: AsJson = False,
) -> None:
    """Make a stream's rollups again from its raw rows.

    Without a range it makes all of them again, which is needed after a change of levels, groupings or measures;
    history older than raw is copied. A range is widened to whole nodes of the last level, and refused if raw rows of
    it are deleted. The result is one commit; `tidemark run` publishes it.
    """
    from lakehouse.cli.output import print_json, print_table, time_text

    settings = globals_of(context).settings()
    declared(settings, [stream])
    from_us = instant(start, timezone, "--from") if start else None
    to_us = instant(end, timezone, "--to") if end else None
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise WrongUsage(f"--from {start} is not before --to {end}")
    from jobs import build_rollups
    from jobs.running.outcome import recorded
    from lakehouse.spark.session import session_with_log

    spark = session_with_log(settings)
    figures = recorded(
        "rebuild", settings, stream, lambda: build_rollups.rebuild(settings, spark, stream, from_us, to_us)
    )
    if as_json:
        print_json({"stream": stream, **figures})
    else:
        shown = {name: time_text(value) if name.endswith("_us") else value for name, value in figures.items()}
        print_table(("figure", "value"), list(shown.items()), title=f"rebuilt: {stream}")
