"""An object of a store as a file that is read: in pieces, each a request, all of the version that was begun with."""

from __future__ import annotations

import io
from typing import Any

from lakehouse.config.store_address import Address, address_of
from lakehouse.storage.stores.store_by_scheme import objects_of
from lakehouse.storage.stores.store_objects import Head, Objects, Piece

# Of whoever reads a whole object.
PIECE_BYTES = 8 * 1024 * 1024


def opened(url: str, endpoint: str | None, piece: int = PIECE_BYTES) -> io.BufferedReader:
    """Open an object to be read from its beginning; memory: a piece of it, each of which is a request.

    Reading raises FileNotFoundError when it is gone, ObjectUnread when it is replaced meanwhile.
    """
    place = address_of(url)
    return io.BufferedReader(_Pieces(place, objects_of(place, endpoint)), piece)


def tag_of(file: io.BufferedReader) -> str:
    """Return the tag of an open object, of which the first piece is fetched; of an empty one an empty text."""
    file.peek(1)
    assert isinstance(file.raw, _Pieces)
    return file.raw.tag


def ranges(place: Address, head: Head) -> io.RawIOBase:
    """Open an object of which what is known is ``head``: each read is a request for as many bytes, and no more."""
    return _Pieces(place, objects_of(place), head.size, head.tag)


class _Pieces(io.RawIOBase):
    """An object, read piece by piece as it was when the first one was."""

    def __init__(self, place: Address, objects: Objects, size: int = -1, tag: str = "") -> None:
        self._place, self._objects = place, objects
        self._at, self._size, self._tag = 0, size, tag

    @property
    def tag(self) -> str:
        """The tag of the version that is read, empty before the first piece and of an empty object."""
        return self._tag

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size < 0:
            self._size = self._objects.head(self._place).size
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        if 0 <= self._size <= self._at or not len(buffer):
            return 0
        piece = self._objects.piece(self._place, self._at, len(buffer), self._tag)
        if piece is None:
            # It is empty: of any other all was read by now.
            return 0
        return self._take(piece, buffer)

    def _take(self, piece: Piece, buffer: Any) -> int:
        content, self._size, self._tag = piece
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)
