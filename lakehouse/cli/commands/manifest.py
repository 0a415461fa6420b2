"""``tidemark manifest``: what one batch of a stream or query reads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lakehouse.cli.options import AsJson, WrongUsage, globals_of

if TYPE_CHECKING:
    from lakehouse.ingest.sources.manifest import Manifest
    from lakehouse.queries.runtime.batch_manifest import BatchManifest

EXAMPLES = (
    "tidemark manifest telemetry 12",
    "tidemark manifest replies 3 --repair",
)


def manifest(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A declared stream, or a registered query.")],
    number: Annotated[int, typer.Argument(help="The number of a batch.")],
    repair: Annotated[bool, typer.Option(help="The number is that of a repair of a query.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the manifest of a batch as JSON: its files, offsets or reasons; of a query, its ingest batches."""
    from lakehouse.cli.output import print_json
    from lakehouse.ingest.sources.manifest_rows import ManifestRows
    from lakehouse.queries.runtime.batch_manifest import read_manifest

    del as_json
    settings = globals_of(context).settings()
    shown: Manifest | BatchManifest | None
    if name in settings.streams and not repair:
        shown = next(iter(ManifestRows(settings.layout.manifests(name)).behind(number - 1, number)), None)
    elif name in settings.registered:
        kind: Literal["repair", "batch"] = "repair" if repair else "batch"
        shown = read_manifest(settings.layout.batch_manifests(name), kind, number)
    else:
        known = ", ".join(sorted({*settings.streams, *settings.registered})) or "none"
        raise WrongUsage(f"no stream or query {name!r} with such a manifest; declared: {known}")
    if shown is None:
        raise WrongUsage(f"{name} has no manifest {number}")
    print_json(asdict(shown))
