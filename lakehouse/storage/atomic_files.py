"""Files that are replaced as a whole: written aside, then renamed, so that a reader sees all of it or the old one.

What was read of such a file holds until another is in its place.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from pathlib import Path
from typing import IO, Any, Concatenate, ParamSpec, TypeVar

from lakehouse.storage.stores.store_path import Location

Asked = ParamSpec("Asked")
Read = TypeVar("Read")
At = TypeVar("At", bound=Location)
_Reading = Callable[Concatenate[At, Asked], Read]

# A draft is written in far less; what is older is of a writer that died.
_DEAD_S = 3600.0


@contextmanager
def replacing(
    path: Path,
    *,
    durable: bool = False,
    mode: int = 0o666,
    beside: Path | None = None,
    is_new: bool = False,
) -> Iterator[IO[bytes]]:
    """Give a file to write; it takes the place of ``path`` when the block ends without an error.

    A ``durable`` file is on disk before it has its name, and the name before this returns. ``mode`` are its
    permissions, less the process's mask. The draft lies in the same folder unless ``beside`` names another of the same
    file system. ``is_new``: nothing may have this name yet. Raises FileExistsError when a file that should be new is
    there.
    """
    folder = beside or path.parent
    for needed in {folder, path.parent}:
        needed.mkdir(parents=True, exist_ok=True)
    # Machines that share the folder may have processes of the same number.
    draft = folder / f".{path.name}.{os.uname().nodename}.{os.getpid()}"
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        yield file
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if is_new:
        try:
            os.link(draft, path)
        finally:
            draft.unlink()
    else:
        draft.replace(path)
    if durable:
        sync(path.parent)


def write_text(
    path: Path, text: str, *, durable: bool = False, mode: int = 0o666, is_new: bool = False
) -> None:
    """Replace a file by this text, or write one that is new."""
    with replacing(path, durable=durable, mode=mode, is_new=is_new) as file:
        file.write(text.encode("utf-8"))


def write_json(path: Path, content: Any, *, durable: bool = False, indent: int | None = None) -> None:
    """Replace a file by this content as JSON; a value that JSON has no type for, such as a path, becomes text."""
    text = json.dumps(content, ensure_ascii=False, default=str, indent=indent)
    write_text(path, text + "\n", durable=durable)


def read_once(
    most: int, most_bytes: int | None = None
) -> Callable[[_Reading[At, Asked, Read]], _Reading[At, Asked, Read]]:
    """Let a function keep what it reads of a file, its first argument, until another file is in that place.

    At most so many answers are kept, those used last, and none of a file with more than ``most_bytes``. Whoever gets
    one must not change it. Cost: one look at the file.
    """

    def keeping(read: _Reading[At, Asked, Read]) -> _Reading[At, Asked, Read]:
        @lru_cache(most)
        def kept(file: tuple[int, ...], path: At, *asked: Asked.args, **named: Asked.kwargs) -> Read:
            del file
            return read(path, *asked, **named)

        @wraps(read)
        def reading(path: At, /, *asked: Asked.args, **named: Asked.kwargs) -> Read:
            found = path.stat()
            if most_bytes is not None and found.st_size > most_bytes:
                return read(path, *asked, **named)
            file = found.st_ino, found.st_ctime_ns, found.st_mtime_ns, found.st_size
            return kept(file, path, *asked, **named)  # type: ignore[arg-type]

        return reading

    return keeping


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard_drafts(folder: Path) -> None:
    """Delete the drafts that writers who died have left in a folder, where there is one."""
    # Leases are files with a dot, too; a draft ends with the number of a process.
    for draft in (path for path in folder.glob(".*.*") if path.suffix[1:].isdigit()):
        with suppress(FileNotFoundError):
            if draft.stat().st_mtime < time.time() - _DEAD_S:
                draft.unlink()
