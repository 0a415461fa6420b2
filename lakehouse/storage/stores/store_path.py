"""A place on an object store that is used as a path of files is: joined, looked at, listed, read, deleted.

A store has no folders: one is there while an object below it is, and need not be made. What is written through it is
new: whole files, and small objects of which one writer alone succeeds. Parquet files are ``table_files.py``'s, logs are
deltalake's. Whatever takes a path for one of this machine finds none. Cost: a request for each look, read, write or
deletion, and one for each 1,000 keys of a listing.
"""

from __future__ import annotations

import os
import shutil
import stat as kinds
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from typing import Any
from zlib import crc32

from lakehouse.config.store_address import SCHEMES, Address
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_access import ObjectUnread
from lakehouse.storage.stores.store_files import PIECE_BYTES, opened

# What a path makes of a URL's scheme.
_FIRST = tuple((f"{scheme}:",) for scheme in SCHEMES)


class StorePath(PosixPath):
    """The URL of an object, or of what a folder would be; ``relative_to`` gives an ordinary relative path."""

    def __str__(self) -> str:
        if self.parts[:1] not in _FIRST:
            return super().__str__()
        return f"{self.scheme}://" + "/".join(self.parts[1:])

    def __fspath__(self) -> str:
        return str(self)

    @property
    def scheme(self) -> str:
        """Kind of store that has it."""
        return self.parts[0].removesuffix(":")

    @property
    def address(self) -> Address:
        """The object's store, bucket and key."""
        return Address(self.scheme, self.parts[1], "/".join(self.parts[2:]))

    @property
    def _folder(self) -> Address:
        """Prefix of the keys below."""
        place = self.address
        return place._replace(key=f"{place.key}/" if place.key else "")

    def absolute(self) -> StorePath:
        """Return the place itself."""
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size and time of an object; its number is another where its content is.

        Raises:
            FileNotFoundError: when there is no such object.
            StoreUnavailable, ObjectUnread: as of reading it.
        """
        found = store_objects.head(self.address)
        seconds = found.uploaded.timestamp()
        whole = (kinds.S_IFREG, crc32(found.tag.encode()), 0, 0, 0, 0, found.size, *[int(seconds)] * 3)
        return os.stat_result(whole, {"st_mtime": seconds, "st_mtime_ns": int(seconds * 1000) * 1_000_000})

    def is_file(self, **_options: Any) -> bool:
        """True if there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, **_options: Any) -> bool:
        """True if there is an object below this path."""
        return next(store_objects.listed(self._folder, page=1), None) is not None

    def exists(self, **_options: Any) -> bool:
        """True if there is such an object, or one below."""
        return self.is_file() or self.is_dir()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a store has no folders."""

    def read_bytes(self) -> bytes:
        """Return an object's content.

        Raises:
            FileNotFoundError: when there is no such object.
        """
        return store_objects.content(self.address)

    def read_text(
        self, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> str:
        """Return an object's content as text."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def ends(self, size: int) -> tuple[bytes, bytes, int]:
        """Return the first and the last few bytes of an object, and how many it has."""
        length = self.stat().st_size
        if not length:
            return b"", b"", 0
        first = self._piece(0, size)
        last = self._piece(max(length - size, 0), size)
        return first, last, length

    def _piece(self, at: int, size: int) -> bytes:
        found = store_objects.piece(self.address, at, size, "")
        return found.content if found else b""

    def write_new(self, content: bytes) -> None:
        """Write an object where there is none; of writers that do so at once, one succeeds.

        Raises:
            FileExistsError: when it is there, perhaps by this very call: its answer may be lost, and it is tried again.
        """
        store_objects.write_new(self.address, content)

    def upload(self, file: Path) -> None:
        """Write a file of this machine, of any size, as an object."""
        store_objects.upload(self.address, file)

    def download(self, file: Path, size: int) -> None:
        """Write an object of a known size, which is never replaced, to a file of this machine.

        Raises:
            FileNotFoundError: when there is no such object.
            ObjectUnread: when it has another size.
        """
        with opened(self.address) as whole, file.open("wb") as stream:
            shutil.copyfileobj(whole, stream, PIECE_BYTES)
        if file.stat().st_size != size:
            raise ObjectUnread(f"{self} has not the {size:,} bytes that it was written with")

    def iterdir(self) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield what is directly below, objects and folders."""
        yield from (self / name for name in store_objects.level(self._folder))

    def glob(self, pattern: str, **_options: Any) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield what is directly below and has such a name."""
        yield from (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def rglob(self, pattern: str, **_options: Any) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield the objects below, at any depth, that have such a name."""
        for key, _ in store_objects.listed(self._folder):
            name = key.rpartition("/")[2]
            if name and fnmatchcase(name, pattern):
                yield StorePath(self.address.root, key)

    def after(self, name: str) -> list[str]:
        """Return the names of the objects directly below that come behind a name, in order."""
        folder = self._folder
        found = store_objects.listed(folder, f"{folder.key}{name}")
        names = (key.removeprefix(folder.key) for key, _ in found)
        return [each for each in names if "/" not in each]

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete an object; one that is gone is passed over."""
        store_objects.delete(self.address)


def entries_after(log: Path, version: int) -> Iterator[Path]:
    """Yield the commits of a table's log after one, without a gap. Cost: a listing from there on."""
    last = f"{version:020d}.json" if version >= 0 else ""
    for name in StorePath(log).after(last):
        if name == f"{version + 1:020d}.json":
            version += 1
            yield log / name
