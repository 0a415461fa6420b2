"""Landed files on S3, or on what speaks its protocol: listed, looked at, opened, deleted.

Credentials and errors are those of ``lakehouse.home.store_client``.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from typing import Any

from lakehouse.declare.store_address import SCHEME, address_of, fixed_part
from lakehouse.home.store_client import (
    TRIES,
    StoreUnavailable,
    answers,
    client,
    code_of,
    refusals,
)
from lakehouse.streams.sources.key_pattern import key_filter
from lakehouse.streams.sources.manifest import Seen

# Enough for a header; a whole file is read in larger pieces, a request each.
HEAD_BYTES, PIECE_BYTES = 64 * 1024, 8 * 1024 * 1024
# The most that a store tells at once.
_PAGE_KEYS = 1000
_PAST_END = ("InvalidRange", "416")
_OF_TASK = re.compile(rf"{re.escape(StoreUnavailable.__module__)}\.StoreUnavailable: (.*)")


def unavailable_in(error: Exception) -> StoreUnavailable | None:
    """Return what an error says of a store that does not answer, which a task of Spark may have met; None of others."""
    if isinstance(error, StoreUnavailable):
        return error
    found = _OF_TASK.search(str(error))
    return StoreUnavailable(found[1]) if found else None


def listed(url: str, endpoint: str | None, after: str = "") -> Iterator[tuple[str, Seen]]:
    """Yield the objects that a URL with a pattern names, by key, with the time of their upload.

    ``after``: only keys behind this one. Cost: a request for each 1,000 keys that begin as the pattern does.

    Raises:
        StoreUnavailable: when the store does not answer, has no such bucket, or refuses.
    """
    bucket, pattern = address_of(url)
    is_named = key_filter(pattern)
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": fixed_part(pattern)}
    asked |= {"PaginationConfig": {"PageSize": _PAGE_KEYS}} | ({"StartAfter": after} if after else {})
    with answers(f"{SCHEME}{bucket}", endpoint):
        for page in client(endpoint).get_paginator("list_objects_v2").paginate(**asked):
            for each in page.get("Contents", ()):
                # Lines carry names joined by this character.
                if is_named(each["Key"]) and "\0" not in each["Key"]:
                    yield f"{SCHEME}{bucket}/{each['Key']}", _seen(each["Size"], each["LastModified"])


def seen(url: str, endpoint: str | None) -> Seen:
    """Return what is known of one object.

    Raises:
        FileNotFoundError: when it is gone.
        StoreUnavailable, ObjectUnread: as of reading it.
    """
    bucket, key = address_of(url)
    with answers(url, endpoint):
        found = client(endpoint).head_object(Bucket=bucket, Key=key)
        return _seen(found["ContentLength"], found["LastModified"])


def opened(url: str, endpoint: str | None, piece: int = PIECE_BYTES) -> io.BufferedReader:
    """Open an object to be read from its beginning; memory: a piece of it, each of which is a request.

    Reading raises FileNotFoundError when it is gone, ObjectUnread when it is replaced meanwhile.
    """
    return io.BufferedReader(_Pieces(url, endpoint), piece)


def delete(url: str, endpoint: str | None) -> None:
    """Delete an object."""
    bucket, key = address_of(url)
    with answers(url, endpoint):
        client(endpoint).delete_object(Bucket=bucket, Key=key)


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
            self._size = seen(self._url, self._endpoint).size
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
                except _broken():
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


def _broken() -> tuple[type[Exception], ...]:
    from botocore.exceptions import IncompleteReadError, ReadTimeoutError, ResponseStreamingError

    return IncompleteReadError, ReadTimeoutError, ResponseStreamingError


def _seen(size: int, uploaded: Any) -> Seen:
    return Seen(size, round(uploaded.timestamp() * 1000) * 1_000_000)
