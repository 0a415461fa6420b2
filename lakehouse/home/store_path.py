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

from lakehouse.home.store_access import arrow_filesystem
from lakehouse.home.store_client import ObjectUnread, answers, client, code_of, refusals
from lakehouse.home.store_pieces import PIECE_BYTES, opened

# Of a URL, and what a path makes of it.
_SCHEME, _FIRST = "s3://", "s3:"
# How a store says that the object is there, or that another is writing it now.
_LOST = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")


class StorePath(PosixPath):
    """The URL of an object, or of what a folder would be; ``relative_to`` gives an ordinary relative path."""

    def __str__(self) -> str:
        if self.parts[:1] != (_FIRST,):
            return super().__str__()
        return _SCHEME + "/".join(self.parts[1:])

    def __fspath__(self) -> str:
        return str(self)

    @property
    def bucket(self) -> str:
        """The bucket."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The object's key."""
        return "/".join(self.parts[2:])

    def absolute(self) -> StorePath:
        """Return the place itself."""
        return self

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return size and time of an object; its number is another where its content is.

        Raises:
            FileNotFoundError: when there is no such object.
            StoreUnavailable, ObjectUnread: as of reading it.
        """
        with answers(str(self), None):
            found = client(None).head_object(Bucket=self.bucket, Key=self.key)
        seconds = found["LastModified"].timestamp()
        whole = (
            kinds.S_IFREG,
            crc32(found["ETag"].encode()),
            0,
            0,
            0,
            0,
            found["ContentLength"],
            *[int(seconds)] * 3,
        )
        return os.stat_result(whole, {"st_mtime": seconds, "st_mtime_ns": int(seconds * 1000) * 1_000_000})

    def is_file(self, **_options: Any) -> bool:
        """Whether there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, **_options: Any) -> bool:
        """Whether there is an object below this place."""
        return next(self._keys(most=1), None) is not None

    def exists(self, **_options: Any) -> bool:
        """Whether there is such an object, or one below."""
        return self.is_file() or self.is_dir()

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a store has no folders."""

    def read_bytes(self) -> bytes:
        """Return an object's content.

        Raises:
            FileNotFoundError: when there is no such object.
        """
        with answers(str(self), None):
            content: bytes = client(None).get_object(Bucket=self.bucket, Key=self.key)["Body"].read()
        return content

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
        pieces = [f"bytes=0-{size - 1}", f"bytes={max(length - size, 0)}-"]
        with answers(str(self), None):
            first, last = (
                client(None).get_object(Bucket=self.bucket, Key=self.key, Range=piece)["Body"].read()
                for piece in pieces
            )
        return first, last, length

    def write_new(self, content: bytes) -> None:
        """Write an object where there is none; of writers that do so at once, one succeeds.

        Raises:
            FileExistsError: when it is there, perhaps by this very call: its answer may be lost, and it is tried again.
        """
        with answers(str(self), None):
            try:
                client(None).put_object(Bucket=self.bucket, Key=self.key, Body=content, IfNoneMatch="*")
            except refusals() as error:
                if code_of(error) in _LOST:
                    raise FileExistsError(17, "There is such an object", str(self)) from None
                raise

    def upload(self, file: Path) -> None:
        """Write a file of this machine, of any size, as an object."""
        place = f"{self.bucket}/{self.key}"
        with file.open("rb") as whole, arrow_filesystem().open_output_stream(place) as stream:
            shutil.copyfileobj(whole, stream, PIECE_BYTES)

    def download(self, file: Path, size: int) -> None:
        """Write an object of a known size, which is never replaced, to a file of this machine.

        Raises:
            FileNotFoundError: when there is no such object.
            ObjectUnread: when it has another size.
        """
        with opened(str(self), None) as whole, file.open("wb") as stream:
            shutil.copyfileobj(whole, stream, PIECE_BYTES)
        if file.stat().st_size != size:
            raise ObjectUnread(f"{self} has not the {size:,} bytes that it was written with")

    def iterdir(self) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield what is directly below, objects and folders."""
        with answers(str(self), None):
            for page in self._pages(Delimiter="/"):
                yield from (self / each["Prefix"].split("/")[-2] for each in page.get("CommonPrefixes", ()))
                names = (each["Key"].rpartition("/")[2] for each in page.get("Contents", ()))
                yield from (self / name for name in names if name)

    def glob(self, pattern: str, **_options: Any) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield what is directly below and has such a name."""
        yield from (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def rglob(self, pattern: str, **_options: Any) -> Iterator[StorePath]:  # type: ignore[override]
        """Yield the objects below, at any depth, that have such a name."""
        for key in self._keys():
            name = key.rpartition("/")[2]
            if name and fnmatchcase(name, pattern):
                yield StorePath(f"{_SCHEME}{self.bucket}", key)

    def after(self, name: str) -> list[str]:
        """Return the names of the objects directly below that come behind a name, in order."""
        with answers(str(self), None):
            pages = self._pages(StartAfter=f"{self.key}/{name}", Delimiter="/")
            return [each["Key"].rpartition("/")[2] for page in pages for each in page.get("Contents", ())]

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete an object; one that is gone is passed over."""
        with answers(str(self), None):
            client(None).delete_object(Bucket=self.bucket, Key=self.key)

    def _keys(self, most: int | None = None) -> Iterator[str]:
        with answers(str(self), None):
            for page in self._pages(
                **({"PaginationConfig": {"MaxItems": most, "PageSize": most}} if most else {})
            ):
                yield from (each["Key"] for each in page.get("Contents", ()))

    def _pages(self, **options: Any) -> Any:
        asked = {"Bucket": self.bucket, "Prefix": f"{self.key}/" if self.key else "", **options}
        return client(None).get_paginator("list_objects_v2").paginate(**asked)


def entries_after(log: Path, version: int) -> Iterator[Path]:
    """Yield the commits of a table's log after one, without a gap. Cost: a listing from there on."""
    last = f"{version:020d}.json" if version >= 0 else ""
    for name in StorePath(log).after(last):
        if name == f"{version + 1:020d}.json":
            version += 1
            yield log / name
