r"""The bytes of a landed file, on this machine's file systems or on an object store. Whatever reads one goes by here.

Whoever may land files must not have others read through them. So each opened file is checked, not its name, which may
lead elsewhere a moment later: it is a regular file below the landing folder, and no other user's file under a second
name (``Landing``).

Of a gzip file the blocks are what it inflates to.

Tables hold names in UTF-8: where the bytes of a name are none, its other bytes are in them as ``\xNN``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
import zlib
from collections.abc import Iterator
from stat import S_ISREG
from typing import IO, NamedTuple

from lakehouse.declare.landing import landing_folder
from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Source
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


class NotLanded(OSError):
    """A file that nobody landed, whatever its name says; the message says what it is."""


class Landing(NamedTuple):
    """A place where files land: ``endpoint`` of its store, None for the usual one, and the ``folder`` they are below.

    Without a folder links are followed to anywhere.
    """

    endpoint: str | None = None
    folder: str | None = None


ANYWHERE = Landing()


def landing_of(source: Source) -> Landing:
    """Return where the files of a source land."""
    is_folder = not (is_remote(source.path) or source.follow_links)
    return Landing(source.endpoint, landing_folder(source.path) if is_folder else None)


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


def opened(path: str, landing: Landing = ANYWHERE) -> IO[bytes]:
    """Open a file to be read.

    Raises:
        NotLanded: when it is no regular file, or none that was landed.
        OSError: when it is gone or cannot be read.
        StoreUnavailable, ObjectUnread: here or while it is read, when a store does not answer, or does not give it.
    """
    if is_remote(path):
        return store_pieces.opened(path, landing.endpoint)
    return _opened(path, landing)


def opened_head(path: str, landing: Landing = ANYWHERE) -> IO[bytes]:
    """Open a file of which the beginning or the end is looked at, as ``opened``: of an object only that is fetched."""
    if is_remote(path):
        return store_pieces.opened(path, landing.endpoint, object_store.HEAD_BYTES)
    return _opened(path, landing)


def _opened(path: str, landing: Landing) -> IO[bytes]:
    # A pipe would keep whoever opens it waiting for a writer.
    number = os.open(on_disk(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_landed(number, landing)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _require_landed(number: int, landing: Landing) -> None:
    """Refuse an open file that was not landed.

    Raises:
        NotLanded: with the reason.
    """
    found = os.fstat(number)
    if not S_ISREG(found.st_mode):
        raise NotLanded("it is no regular file, but a folder, a pipe or a device")
    if landing.folder is None:
        return
    real = _require_inside(number, landing.folder)
    folder = os.stat(os.path.dirname(real))
    is_others = folder.st_uid != os.geteuid() or folder.st_mode & 0o022
    is_landed = found.st_uid == folder.st_uid != os.geteuid()
    if found.st_nlink > 1 and is_others and not is_landed:
        raise NotLanded(
            f"it has {found.st_nlink} names (hard links) in a folder that other users may write, and may be somebody "
            "else's file; follow_links = true allows that"
        )


def _require_inside(number: int, folder: str) -> str:
    """Return the path of an open file or folder, which is below the landing folder.

    Raises:
        NotLanded: when a link led out of it.
    """
    real = _path_of(number)
    if os.path.commonpath((os.path.realpath(folder), real)) != os.path.realpath(folder):
        raise NotLanded(
            f"it is a link to {real}, which is not below {folder}; follow_links = true allows that"
        )
    return real


def _path_of(number: int) -> str:
    """Return where an open file is, however its name led there."""
    if sys.platform == "darwin":
        return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    return os.readlink(f"/proc/self/fd/{number}")


def seen(path: str, landing: Landing = ANYWHERE) -> Seen:
    """Return what is known of a file that was listed before; raises as ``opened``."""
    if is_remote(path):
        return object_store.seen(path, landing.endpoint)
    found = os.stat(on_disk(path))
    return Seen(found.st_size, found.st_mtime_ns)


def digest(path: str, landing: Landing = ANYWHERE, size: int | None = None) -> str:
    """Return a digest of a file's first bytes, by default of all; raises as ``opened``. Cost: reads them once."""
    found = hashlib.sha256()
    for block in _first_bytes(path, landing, size):
        found.update(block)
    return found.hexdigest()[:_DIGITS]


def lines_within(path: str, landing: Landing, size: int) -> int:
    """Return how many lines of a file of text its first bytes hold; of the last one the end may stand behind them."""
    lines = sum(block.count(b"\n") for block in _first_bytes(path, landing, size))
    with opened(path, landing) as file:
        file.seek(size)
        return lines + file.read(2).startswith((b"\n", b"\r\n"))


def _first_bytes(path: str, landing: Landing, size: int | None) -> Iterator[bytes]:
    left = sys.maxsize if size is None else size
    with opened(path, landing) as file:
        while block := file.read(min(left, BLOCK_BYTES)):
            yield block
            left -= len(block)


def delete(path: str, landing: Landing = ANYWHERE) -> None:
    """Delete a file; raises as ``opened``."""
    if is_remote(path):
        object_store.delete(path, landing.endpoint)
        return
    folder, name = os.path.split(on_disk(path))
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if landing.folder is not None:
            _require_inside(number, landing.folder)
        os.unlink(name, dir_fd=number)
    finally:
        os.close(number)


def blocks(path: str, landing: Landing = ANYWHERE) -> Iterator[tuple[bytes, str | None]]:
    """Yield a plain or gzip file's content in blocks; the last of a damaged gzip file has a fault."""
    with opened(path, landing) as file:
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
