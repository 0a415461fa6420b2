"""Arrow's and DuckDB's way to the stores that obstore speaks to: files of our own client, with its errors.

Arrow and fsspec have ways of their own, which find credentials otherwise, or tell a store that is away as a file that
is gone. What reads and writes tables needs is here: no folders and no deletions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
from fsspec import AbstractFileSystem
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from lakehouse.config.store_address import Address, address_of
from lakehouse.storage.stores.store_clouds import CloudObjects, Written
from lakehouse.storage.stores.store_objects import Head
from lakehouse.storage.stores.store_pieces import opened, ranges


class _ForArrow(FileSystemHandler):  # type: ignore[misc]
    """The objects of all stores of a kind, by paths that begin with the bucket."""

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ForArrow) and other._scheme == self._scheme

    def __hash__(self) -> int:
        return hash(self._scheme)

    def _place(self, path: str) -> Address:
        return address_of(f"{self._scheme}://{path}")

    def get_type_name(self) -> str:
        return self._scheme

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            found = CloudObjects().head(self._place(path))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)
        return FileInfo(path, FileType.File, size=found.size, mtime_ns=found.uploaded_ns)

    def open_input_file(self, path: str) -> Any:
        place = self._place(path)
        # Whoever opens a file that is gone is told so here.
        return pa.PythonFile(ranges(place, CloudObjects().head(place)), "r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, _metadata: object) -> Any:
        return pa.PythonFile(Written(self._place(path)), "w")

    def _none(self, *_: object) -> None:
        raise NotImplementedError("tables need no such thing of a store")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _none
    delete_file = move = copy_file = open_append_stream = _none


class _ForDuckDB(AbstractFileSystem):  # type: ignore[misc]
    """The objects of all stores of a kind, by URL."""

    cachable = False

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.protocol = scheme

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def _head(self, path: str) -> Head:
        place = address_of(path)
        return CloudObjects().head(place)

    def info(self, path: str, **_options: Any) -> dict[str, Any]:
        return {"name": path, "size": self._head(path).size, "type": "file"}

    def exists(self, path: str, **_options: Any) -> bool:
        try:
            self._head(path)
        except FileNotFoundError:
            return False
        return True

    def glob(self, path: str, **_options: Any) -> list[str]:
        return [path] if self.exists(path) else []

    def modified(self, path: str) -> datetime:
        return self._head(path).uploaded

    def open(self, path: str, mode: str = "rb", **_options: Any) -> Any:
        if mode != "rb":
            raise NotImplementedError("files of tables are read only")
        return opened(path, None, _READ_AHEAD)


# DuckDB asks for what it needs, in large pieces.
_READ_AHEAD = 64 * 1024


def arrow_filesystem(scheme: str) -> PyFileSystem:
    """Return Arrow's way to the stores of a kind, whose paths begin with the bucket."""
    return PyFileSystem(_ForArrow(scheme))


def duckdb_filesystem(scheme: str) -> AbstractFileSystem:
    """Return DuckDB's way to the stores of a kind, by URL."""
    return _ForDuckDB(scheme)
