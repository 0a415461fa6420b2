"""An object of a store as a file that is read: in pieces, each a request, all of the version that was begun with."""

from __future__ import annotations

import io
import time
from typing import Any

from lakehouse.declare.store_address import address_of
from lakehouse.home.store_client import TRIES, answers, broken_off, client, code_of, refusals

_PAST_END = ("InvalidRange", "416")
# Of whoever reads a whole object.
PIECE_BYTES = 8 * 1024 * 1024


def opened(url: str, endpoint: str | None, piece: int = PIECE_BYTES) -> io.BufferedReader:
    """Open an object to be read from its beginning; memory: a piece of it, each of which is a request.

    Reading raises FileNotFoundError when it is gone, ObjectUnread when it is replaced meanwhile.
    """
    return io.BufferedReader(_Pieces(url, endpoint), piece)


class _Pieces(io.RawIOBase):
    """An object, read piece by piece as it was when the first one was."""

    def __init__(self, url: str, endpoint: str | None) -> None:
        self._url, self._endpoint = url, endpoint
        self._at, self._size, self._tag = 0, -1, ""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size < 0:
            bucket, key = address_of(self._url)
            with answers(self._url, self._endpoint):
                self._size = client(self._endpoint).head_object(Bucket=bucket, Key=key)["ContentLength"]
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        if 0 <= self._size <= self._at or not len(buffer):
            return 0
        content = self._piece(len(buffer))
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)

    def _piece(self, size: int) -> bytes:
        """Return the next piece; a connection that breaks off in the midst of it is tried again."""
        bucket, key = address_of(self._url)
        asked = {"Bucket": bucket, "Key": key, "Range": f"bytes={self._at}-{self._at + size - 1}"}
        if self._tag:
            asked["IfMatch"] = self._tag
        with answers(self._url, self._endpoint):
            for left in reversed(range(TRIES)):
                try:
                    return self._given(client(self._endpoint).get_object(**asked))
                except broken_off():
                    if not left:
                        raise
                    time.sleep(0.1)
                except refusals() as error:
                    if code_of(error) in _PAST_END:
                        # It is empty: of any other all was read by now.
                        return b""
                    raise
        raise AssertionError("the last try returns or raises")

    def _given(self, answer: Any) -> bytes:
        content: bytes = answer["Body"].read()
        self._tag = answer["ETag"]
        self._size = (
            int(answer["ContentRange"].rpartition("/")[2]) if "ContentRange" in answer else len(content)
        )
        return content
