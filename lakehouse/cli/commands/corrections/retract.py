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
    withdraws what registered queries found with them, and publishes the result. Rows that were in conflict with the
    removed ones are in quarantine: `tidemark requeue` ingests them.
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
    _tell(stream, {**figures, "withdraws_from": _resting(settings, stream)}, dry_run, as_json)


def _identity(stream: Stream, texts: list[str]) -> dict[str, str]:
    values = pairs(texts, "--identity")
    if values and (stream.identity_is_record or set(values) != set(stream.identity)):
        named = ", ".join(stream.identity) or "none"
        raise WrongUsage(
            f"--identity: found {', '.join(values)}; expected every column of the identity: {named}"
        )
    return values


def _resting(settings: Settings, stream: str) -> list[str]:
    """Return the queries that have taken in rows of the stream; what they found with these is withdrawn."""
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
        if names := ", ".join(figures["withdraws_from"]):
            print(f"what {names} found with them is withdrawn by the next run or repair of the query")


def _list(settings: Settings, stream: str, as_json: bool) -> None:
    from lakehouse.storage.corrections import read_corrections

    known, withdrawn = read_corrections(settings.layout, stream), _withdrawn(settings, stream)
    if as_json:
        print_json([{**vars(c), "withdrawn": withdrawn.get(c.number, {})} for c in known])
        return
    headers = ("number", "kind", "state", "at", "rows", "batches", "by", "why", "what", "withdrawn")
    rows = []
    for c in known:
        state = "done" if c.done else "begun"
        results = ", ".join(f"{count:,} of {query}" for query, count in withdrawn.get(c.number, {}).items())
        rows.append((c.number, c.kind, state, c.at, c.rows, len(c.batches), c.by, c.why, c.what, results))
    print_table(headers, rows, title=f"corrections of {stream}")


def _withdrawn(settings: Settings, stream: str) -> dict[int, dict[str, int]]:
    """Return by correction how many results of each query were withdrawn, or answers recomputed, because of it."""
    from lakehouse.queries.runtime.batch_metrics import withdrawn_for

    by_correction: dict[int, dict[str, int]] = {}
    for name, query in settings.registered.items():
        if stream in query.streams:
            for correction, results in withdrawn_for(settings.layout, name, stream).items():
                by_correction.setdefault(correction, {})[name] = results
    return by_correction
