"""The bytes of a landed file, on this machine's file systems or on an object store. Whatever reads one goes by here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from lakehouse.declare.store_address import is_remote
from lakehouse.home import store_pieces
from lakehouse.streams.sources import object_store
from lakehouse.streams.sources.file_names import on_disk
from lakehouse.streams.sources.manifest import Seen


def opened(path: str, endpoint: str | None = None) -> IO[bytes]:
    """Open a file to be read; ``endpoint``: where the store is that has it, None for the usual one.

    Raises:
        OSError: when it is gone or cannot be read.
        StoreUnavailable, ObjectUnread: here or while it is read, when a store does not answer, or does not give it.
    """
    if is_remote(path):
        return store_pieces.opened(path, endpoint)
    return open(on_disk(path), "rb")


def opened_head(path: str, endpoint: str | None = None) -> IO[bytes]:
    """Open a file of which the beginning or the end is looked at, as ``opened``: of an object only that is fetched."""
    if is_remote(path):
        return store_pieces.opened(path, endpoint, object_store.HEAD_BYTES)
    return open(on_disk(path), "rb")


def seen(path: str, endpoint: str | None = None) -> Seen:
    """Return what is known of a file that was listed before; raises as ``opened``."""
    if is_remote(path):
        return object_store.seen(path, endpoint)
    found = os.stat(on_disk(path))
    return Seen(found.st_size, found.st_mtime_ns)


def delete(path: str, endpoint: str | None = None) -> None:
    """Delete a file; raises as ``opened``."""
    if is_remote(path):
        object_store.delete(path, endpoint)
    else:
        Path(on_disk(path)).unlink()
