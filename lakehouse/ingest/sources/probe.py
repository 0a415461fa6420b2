"""Cheap probe of a source: the same as before means that nothing has come."""

import time
from collections.abc import Callable, Hashable
from pathlib import Path

from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.sources.files import matching
from lakehouse.ingest.sources.kafka import Broker
from lakehouse.ingest.sources.listing import after_key
from lakehouse.ingest.sources.manifest_rows import ManifestRows
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds

Probe = Callable[[], Hashable]


def probe_of(source: Source, manifests: Path) -> Probe:
    """Return a function that looks at a source; it may raise what reading the source raises.

    ``manifests``: the folder of the stream's manifests. Cost of a look: of files, their listing, of those of a store
    what ``listing.py`` says; of topics, three questions to a broker over a connection that stays open.
    """
    return _WatchedTopics(source) if source.kind == "kafka" else lambda: _settled(source, manifests)


def _settled(source: Source, manifests: Path) -> Hashable:
    """Return what the complete files of a source look like, as one number: those that a look for new ones sees."""
    now = time.time_ns()
    newest = now - source.settle * 1000
    found = matching(source, after_key(manifests, source, now // 1000))
    files = (each for each in found if each[1].mtime_ns <= newest)
    return hash(tuple((path, *seen) for path, seen in files))


class _WatchedTopics:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._broker: Broker | None = None

    def __call__(self) -> Hashable:
        broker, self._broker = self._broker, None
        broker = broker or Broker(self._source)
        held = tuple(broker.held().items())
        # A client that has failed is not used again.
        self._broker = broker
        return held


def arrived_us(layout: Home, stream: Stream, batch: int) -> int | None:
    """Return when the newest record of an ingest batch arrived: its file was written, or the broker got it.

    None of a batch that read nothing new, such as one out of quarantine or a part of one that had failed.
    """
    (manifest,) = ManifestRows(layout.manifests(stream.name)).behind(batch - 1, batch) or (None,)
    if manifest is None or manifest.kind not in ("files", "kafka") or manifest.is_part:
        return None
    if manifest.files:
        return max(file.mtime_ns for file in manifest.files) // 1000
    ((_, newest_us),) = bounds(layout.raw(stream.name), ("arrival_us",), ("batch", batch, batch))
    return newest_us
