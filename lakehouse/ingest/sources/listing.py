"""A look for new files that does not list again what was listed before, where keys of a store are in order of time.

    manifests/<stream>/listed.position    behind which key the next look begins, and when all was listed last

With ``key_order = "time"`` a look lists the keys behind the last one that is older than ``_OVERLAP_US``: a key may come
so long after one that is behind it. What comes later still is found by the next full listing, each ``full_listing``.
The file says nothing that a full listing would not: it may be deleted.
"""

import json
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from lakehouse.config.landing import located
from lakehouse.config.store_address import address_of
from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.sources.files import Found, matching
from lakehouse.ingest.sources.kafka import Broker
from lakehouse.ingest.sources.manifest_rows import ManifestRows
from lakehouse.storage.atomic_files import write_json
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.table_log import bounds

_OVERLAP_US = 10 * 60 * 1_000_000
_PIECE = 10_000
# What it returns is the same as before where nothing has come.
Probe = Callable[[], Hashable]


def after_key(folder: Path, source: Source, now_us: int) -> str:
    """Return behind which key a look begins, none where all must be listed. ``folder``: of the stream's manifests."""
    if source.key_order is None:
        return ""
    try:
        known = json.loads(_file(folder).read_text("utf-8"))
        is_due = not 0 <= now_us - known["full_us"] < source.full_listing
        return "" if is_due or known["of"] != _of(source) else str(known["after"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""


@dataclass
class Look:
    """One look at the files of a source, and how far the next one may pass over what this one saw."""

    folder: Path
    source: Source
    began_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def __post_init__(self) -> None:
        self._began_after = self._after = after_key(self.folder, self.source, self.began_us)
        # Whether all keys up to here are old enough.
        self._is_passed = True

    def pieces(self) -> Iterator[list[Found]]:
        """Yield what is found, some files at a time: no more of them are in memory."""
        found = matching(self.source, self._began_after)
        oldest = (self.began_us - max(_OVERLAP_US, self.source.settle)) * 1000
        while piece := list(islice(found, _PIECE)):
            for path, seen in piece if self.source.key_order else ():
                self._is_passed = self._is_passed and seen.mtime_ns <= oldest
                if self._is_passed:
                    self._after = address_of(located(self.source.path, path)).key
            yield piece

    def note(self) -> None:
        """Let the next look begin where this one may: all that it saw is in manifests, or is to wait for a full one."""
        if self.source.key_order is None:
            return
        if not self._began_after:
            full_us = self.began_us
        elif self._after == self._began_after:
            return
        else:
            full_us = json.loads(_file(self.folder).read_text("utf-8"))["full_us"]
        write_json(_file(self.folder), {"of": _of(self.source), "after": self._after, "full_us": full_us})


def _file(folder: Path) -> Path:
    return folder / "listed.position"


def _of(source: Source) -> list[str]:
    return [source.path, source.endpoint or ""]


def probe_of(source: Source, manifests: Path) -> Probe:
    """Return a function that looks at a source; it may raise what reading the source raises.

    ``manifests``: the folder of the stream's manifests. Cost of a look: of files, their listing, of those of a store
    that of ``Look``; of topics, three questions to a broker over a connection that stays open.
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
