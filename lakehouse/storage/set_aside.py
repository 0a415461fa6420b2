"""Parts of a stream's source that were set aside, since the batches that held them failed again and again.

It stands in the stream's manifests, of whose few kinds an index knows.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from lakehouse.storage.control.manifests import Manifests, names_in
from lakehouse.storage.layout import Home


@dataclass(frozen=True)
class SetAside:
    """A file or offset of a stream that was set aside: in place of which batch, and with which error."""

    stream: str
    batch: int
    place: str
    error: str


def read_set_aside(layout: Home, stream: str | None = None) -> list[SetAside]:
    """Return what is set aside of a stream, all by default, and was not requeued since, by stream and batch."""
    streams = [stream] if stream else names_in(layout, "manifests")
    return [found for each in streams for found in _of_stream(layout, each)]


def _of_stream(layout: Home, stream: str) -> Iterator[SetAside]:
    for row in Manifests(layout.manifests(stream)).of_few_kinds():
        if row.kind != "set_aside":
            continue
        manifest = json.loads(row.body)["manifest"]
        places = [each["path"] for each in manifest["files"]]
        ranges = (each for each in manifest["ranges"] if each["end"] > each["start"])
        places += [f"{each['topic']}/{each['partition']} offset {each['start']}" for each in ranges]
        for place in places:
            yield SetAside(stream, row.number, place, manifest["error"])
