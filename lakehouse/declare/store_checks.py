"""Landing places on an object store: what is wrong with a URL that names none."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from lakehouse.declare.problems import Problem
from lakehouse.declare.store_address import SCHEMES, SUCH_AS, address_of, is_bucket, is_url
from lakehouse.declare.stream import Source, Stream

_ALONE = ("endpoint", "key_order", "full_listing")


def store_problems(stream: Stream) -> Iterator[Problem]:
    """Yield what is wrong with a landing place on an object store; nothing of a URL with a secret in it is told."""
    source = stream.source
    if not is_url(source.path):
        for key in sorted(source.model_fields_set & set(_ALONE)):
            yield Problem(f"source.{key}", f"path {source.path!r}", "a path on a store, to which it belongs")
        return
    place = address_of(source.path)
    such_as = f'one such as "{SUCH_AS.get(place.scheme, SUCH_AS["s3"])}/prefix/*.csv"'
    is_known = place.scheme in SCHEMES
    if "@" in place.bucket and not (place.scheme == "abfss" and is_bucket("abfss", place.bucket)):
        expected = f"{such_as}; credentials come from the environment, a profile or the machine's role"
        yield Problem("source.path", "a user name or password in it", expected)
    elif not is_known:
        yield Problem("source.path", repr(f"{place.scheme}://"), such_as)
    elif not is_bucket(place.scheme, place.bucket):
        expected = f"a bucket's name without a pattern: {such_as}"
        yield Problem("source.path", f"the bucket {place.bucket!r}", expected)
    elif source.kind != "files":
        expected = "a folder of this machine, into which it is landed first"
        yield Problem("source.path", f"a store with kind {source.kind!r}", expected)
    elif source.endpoint is not None and place.scheme != "s3":
        yield Problem(
            "source.endpoint", f"a path on {place.scheme}://", "a path on s3://, to which it belongs"
        )
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
