"""Parts of a stream's source that were set aside, since the batches that held them failed again and again.

It stands in the stream's manifests, which only those of the last batches and of few kinds are: they are looked at by
their first bytes, without an engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lakehouse.storage.layout import Home

# As a manifest begins.
_MARK, _HEAD_BYTES = b'"kind": "set_aside"', 64


@dataclass(frozen=True)
class SetAside:
    """A file or offset of a stream that was set aside: in place of which batch, and with which error."""

    stream: str
    batch: int
    place: str
    error: str


def read_set_aside(layout: Home, stream: str = "*") -> list[SetAside]:
    """Return what is set aside of a stream, all by default, and was not requeued since, by stream and batch."""
    return [found for path in sorted(layout.manifests("").glob(f"{stream}/*.json")) for found in _in(path)]


def _in(path: Path) -> Iterator[SetAside]:
    # One that is folded meanwhile is of another kind.
    with suppress(FileNotFoundError), path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        if _MARK not in head:
            return
        manifest = json.loads(head + file.read())
        places = [each["path"] for each in manifest["files"]]
        ranges = (each for each in manifest["ranges"] if each["end"] > each["start"])
        places += [f"{each['topic']}/{each['partition']} offset {each['start']}" for each in ranges]
        for place in places:
            yield SetAside(path.parent.name, manifest["batch"], place, manifest["error"])
