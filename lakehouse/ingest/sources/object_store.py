"""Landed files on an object store: listed, looked at, deleted; errors are those of its client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BufferedReader

from lakehouse.config.store_address import address_of, fixed_part
from lakehouse.ingest.sources.key_pattern import key_filter
from lakehouse.ingest.sources.manifest import Seen
from lakehouse.storage.stores.store_by_scheme import objects_of
from lakehouse.storage.stores.store_client import StoreUnavailable
from lakehouse.storage.stores.store_objects import Head
from lakehouse.storage.stores.store_pieces import tag_of

# Enough for a header; a whole file is read in larger pieces, a request each.
HEAD_BYTES = 64 * 1024
# The most that a store tells at once.
_PAGE_KEYS = 1000
_OF_CONTENT = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
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
    place = address_of(url)
    is_named = key_filter(place.key)
    begins = place._replace(key=fixed_part(place.key))
    for key, head in objects_of(place, endpoint).listed(begins, after, _PAGE_KEYS):
        # Lines carry names joined by this character.
        if is_named(key) and "\0" not in key:
            yield f"{place.root}/{key}", _seen(head)


def seen(url: str, endpoint: str | None) -> Seen:
    """Return what is known of one object.

    Raises:
        FileNotFoundError: when it is gone.
        StoreUnavailable, ObjectUnread: as of reading it.
    """
    place = address_of(url)
    return _seen(objects_of(place, endpoint).head(place))


def is_same(file: BufferedReader, known: Seen) -> bool:
    """True if an open object is the one that was listed; an empty one has no piece that tells its tag."""
    return _plain(tag_of(file)) == (known.version if known.size else "")


def delete(url: str, endpoint: str | None) -> None:
    """Delete an object."""
    place = address_of(url)
    objects_of(place, endpoint).delete(place)


def _seen(head: Head) -> Seen:
    return Seen(head.size, head.uploaded_ns, _digest(head.tag), _plain(head.tag))


def _plain(tag: str) -> str:
    """Return a tag without the quotes that stores have around it in some answers."""
    return tag.strip('"')


def _digest(tag: str) -> str:
    """Return a tag that is made of the content, as an MD5 of it or of its parts is; none of others."""
    found = _plain(tag)
    return found if _OF_CONTENT.fullmatch(found) else ""
