"""Objects of stores as open files, as Arrow and as DuckDB read them: all by the client, with its errors.

Arrow and fsspec have ways of their own, which find credentials otherwise, or take a store that is away for a file that
is gone. What reads and writes tables needs is here: no folders and no deletions.
"""

import io
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSystemHandler, FileType, PyFileSystem

from lakehouse.config.store_address import Address, address_of
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_objects import Head, Written

# Of whoever reads a whole object.
PIECE_BYTES = 8 * 1024 * 1024
# DuckDB asks for what it needs, in large pieces.
_READ_AHEAD = 64 * 1024


def opened(place: Address, piece: int = PIECE_BYTES) -> io.BufferedReader:
    """Open an object to be read from its beginning; memory: a piece of it, each of which is a request.

    Reading raises FileNotFoundError when it is gone, ObjectUnread when it is replaced meanwhile.
    """
    return io.BufferedReader(_Pieces(place), piece)


def tag_of(file: io.BufferedReader) -> str:
    """Return the tag of an open object, of which the first piece is fetched; of an empty one an empty text."""
    file.peek(1)
    assert isinstance(file.raw, _Pieces)
    return file.raw.tag


class _Pieces(io.RawIOBase):
    """An object, read piece by piece, each a request, as it was when the first one was or by what is known of it."""

    def __init__(self, place: Address, known: Head | None = None) -> None:
        self._place, self._at = place, 0
        self._size, self.tag = (known.size, known.tag) if known else (-1, "")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size < 0:
            self._size = store_objects.head(self._place).size
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        if 0 <= self._size <= self._at or not len(buffer):
            return 0
        piece = store_objects.piece(self._place, self._at, len(buffer), self.tag)
        if piece is None:
            # It is empty: of any other all was read by now.
            return 0
        content, self._size, self.tag = piece
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


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
            found = store_objects.head(self._place(path))
        except FileNotFoundError:
            return FileInfo(path, FileType.NotFound)
        return FileInfo(path, FileType.File, size=found.size, mtime_ns=found.uploaded_ns)

    def open_input_file(self, path: str) -> Any:
        place = self._place(path)
        # Whoever opens a file that is gone learns it now.
        return pa.PythonFile(_Pieces(place, store_objects.head(place)), "r")

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, _metadata: object) -> Any:
        return pa.PythonFile(Written(self._place(path)), "w")

    def _none(self, *_: object) -> None:
        raise NotImplementedError("tables need no such thing of a store")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _none
    delete_file = move = copy_file = open_append_stream = _none


def arrow_filesystem(scheme: str) -> PyFileSystem:
    """Return Arrow's way to the stores of a kind, whose paths begin with the bucket."""
    return PyFileSystem(_ForArrow(scheme))


def duckdb_filesystem(scheme: str) -> Any:
    """Return DuckDB's way to the stores of a kind, by URL."""
    from fsspec import AbstractFileSystem

    class ForDuckDB(AbstractFileSystem):  # type: ignore[misc]
        """The objects of all stores of a kind, by URL."""

        cachable = False
        protocol = scheme

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path

        def info(self, path: str, **_options: Any) -> dict[str, Any]:
            return {"name": path, "size": store_objects.head(address_of(path)).size, "type": "file"}

        def exists(self, path: str, **_options: Any) -> bool:
            return store_objects.exists(address_of(path))

        def glob(self, path: str, **_options: Any) -> list[str]:
            return [path] if self.exists(path) else []

        def modified(self, path: str) -> datetime:
            return store_objects.head(address_of(path)).uploaded

        def open(self, path: str, mode: str = "rb", **_options: Any) -> Any:
            if mode != "rb":
                raise NotImplementedError("files of tables are read only")
            return opened(address_of(path), _READ_AHEAD)

    return ForDuckDB()
