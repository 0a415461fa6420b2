"""``tidemark quarantine``: rejected records by reason, with examples, and the line that requeues them."""

from typing import Annotated, Any

import typer

from lakehouse.cli.options import AsJson, declared, globals_of
from lakehouse.cli.output import print_json, print_table

EXAMPLES = (
    "tidemark quarantine",
    "tidemark quarantine telemetry --reason bad_value --limit 10",
    "tidemark quarantine telemetry --json",
)


def quarantine(
    context: typer.Context,
    stream: Annotated[str | None, typer.Argument(help="A declared stream [default: all].")] = None,
    reason: Annotated[
        list[str] | None, typer.Option(help="Only records rejected for this reason; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, max=1000, help="Examples of each reason.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Show rejected records by reason, with examples.

    Of all records that were ever rejected, a requeue has closed some; the others are open. Examples are of open ones.
    Bytes of records are escaped. No JVM is started.
    """
    from lakehouse.ingest.quarantine import rejected_reasons

    settings = globals_of(context).settings()
    declared(settings, [stream] if stream else [])
    rejected: list[dict[str, Any]] = []
    for name in [stream] if stream else settings.streams:
        for one in rejected_reasons(settings.layout, settings.stream(name), reason or [], limit):
            takes = one["open"] and one["requeues"]
            command = f"tidemark requeue {name} --reason {one['reason']}" if takes else None
            rejected.append({"stream": name} | one | {"requeue": command})
    if as_json:
        print_json(rejected)
    else:
        _print(rejected)


def _print(rejected: list[dict[str, Any]]) -> None:
    named = ("stream", "reason", "rejected", "open", "closed")
    rows = [
        (*(one[name] for name in named), one["requeue"] or ("land the file again" if one["open"] else "-"))
        for one in rejected
    ]
    if rows:
        print_table((*named, "after a fix"), rows, title="rejected records")
    if not any(one["open"] for one in rejected):
        print("no rejected record is open")
    for one in rejected:
        examples = [
            (example["source_file"], example["source_line"], example["detail"], example["record"])
            for example in one["examples"]
        ]
        if examples:
            title = f"{one['stream']}, {one['reason']}"
            print_table(("file", "line", "found", "record"), examples, title=title)
