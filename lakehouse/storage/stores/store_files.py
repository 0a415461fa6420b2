"""Objects of stores as open files: read in pieces, each a request, all of the version that was begun with."""

from __future__ import annotations

import io
from typing import Any

from lakehouse.config.store_address import Address
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_objects import Head

# Of whoever reads a whole object.
PIECE_BYTES = 8 * 1024 * 1024


def opened(place: Address, piece: int = PIECE_BYTES, known: Head | None = None) -> Any:
    """Open an object to be read from its beginning, of the version that is ``known`` if it is.

    ``piece``: the bytes that a request is for, which are in memory; 0 makes each read a request. Reading raises
    FileNotFoundError when it is gone, ObjectUnread when it is replaced meanwhile.
    """
    raw = _Pieces(place, known)
    return io.BufferedReader(raw, piece) if piece else raw


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

    def readall(self) -> bytes:
        # By default in pieces of 8 kB.
        return b"".join(iter(lambda: self.read(PIECE_BYTES) or b"", b""))

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
