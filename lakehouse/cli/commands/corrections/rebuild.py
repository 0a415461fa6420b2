"""``tidemark rebuild``: make a stream's rollups again from its raw rows, all of them or those of a range."""

from typing import Annotated

import typer

from lakehouse.cli.options import AsJson, RangeEnd, RangeStart, Timezone, declared, globals_of, run_job, span
from lakehouse.cli.output import print_json, print_table, time_text

EXAMPLES = ("tidemark rebuild telemetry", "tidemark rebuild telemetry --from 2026-01-05 --to 2026-01-07")


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
    settings = globals_of(context).settings()
    declared(settings, [stream])
    between = span(start, end, timezone)
    from jobs import build_rollups

    figures = run_job("rebuild", settings, stream, build_rollups.rebuild, *between)
    if as_json:
        print_json({"stream": stream, **figures})
    else:
        shown = {name: time_text(value) if name.endswith("_us") else value for name, value in figures.items()}
        print_table(("figure", "value"), list(shown.items()), title=f"rebuilt: {stream}")
