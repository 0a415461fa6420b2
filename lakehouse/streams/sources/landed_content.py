r"""The bytes of a landed file, on this machine's file systems or on an object store. Whatever reads one goes by here.

Of a gzip file the blocks are what it inflates to.

Tables hold names in UTF-8: where the bytes of a name are none, its other bytes are in them as ``\xNN``.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lakehouse.declare.store_address import is_remote
from lakehouse.home import store_pieces
from lakehouse.streams.sources import object_store
from lakehouse.streams.sources.manifest import Seen

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
BLOCK_BYTES = 8 * 1024 * 1024
# How much of a gzip member is looked at first: an empty one is shorter.
_FIRST_BYTES = 64
# Of a digest, so many hexadecimal digits are kept: files are not made to collide.
_DIGITS = 32
# Inflated pieces that are put together at most before they are looked at.
_PIECES = 10_000
_ZEROS = re.compile(rb"\x00*")


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


def digest(path: str, size: int | None = None) -> str:
    """Return a digest of a file's first bytes, by default of all; raises as ``opened``. Cost: reads them once."""
    found, left = hashlib.sha256(), size
    with opened(path) as file:
        while block := file.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES)):
            found.update(block)
            left = None if left is None else left - len(block)
    return found.hexdigest()[:_DIGITS]


def delete(path: str, endpoint: str | None = None) -> None:
    """Delete a file; raises as ``opened``."""
    if is_remote(path):
        object_store.delete(path, endpoint)
    else:
        Path(on_disk(path)).unlink()


def blocks(path: str, endpoint: str | None = None) -> Iterator[tuple[bytes, str | None]]:
    """Yield a plain or gzip file's content in blocks; the last of a damaged gzip file has a fault.

    ``endpoint``: where the store is that has the file, None for the usual one.
    """
    with opened(path, endpoint) as file:
        yield from _inflated(file) if path.endswith(".gz") else _plain(file)


def _plain(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    while block := file.read(BLOCK_BYTES):
        yield block, None


def _inflated(file: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    """Inflate gzip members one after the other, keeping what came before any damage, which ``gzip`` would not."""
    held, size = list[bytes](), 0
    fault = None
    try:
        for content in _members(file):
            held.append(content)
            size += len(content)
            if size >= BLOCK_BYTES // 2 or len(held) >= _PIECES:
                yield b"".join(held), None
                held, size = [], 0
    except (zlib.error, EOFError) as error:
        fault = f"truncated_file: {error}"
    if held or fault:
        yield b"".join(held), fault


def _members(file: IO[bytes]) -> Iterator[bytes]:
    """Yield what a gzip file inflates to, a block at most at a time."""
    member, inside, size = zlib.decompressobj(wbits=31), False, _FIRST_BYTES
    while block := file.read(BLOCK_BYTES // 8):
        at = 0
        while (at := at if inside else _padded(block, at)) < len(block):
            piece = block[at : at + size]
            yield member.decompress(piece, BLOCK_BYTES)
            # What is left over of the piece is looked at again; of a member that goes on, larger ones.
            at += len(piece) - len(member.unconsumed_tail) - len(member.unused_data)
            inside, size = not member.eof, min(2 * size, BLOCK_BYTES // 8)
            if member.eof:
                member, size = zlib.decompressobj(wbits=31), _FIRST_BYTES
    if inside:
        raise EOFError("the gzip stream ends too early")


def _padded(block: bytes, at: int) -> int:
    """Return where the next member may begin: zeros may stand between two."""
    found = _ZEROS.match(block, at)
    return found.end() if found else at
