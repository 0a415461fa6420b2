r"""The bytes of a landed file, on this machine's file systems or on an object store. Whatever reads one goes by here.

Whoever may land files must not have others read through them. So each opened file is checked, not its name, which may
lead elsewhere a moment later: it is a regular file below the landing folder, and no other user's file under a second
name (``Landing``). What a batch reads of it is what its manifest lists: a file that was written to since is compared by
its content, and read as far as it was listed, or not at all.

Of a compressed file the blocks are what it inflates to.

Tables hold names in UTF-8: where the bytes of a name are none, its other bytes are in them as ``\xNN``.
"""

import errno
import fcntl
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from stat import S_ISREG
from typing import IO, NamedTuple

from lakehouse.config.formats import LINES
from lakehouse.config.landing import landing_folder
from lakehouse.config.store_address import address_of, is_remote
from lakehouse.config.stream import Source
from lakehouse.ingest.sources import object_store
from lakehouse.ingest.sources.compressed import BLOCK_BYTES, ONLY, Members, inflated, is_compressed
from lakehouse.ingest.sources.manifest import Seen
from lakehouse.storage.stores import store_files
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable

_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
# Of a digest, so many hexadecimal digits are kept: files are not made to collide.
DIGITS = 32
_CHANGED = "it changed after it was listed, and is not read: give it a new name"
# The machine lacks something, whatever a file holds.
AROUND = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)


class NotLanded(OSError):
    """A file that nobody landed, whatever its name says; the message says what it is."""


class Changed(OSError):
    """A file that is another one than when it was listed."""


class SourceChanged(RuntimeError):
    """A file that was changed while it was read: what came of it counts for nothing, and it is read again."""


class Landing(NamedTuple):
    """Place where a file landed: ``endpoint`` of its store, None for the usual one, and the ``folder`` it is below.

    Without a folder links are followed to anywhere. ``known``: what was listed, None for whatever is there. Of a file
    that grows its bytes from ``begin`` up to ``end`` are read, of an archive its ``members``.
    """

    endpoint: str | None = None
    folder: str | None = None
    known: Seen | None = None
    begin: int = 0
    end: int | None = None
    members: Members = ONLY


ANYWHERE = Landing()


def landing_of(source: Source, known: Seen | None = None) -> Landing:
    """Return where the files of a source land, of one that is ``known`` with that."""
    is_folder = not (is_remote(source.path) or source.follow_links)
    folder = landing_folder(source.path) if is_folder else None
    members = Members(source.members, _lines_of_head(source)) if source.members else ONLY
    return Landing(source.endpoint, folder, known if known and known.version else None, members=members)


def _lines_of_head(source: Source) -> int | None:
    """Return how many lines an archive's files begin with that are read once; None where several are not one."""
    if source.format == "ndjson" or source.format in LINES:
        return 0
    is_plain = (
        source.format == "csv" and not (source.constants or source.comment) and source.encoding != "utf-16"
    )
    return {"names": 1, "skip": 1, "none": 0}.get(str(source.header)) if is_plain else None


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


@contextmanager
def opened(
    path: str, landing: Landing = ANYWHERE, piece: int = store_files.PIECE_BYTES
) -> Iterator[IO[bytes]]:
    """Open a file to be read; of an object so many bytes are fetched at once.

    Raises NotLanded when it is no regular file, or none that was landed; Changed when its content is not what was
    listed; OSError when it is gone or cannot be read; SourceChanged at the end; StoreUnavailable or ObjectUnread:
    here or while it is read, when a store does not answer, or does not give it.
    """
    known = landing.known
    if is_remote(path):
        with store_files.opened(address_of(path, landing.endpoint), piece) as object_:
            if known and not object_store.is_same(object_, known):
                raise Changed(_CHANGED)
            yield object_
        return
    with _opened(path, landing) as file, _as_listed(file, known) as content:
        yield content
        if content is file and known and not _is_same(file, known):
            raise SourceChanged(f"{path} was changed while it was read; it is read again")


def _opened(path: str, landing: Landing) -> IO[bytes]:
    # A pipe would keep whoever opens it waiting for a writer.
    number = os.open(on_disk(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_landed(number, landing)
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def _as_listed(file: IO[bytes], known: Seen | None) -> IO[bytes]:
    """Return an open file if nobody has touched it since it was listed, else a copy of the bytes that were listed.

    Raises Changed when these are others by now.
    """
    if known is None or _is_same(file, known):
        return file
    if not known.digest:
        raise Changed(_CHANGED)
    copy, found = tempfile.TemporaryFile(), hashlib.sha256()  # noqa: SIM115
    for block in first_bytes(file, known.size):
        found.update(block)
        copy.write(block)
    if found.hexdigest()[:DIGITS] != known.digest:
        copy.close()
        raise Changed(_CHANGED)
    copy.seek(0)
    return copy


def _is_same(file: IO[bytes], known: Seen) -> bool:
    return seen_of(os.fstat(file.fileno())).version == known.version


def _require_landed(number: int, landing: Landing) -> None:
    """Refuse an open file that was not landed. Raises NotLanded with the reason."""
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

    Raises NotLanded when a link led out of it.
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
    return seen_of(os.stat(on_disk(path)))


def seen_of(found: os.stat_result) -> Seen:
    """Return what is known of a file of this machine.

    Of its version is when anything of it last changed, which nobody can set, and no device: machines number these
    differently.
    """
    return Seen(found.st_size, found.st_mtime_ns, version=f"{found.st_ino}-{found.st_ctime_ns}")


def fault_of(error: Exception, read: int = 0) -> str:
    """Return the fault of a file that cannot be read, or no further than so many rows or lines.

    Raises Exception: this one, where it says nothing of the file: a store, this machine, a change that is under way.
    """
    is_around = isinstance(error, OSError) and error.errno in AROUND
    if is_around or isinstance(error, StoreUnavailable | ObjectUnread | SourceChanged):
        raise error
    kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
    reason = f"truncated_file: rows from {read + 1:,} on cannot be read" if read else "unreadable_file"
    return f"{reason}: {kind}{error}"


def digest(path: str, landing: Landing = ANYWHERE, size: int | None = None) -> str:
    """Return a digest of a file's first bytes, by default of all; raises as ``opened``. Cost: reads them once."""
    found = hashlib.sha256()
    with opened(path, landing) as file:
        for block in first_bytes(file, size):
            found.update(block)
    return found.hexdigest()[:DIGITS]


def lines_within(path: str, landing: Landing, size: int) -> int:
    """Return how many lines of a file of text its first bytes hold; of the last one the end may stand behind them."""
    with opened(path, landing) as file:
        lines = sum(block.count(b"\n") for block in first_bytes(file, size))
        return lines + file.read(2).startswith((b"\n", b"\r\n"))


def first_bytes(file: IO[bytes], size: int | None) -> Iterator[bytes]:
    """Yield the next bytes of an open file, all of them for None, in blocks."""
    left = sys.maxsize if size is None else size
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
    """Yield a file's content in blocks; the last of a damaged compressed file has a fault."""
    with opened(path, landing) as file:
        if is_compressed(path):
            yield from inflated(file, path, members=landing.members)
            return
        if landing.begin:
            file.seek(landing.begin)
        size = None if landing.end is None else landing.end - landing.begin
        yield from ((block, None) for block in first_bytes(file, size))
