"""``tidemark retract``: remove wrong rows from raw and every level, with a record of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, Timezone, WrongUsage, declared, globals_of, pairs, run_job, span
from lakehouse.cli.output import print_json, print_table, time_text

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream
    from lakehouse.settings import Settings

EXAMPLES = (
    'tidemark retract telemetry --file landing/telemetry/day7.ndjson --by ann --why "sent twice" --dry-run',
    'tidemark retract telemetry --where device=sensor-007 --from 2026-01-05 --by ann --why "broken probe"',
    'tidemark retract telemetry --identity device=a --identity ts=1767225600000 --by ann --why "typed in wrong"',
    "tidemark retract telemetry --list",
)


def retract(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream.")],
    file: Annotated[str, typer.Option(help="Rows of this landed file, or of kafka:TOPIC/PARTITION.")] = "",
    where: Annotated[list[str] | None, typer.Option(help="Rows with COLUMN=VALUE; may be repeated.")] = None,
    identity: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE, for every column of the identity.")
    ] = None,
    start: Annotated[str, typer.Option("--from", help="Start of the range of event time, ISO.")] = "",
    end: Annotated[str, typer.Option("--to", help="End of the range of event time, ISO, excluded.")] = "",
    timezone: Timezone = "UTC",
    by: Annotated[str, typer.Option(help="Who asks for the correction.")] = "",
    why: Annotated[str, typer.Option(help="The reason, for the record.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the rows and change nothing.")] = False,
    as_list: Annotated[bool, typer.Option("--list", help="List all corrections of the stream.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove wrong accepted rows, as if they had never come.

    Removes the rows for which all given conditions hold from raw and every level. If the command is killed anywhere,
    the stream's next job finishes it. It is refused if raw rows of the time are deleted: give --from. `tidemark run`
    publishes the result. Rows that were in conflict with the removed ones are in quarantine: `tidemark requeue`
    ingests them.
    """
    settings = globals_of(context).settings()
    declared(settings, [stream])
    if as_list:
        _list(settings, stream, as_json)
        return
    if not (by and why):
        raise WrongUsage("--by and --why: both are needed, for the record")
    values = pairs(where or [], "--where") | _identity(settings.stream(stream), identity or [])
    if not (file or values):
        raise WrongUsage("name the rows by --file, --where or --identity")
    between = span(start, end, timezone)
    from jobs import retract as job
    from lakehouse.corrections.retract import Wrong

    wrong = Wrong(file or None, values, *between)
    figures = run_job("retract", settings, stream, job.run, wrong, by, why, dry_run)
    _tell(stream, {**figures, "kept_by_queries": _kept_by(settings, stream)}, dry_run, as_json)


def _identity(stream: Stream, texts: list[str]) -> dict[str, str]:
    values = pairs(texts, "--identity")
    if values and (stream.identity_is_record or set(values) != set(stream.identity)):
        named = ", ".join(stream.identity) or "none"
        raise WrongUsage(
            f"--identity: found {', '.join(values)}; expected every column of the identity: {named}"
        )
    return values


def _kept_by(settings: Settings, stream: str) -> list[str]:
    """Return the queries that have taken in rows of the stream; what they found with them stays."""
    from lakehouse.queries.runtime.batch_manifest import finished

    of_stream = (n for n, q in settings.registered.items() if stream in q.streams)
    return [name for name in of_stream if finished(settings.layout, name)]


def _tell(stream: str, figures: Mapping[str, Any], dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"stream": stream, "dry_run": dry_run, **figures})
    elif not figures["rows"]:
        print(f"{stream}: no accepted row is such; nothing to take out")
    else:
        did = "would be taken" if dry_run else "taken"
        span = f"{time_text(figures['from_us'])} to {time_text(figures['to_us'])}"
        print(f"{stream}: {figures['rows']:,} rows of {figures['batches']:,} batches, {span}, {did} back out")
        if figures["kept_by_queries"]:
            print(
                f"what {', '.join(figures['kept_by_queries'])} found with them stays, until it is forgotten:"
            )
            print("  tidemark queries --forget QUERY")


def _list(settings: Settings, stream: str, as_json: bool) -> None:
    from lakehouse.storage.corrections import read_corrections

    known = read_corrections(settings.layout, stream)
    if as_json:
        print_json([vars(correction) for correction in known])
        return
    headers = ("number", "kind", "state", "at", "rows", "batches", "by", "why", "what")
    rows = [
        (c.number, c.kind, "done" if c.done else "begun", c.at, c.rows, len(c.batches), c.by, c.why, c.what)
        for c in known
    ]
    print_table(headers, rows, title=f"corrections of {stream}")
