"""``tidemark plan``: what each level keeps, and what a changed tidemark.toml will do, before anything changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakehouse.cli.options import AsJson, declared, globals_of
from lakehouse.cli.output import print_json, print_line, print_table, time_text
from lakehouse.config.durations import format_duration

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream
    from lakehouse.settings import Settings

EXAMPLES = ("tidemark plan", "tidemark plan telemetry --json")


def plan(
    context: typer.Context,
    stream: Annotated[str, typer.Argument(help="A declared stream [default: all].")] = "",
    as_json: AsJson = False,
) -> None:
    """Show what each level keeps, and the effects of a change.

    For each level: its width, from when on it has nodes, their number and bytes (a share of the table's). Identities:
    those that new rows are compared with, whether or not raw still has their rows. If tidemark.toml differs from what
    the tables were built for: what is built again and from what, and what older times will lack.
    Reads the tables as they are, and asks the broker of topics of which nothing was read; no JVM is started.
    """
    from lakehouse.serving.storage_plan import storage_plan

    settings = globals_of(context).settings()
    declared(settings, [stream] if stream else [])
    chosen = [settings.stream(stream)] if stream else list(settings.streams.values())
    plans = [storage_plan(settings.layout, one) | {"topics": _topics(settings, one)} for one in chosen]
    if as_json:
        print_json(plans[0] if stream else plans)
        return
    for kept in plans:
        _print(kept)


def changes(kept: Mapping[str, Any]) -> Iterator[str]:
    """Return the effects of a changed declaration, one sentence each."""
    change = kept["change"]
    yield from change["effects"]
    yield from (f"older times will lack: {sentence}" for sentence in change["lacks"])
    yield from (f"refused: {sentence}" for sentence in change["refusals"])


def _topics(settings: Settings, stream: Stream) -> str | None:
    """Return why a stream's topics cannot be read, if it has read none yet: later the last run says so."""
    from lakehouse.ingest.sources.kafka import why_unread
    from lakehouse.storage.ledger import read_extent

    if stream.source.kind != "kafka" or read_extent(settings.layout, stream.name).batch:
        return None
    return why_unread(stream.source)


def _print(kept: Mapping[str, Any]) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            format_duration(v["width_us"]),
            format_duration(v["keep_us"]),
            time_text(v["from_us"]),
            v["nodes"],
            v["bytes"],
        )
        for v in kept["levels"]
    ]
    raw = kept["raw"]
    rows.append(
        ("raw", format_duration(raw["keep_us"]), time_text(raw["from_us"]), raw["rows"], raw["bytes"])
    )
    if revised := kept["revised"]:
        rows.append(("revised", format_duration(raw["keep_us"]), "-", revised["rows"], revised["bytes"]))
    if known := kept["identities"]:
        rows.append(("identities", format_duration(known["keep_us"]), "-", known["rows"], known["bytes"]))
    title = f"{kept['stream']}: newest {time_text(kept['newest_us'])}, since {time_text(kept['earliest_us'])}"
    print_table(("granularity", "kept for", "kept since", "nodes or rows", "bytes"), rows, title=title)
    if kept["topics"]:
        print_line(f"topics: {kept['topics']}")
    for sentence in kept["lacks_now"]:
        print_line(f"lacking: {sentence}")
    if raw["next_from_us"] is not None:
        print_line(
            f"next maintain: raw rows before {time_text(raw['next_from_us'])} go; nodes keep their history"
        )
    for sentence in changes(kept):
        print_line(f"change: {sentence}")
