"""Locations on an object store, joined, looked at, listed, read and deleted as paths of files are.

A store has no folders: one is there while an object below it is, and need not be made. What is written through it is
new: whole files, and small objects of which one writer alone succeeds. Parquet files are ``table_files.py``'s, logs are
deltalake's. A location is no path of this machine, and whatever takes only those refuses it. Cost: a request for each
look, read, write or deletion, and one for each 1,000 keys of a listing.
"""

from __future__ import annotations

import os
import shutil
import stat as kinds
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path, PurePath, PurePosixPath
from posixpath import normpath

from lakehouse.config.store_address import Address, address_of
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_access import ObjectUnread


@dataclass(frozen=True, order=True)
class StorePath:
    """The URL of an object, or of what a folder would be."""

    url: str

    def __str__(self) -> str:
        return self.url

    __fspath__ = __str__

    def __truediv__(self, name: str | PurePath) -> StorePath:
        return StorePath(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> StorePath:
        """Folder that it is in."""
        return StorePath(self.url.rpartition("/")[0])

    def absolute(self) -> StorePath:
        """Return the location itself."""
        return self

    def resolve(self) -> StorePath:
        """Return the location without parts that lead elsewhere: a store has no links."""
        scheme, _, rest = self.url.partition("://")
        return StorePath(f"{scheme}://{normpath(rest)}")

    def is_relative_to(self, folder: str | os.PathLike[str]) -> bool:
        """True if it is below a folder."""
        return self.url.startswith(f"{os.fspath(folder)}/")

    def relative_to(self, folder: Location) -> PurePosixPath:
        """Return the way from a folder to it. Raises ValueError when it is not below the folder."""
        return PurePosixPath(self.url).relative_to(PurePosixPath(str(folder)))

    @property
    def address(self) -> Address:
        """The object's store, bucket and key."""
        return address_of(self.url)

    @property
    def _folder(self) -> Address:
        """Prefix of the keys below."""
        place = self.address
        return place._replace(key=f"{place.key}/" if place.key else "")

    def stat(self) -> os.stat_result:
        """Return size and time of an object; its number is another where its content is.

        Raises FileNotFoundError when there is no such object; StoreUnavailable or ObjectUnread as of reading it.
        """
        found = store_objects.head(self.address)
        seconds = found.uploaded.timestamp()
        number = int.from_bytes(blake2b(found.tag.encode(), digest_size=16).digest(), "big")
        whole = (kinds.S_IFREG, number, 0, 0, 0, 0, found.size, *[int(seconds)] * 3)
        return os.stat_result(whole, {"st_mtime": seconds, "st_mtime_ns": int(seconds * 1000) * 1_000_000})

    def is_file(self) -> bool:
        """True if there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """True if there is an object below this path."""
        return next(store_objects.listed(self._folder, page=1), None) is not None

    def exists(self) -> bool:
        """True if there is such an object, or one below."""
        return self.is_file() or self.is_dir()

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a store has no folders."""

    def read_bytes(self) -> bytes:
        """Return an object's content. Raises FileNotFoundError when there is no such object."""
        return store_objects.content(self.address)

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return an object's content as text."""
        return self.read_bytes().decode(encoding)

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

        Raises FileExistsError when it is there, perhaps by this very call: its answer may be lost, and it is tried
        again.
        """
        store_objects.write_new(self.address, content)

    def upload(self, file: Path) -> None:
        """Write a file of this machine, of any size, as an object."""
        store_objects.upload(self.address, file)

    def download(self, file: Path, size: int) -> None:
        """Write an object of a known size, which is never replaced, to a file of this machine.

        Raises FileNotFoundError when there is no such object; ObjectUnread when it has another size.
        """
        # Whoever downloads nothing does without Arrow.
        from lakehouse.storage.stores.store_files import PIECE_BYTES, opened

        with opened(self.address) as whole, file.open("wb") as stream:
            shutil.copyfileobj(whole, stream, PIECE_BYTES)
        if file.stat().st_size != size:
            raise ObjectUnread(f"{self} has not the {size:,} bytes that it was written with")

    def iterdir(self) -> Iterator[StorePath]:
        """Yield what is directly below, objects and folders."""
        yield from (self / name for name in store_objects.level(self._folder))

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """Yield what is directly below and has such a name."""
        yield from (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def rglob(self, pattern: str) -> Iterator[StorePath]:
        """Yield the objects below, at any depth, that have such a name."""
        for key, _ in store_objects.listed(self._folder):
            name = key.rpartition("/")[2]
            if name and fnmatchcase(name, pattern):
                yield StorePath(f"{self.address.root}/{key}")

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete an object; one that is gone is passed over."""
        store_objects.delete(self.address)


def entries_after(log: StorePath, version: int) -> Iterator[StorePath]:
    """Yield the commits of a table's log after one, without a gap. Cost: a listing from there on."""
    last = f"{version:020d}.json" if version >= 0 else ""
    folder = log._folder
    for key, _ in store_objects.listed(folder, f"{folder.key}{last}"):
        if key == f"{folder.key}{version + 1:020d}.json":
            version += 1
            yield log / key.removeprefix(folder.key)


# A file or folder of a home, of this machine or on a store.
Location = Path | StorePath
