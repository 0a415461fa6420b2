"""File system of fsspec by which Arrow and DuckDB read tables on stores: files of our own client, with its errors.

Arrow and fsspec have ways of their own, which find credentials otherwise, or take a store that is away for a file that
is gone. What reads and writes tables needs is here: no folders and no deletions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fsspec import AbstractFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from lakehouse.config.store_address import address_of
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_files import opened

# DuckDB asks for what it needs, in large pieces, but for a file's end; Arrow reads ahead by itself.
_READ_AHEAD = 64 * 1024


class StoreFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The objects of all stores of a kind, by URL."""

    cachable = False

    def __init__(self, scheme: str, read_ahead: int = _READ_AHEAD) -> None:
        super().__init__()
        self.protocol, self._read_ahead = scheme, read_ahead

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoreFileSystem) and other.protocol == self.protocol

    def __hash__(self) -> int:
        return hash(self.protocol)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        """Return the size of an object."""
        return {"name": path, "size": store_objects.head(address_of(path)).size, "type": "file"}

    def exists(self, path: str, **_options: Any) -> bool:
        """Return True if there is such an object."""
        return store_objects.exists(address_of(path))

    def isfile(self, _path: str) -> bool:
        """Return True: whoever opens one that is gone learns it then."""
        return True

    def glob(self, path: str, **_options: Any) -> list[str]:
        """Return the object itself: tables are read by their files' addresses."""
        return [path] if self.exists(path) else []

    def modified(self, path: str) -> datetime:
        """Return the time of upload."""
        return store_objects.head(address_of(path)).uploaded

    def open(self, path: str, mode: str = "rb", **_options: Any) -> Any:
        """Open an object to be read as it is now, or to be written."""
        place = address_of(path)
        if mode == "wb":
            return store_objects.Written(place)
        return opened(place, self._read_ahead, store_objects.head(place))


def arrow_filesystem(scheme: str) -> PyFileSystem:
    """Return Arrow's way to the stores of a kind, by URL."""
    return PyFileSystem(FSSpecHandler(StoreFileSystem(scheme, 0)))
