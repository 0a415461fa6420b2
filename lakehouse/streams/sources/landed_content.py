r"""The bytes of a landed file, on this machine's file systems or on an object store. Whatever reads one goes by here.

Tables hold names in UTF-8: where the bytes of a name are none, its other bytes are in them as ``\xNN``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

from lakehouse.declare.store_address import is_remote
from lakehouse.home import store_pieces
from lakehouse.streams.sources import object_store
from lakehouse.streams.sources.manifest import Seen

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def told(path: str) -> str:
    """Return the name of a file that is there, as tables hold it; ``on_disk`` leads back.

    Of a name that is not UTF-8 backslashes are escaped too, and all else where another file has what comes out.
    """
    name = os.fsencode(path)
    try:
        return name.decode()
    except UnicodeDecodeError:
        escaped = name.replace(b"\\", b"\\x5c").decode("utf-8", "backslashreplace")
    if not os.path.lexists(escaped):
        return escaped
    folder, _, last = name.rpartition(b"/")
    return told(os.fsdecode(folder) + "/") + "".join(f"\\x{byte:02x}" for byte in last)


def on_disk(path: str) -> str:
    """Return what a file is opened by that tables hold under a name."""
    if "\\x" not in path or os.path.lexists(path):
        return path
    return os.fsdecode(_ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), os.fsencode(path)))


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
