"""Landed files on S3, or on what speaks its protocol: listed, looked at, opened, deleted. The one seam to it.

Credentials, region and endpoint come from the ordinary chain of AWS's own library: variables ``AWS_...``, profiles,
roles of the machine. Nothing of them is in an error: of what a store answers only its code is told.

    a store that does not answer, or refuses     StoreUnavailable: whoever asked fails, and asks again later
    an object that it does not give              ObjectUnread: likewise; others may be given
    an object that is gone                       FileNotFoundError, as of a file
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from lakehouse.declare.store_address import SCHEME, address_of, fixed_part
from lakehouse.streams.sources.key_pattern import key_filter
from lakehouse.streams.sources.manifest import Seen

# Enough for a header; a whole file is read in larger pieces, a request each.
HEAD_BYTES, PIECE_BYTES = 64 * 1024, 8 * 1024 * 1024
# The most that a store tells at once.
_PAGE_KEYS = 1000
_TRIES, _CONNECT_S, _READ_S, _CONNECTIONS = 3, 5, 60, 32
_GONE = ("NoSuchKey", "404", "NoSuchVersion")
_REFUSED = ("AccessDenied", "403", "InvalidObjectState", "Forbidden")
_CHANGED = ("PreconditionFailed", "412")
_PAST_END = ("InvalidRange", "416")
_OF_TASK = re.compile(rf"{re.escape(__name__)}\.StoreUnavailable: (.*)")
_AMAZON = (".amazonaws.com", ".amazonaws.com.cn")


class StoreUnavailable(RuntimeError):
    """A store does not answer, or refuses who asks."""


class ObjectUnread(RuntimeError):
    """A store does not give one object, or gave parts of two: it was replaced while it was read."""


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
    with _answers(f"{SCHEME}{bucket}", endpoint):
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
    with _answers(url, endpoint):
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
    with _answers(url, endpoint):
        client(endpoint).delete_object(Bucket=bucket, Key=key)


def client(endpoint: str | None) -> Any:
    """Return this process's client of a store; it may be shared by threads, and a fork has one of its own."""
    return _client(endpoint, os.getpid())


@lru_cache(8)
def _client(endpoint: str | None, _process: int) -> Any:
    try:
        import botocore.session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise StoreUnavailable("landed files on S3 need botocore: pip install 'tidemark[s3]'") from None
    options: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        "read_timeout": _READ_S,
        "max_pool_connections": _CONNECTIONS,
        "retries": {"mode": "standard", "total_max_attempts": _TRIES},
        # Stores that only speak the protocol know no newer sums.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    try:
        session = botocore.session.Session()
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=_instant)
        made = session.create_client("s3", endpoint_url=endpoint, config=Config(**options))
        address = urlsplit(made.meta.endpoint_url)
        if not (address.hostname or "").endswith(_AMAZON):
            # Others seldom have a name for each bucket.
            options["s3"] = {"addressing_style": "path"}
            made = session.create_client("s3", endpoint_url=endpoint, config=Config(**options))
    except BotoCoreError as error:
        raise StoreUnavailable(f"no client of S3 can be made: {type(error).__name__}{_profile()}") from None
    except ValueError:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) is no address") from None
    if address.username is not None:
        raise StoreUnavailable("the endpoint of S3 (AWS_ENDPOINT_URL) has a user name or password in it")
    return made


def _instant(text: str) -> datetime:
    """Read a time as a listing tells it, in half the time that the library takes for a key; others as this does."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        from botocore.utils import parse_timestamp

        found: datetime = parse_timestamp(text)
        return found


def _profile() -> str:
    profile = os.environ.get("AWS_PROFILE")
    return f"; AWS_PROFILE is {profile!r}" if profile else ""


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
        with _answers(self._url, self._endpoint):
            for left in reversed(range(_TRIES)):
                try:
                    return self._given(client(self._endpoint).get_object(**asked))
                except _broken():
                    if not left:
                        raise
                    time.sleep(0.1)
                except _refusals() as error:
                    if _code(error) in _PAST_END:
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


def _refusals() -> tuple[type[Exception]]:
    from botocore.exceptions import ClientError

    return (ClientError,)


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _answers(what: str, endpoint: str | None) -> Iterator[None]:
    """Tell what a store answers without what it says: that may hold parts of a request."""
    client(endpoint)
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _told(what, _code(error), _at(endpoint)) from None
    except BotoCoreError as error:
        raise StoreUnavailable(f"{what}: {_lacking(error, _at(endpoint))}") from None


def _told(what: str, code: str, at: str) -> Exception:
    is_object = what.count("/") > 2
    if code == "NoSuchBucket" or (code in _GONE and not is_object):
        return StoreUnavailable(f"{what}: there is no such bucket at {at}")
    if code in _GONE:
        return FileNotFoundError(2, "No such object", what)
    if code in _CHANGED:
        return ObjectUnread(f"{what} was replaced while it was read")
    if code in _REFUSED and is_object:
        return ObjectUnread(f"{what}: {at} does not give it ({code}); reading it takes s3:GetObject")
    if code in _REFUSED:
        return StoreUnavailable(f"{what}: {at} refuses ({code}); listing it takes s3:ListBucket")
    return StoreUnavailable(f"{what}: {at} answers {code or 'nothing that can be read'}")


def _lacking(error: Exception, at: str) -> str:
    from botocore import exceptions as known

    if isinstance(error, known.NoCredentialsError | known.PartialCredentialsError):
        # Those that come later are looked for again.
        _client.cache_clear()
        return (
            "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give "
            "the machine a role"
        )
    if isinstance(error, known.HTTPClientError | known.ConnectionError):
        return f"{at} does not answer ({type(error).__name__})"
    return f"{type(error).__name__} from {at}"


def _at(endpoint: str | None) -> str:
    address = urlsplit(client(endpoint).meta.endpoint_url)
    return f"{address.scheme}://{address.hostname}" + (f":{address.port}" if address.port else "")


def _seen(size: int, uploaded: Any) -> Seen:
    return Seen(size, round(uploaded.timestamp() * 1000) * 1_000_000)
