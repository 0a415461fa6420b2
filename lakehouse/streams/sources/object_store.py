"""Landed files on S3, or on what speaks its protocol: listed, looked at, opened, deleted.

Credentials and errors are those of ``lakehouse.home.store_client``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lakehouse.declare.store_address import SCHEME, address_of, fixed_part
from lakehouse.home.store_client import StoreUnavailable, answers, client
from lakehouse.streams.sources.key_pattern import key_filter
from lakehouse.streams.sources.manifest import Seen

# Enough for a header; a whole file is read in larger pieces, a request each.
HEAD_BYTES = 64 * 1024
# The most that a store tells at once.
_PAGE_KEYS = 1000
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


def delete(url: str, endpoint: str | None) -> None:
    """Delete an object."""
    bucket, key = address_of(url)
    with answers(url, endpoint):
        client(endpoint).delete_object(Bucket=bucket, Key=key)


def _seen(size: int, uploaded: Any) -> Seen:
    return Seen(size, round(uploaded.timestamp() * 1000) * 1_000_000)
