"""Landed files that are needed no longer: read whole by every stream that names them, and older than each keeps them.

Nothing goes unless a stream says ``keep_files``. What stays whatever it says: a file whose batch is not finished, one
that is not as it was when it was read, and one that could not be read to its end, as quarantine lacks its bytes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.home.store_client import ObjectUnread, StoreUnavailable
from lakehouse.spark import tables
from lakehouse.streams.quarantine import partly_read
from lakehouse.streams.sources.files import matching
from lakehouse.streams.sources.landed_content import delete
from lakehouse.streams.sources.manifest_store import ManifestStore

log = logging.getLogger(__name__)


def drop_old_files(layout: Home, stream: Stream, streams: Iterable[Stream]) -> int:
    """Delete the landed files that a stream names and none of ``streams``, itself among them, needs; return how many.

    Whoever calls holds the lease of the stream's raw table. A file that may not be deleted is logged and stays.
    """
    if stream.source.keep_files is None:
        return 0
    gone = _named(stream)
    for each in streams:
        if gone:
            gone -= _needed(layout, each)
    return sum(_is_deleted(path, stream.source.endpoint) for path in sorted(gone))


def _named(stream: Stream) -> set[str]:
    return {path for path, _ in matching(stream.source)}


def _needed(layout: Home, stream: Stream) -> set[str]:
    """Return the files that a stream names and has not read whole, or keeps still."""
    source = stream.source
    if source.keep_files is None or not tables.exists(layout.ledger(stream.name)):
        return _named(stream)
    found = list(matching(source))
    oldest = time.time_ns() - source.keep_files * 1000
    store = ManifestStore(layout.manifests(stream.name))
    read = store.read_as_they_are(found, read_extent(layout, stream.name).batch)
    read -= partly_read(layout, stream)
    return {path for path, seen in found if path not in read or seen.mtime_ns > oldest}


def _is_deleted(path: str, endpoint: str | None) -> bool:
    try:
        delete(path, endpoint)
    except (OSError, StoreUnavailable, ObjectUnread) as error:
        why = error.strerror if isinstance(error, OSError) else error
        log.warning("%s was read and is kept no longer, but cannot be deleted: %s", path, why)
        return False
    return True
