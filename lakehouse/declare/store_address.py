"""Landing places on an object store: what a URL of one names, and what is wrong with one that names none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from glob import has_magic
from typing import NamedTuple
from urllib.parse import urlsplit

from lakehouse.declare.problems import Problem
from lakehouse.declare.stream import Source, Stream

SCHEME = "s3://"
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
_SUCH_AS = 'one such as "s3://bucket/prefix/*.csv"'
_ALONE = ("endpoint", "key_order", "full_listing")


class Address(NamedTuple):
    """An object's bucket and key, or a pattern of keys."""

    bucket: str
    key: str


def is_remote(path: str) -> bool:
    """Whether a landed file, or a pattern of some, is on an object store."""
    return path.startswith(SCHEME)


def is_url(path: str) -> bool:
    """Whether this is a URL of any kind, so no path of a file system."""
    return bool(_URL.match(path))


def address_of(url: str) -> Address:
    """Return what a URL names; the key may hold any character, ``?`` and ``#`` among them."""
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    return Address(bucket, key)


def store_problems(stream: Stream) -> Iterator[Problem]:
    """Yield what is wrong with a landing place on an object store; nothing of a URL with a secret in it is told."""
    source = stream.source
    if not is_url(source.path):
        for key in sorted(source.model_fields_set & set(_ALONE)):
            yield Problem(f"source.{key}", f"path {source.path!r}", "a path on a store, to which it belongs")
        return
    bucket = address_of(source.path).bucket
    if "@" in source.path.split("://")[1].partition("/")[0]:
        expected = f"{_SUCH_AS}; credentials come from the environment, a profile or the machine's role"
        yield Problem("source.path", "a user name or password in it", expected)
    elif not is_remote(source.path):
        yield Problem("source.path", repr(source.path.partition("://")[0] + "://"), _SUCH_AS)
    elif not _BUCKET.match(bucket):
        yield Problem(
            "source.path", f"the bucket {bucket!r}", f"a bucket's name without a pattern: {_SUCH_AS}"
        )
    elif source.kind != "files":
        expected = "a folder of this machine, into which it is landed first"
        yield Problem("source.path", f"a store with kind {source.kind!r}", expected)
    if "follow_links" in source.model_fields_set:
        yield Problem("source.follow_links", "a path on a store", "a folder: a store has no links")
    if "full_listing" in source.model_fields_set and source.key_order != "time":
        yield Problem("source.full_listing", "no key_order", 'key_order = "time", to which it belongs')
    yield from _endpoint(source)


def _endpoint(source: Source) -> Iterator[Problem]:
    if source.endpoint is None:
        return
    expected = '"https://HOST:PORT"'
    try:
        address = urlsplit(source.endpoint)
        is_right = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        is_right = False
    if not is_right or address.path.strip("/") or address.query or address.fragment:
        yield Problem("source.endpoint", "no such address", expected)
    elif address.username is not None:
        yield Problem("source.endpoint", "a user name or password in it", expected)


def fixed_part(pattern: str) -> str:
    """Return what all keys that match a pattern begin with."""
    return re.split(r"[*?\[]", pattern)[0] if has_magic(pattern) else pattern
