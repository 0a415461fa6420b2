"""Landed files on an object store: listed, looked at, deleted; errors are those of its client.

Patterns of keys mean what they mean for files: ``*``, ``?`` and ``[...]`` stay inside one part of a key between slashes
and pass over names that begin with a dot, ``**`` takes any number of parts. Without a pattern a path is the key itself,
and all below it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from glob import has_magic
from io import BufferedReader

from lakehouse.config.store_address import address_of, fixed_part
from lakehouse.ingest.sources.manifest import Seen
from lakehouse.storage.stores import store_objects
from lakehouse.storage.stores.store_access import StoreUnavailable
from lakehouse.storage.stores.store_files import tag_of
from lakehouse.storage.stores.store_objects import Head

# Enough for a header; a whole file is read in larger pieces, a request each.
HEAD_BYTES = 64 * 1024
_OF_CONTENT = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
_OF_TASK = re.compile(rf"{re.escape(StoreUnavailable.__module__)}\.StoreUnavailable: (.*)")
Part = re.Pattern[str] | str | None
_ANY = None


def unavailable_in(error: Exception) -> StoreUnavailable | None:
    """Return what an error says of a store that does not answer, which a task of Spark may have met; None of others."""
    if isinstance(error, StoreUnavailable):
        return error
    found = _OF_TASK.search(str(error))
    return StoreUnavailable(found[1]) if found else None


def listed(url: str, endpoint: str | None, after: str = "") -> Iterator[tuple[str, Seen]]:
    """Yield the objects that a URL with a pattern names, by key, with the time of their upload.

    ``after``: only keys behind this one. Cost: a request for each 1,000 keys that begin as the pattern does, and one
    for each empty object: consoles mark a folder by one, whose key ends with a slash. Raises StoreUnavailable when
    the store does not answer, has no such bucket, or refuses.
    """
    place = address_of(url, endpoint)
    is_named = key_filter(place.key)
    begins = place._replace(key=fixed_part(place.key))
    for key, head in store_objects.listed(begins, after):
        # Lines carry names joined by this character.
        is_file = is_named(key) and "\0" not in key
        if is_file and (head.size or store_objects.exists(place._replace(key=key))):
            yield f"{place.root}/{key}", _seen(head)


def seen(url: str, endpoint: str | None) -> Seen:
    """Return what is known of one object.

    Raises FileNotFoundError when it is gone; StoreUnavailable or ObjectUnread as of reading it.
    """
    return _seen(store_objects.head(address_of(url, endpoint)))


def is_same(file: BufferedReader, known: Seen) -> bool:
    """True if an open object is the one that was listed; an empty one has no piece that tells its tag."""
    return _plain(tag_of(file)) == (known.version if known.size else "")


def delete(url: str, endpoint: str | None) -> None:
    """Delete an object."""
    store_objects.delete(address_of(url, endpoint))


def _seen(head: Head) -> Seen:
    return Seen(head.size, head.uploaded_ns, _digest(head.tag), _plain(head.tag))


def _plain(tag: str) -> str:
    """Return a tag without the quotes that stores have around it in some answers."""
    return tag.strip('"')


def _digest(tag: str) -> str:
    """Return a tag that is made of the content, as an MD5 of it or of its parts is; none of others."""
    found = _plain(tag)
    return found if _OF_CONTENT.fullmatch(found) else ""


def key_filter(pattern: str) -> Callable[[str], bool]:
    """Return which keys a pattern names; cost of a call: the parts of a key, times those that ``**`` may take."""
    if not has_magic(pattern):
        below = pattern if not pattern or pattern.endswith("/") else f"{pattern}/"
        return lambda key: key == pattern or key.startswith(below)
    parts = [_part(text) for text in pattern.split("/")]
    return lambda key: _matches(key.split("/"), parts)


def _part(text: str) -> Part:
    if text == "**":
        return _ANY
    return re.compile(translate(text)) if has_magic(text) else text


def _matches(names: Sequence[str], parts: Sequence[Part]) -> bool:
    """True if parts take all names, by the parts before each place that could have taken what is before it."""
    reached = {0}
    for part in parts:
        if part is _ANY:
            reached = _with_any(names, reached)
        else:
            reached = {at + 1 for at in reached if at < len(names) and _takes(part, names[at])}
    # Two stars at the end take the name of an object, too.
    return len(names) in reached


def _with_any(names: Sequence[str], reached: set[int]) -> set[int]:
    found = set(reached)
    for at in sorted(reached):
        while at < len(names) and not names[at].startswith(".") and at + 1 not in found:
            at += 1
            found.add(at)
    return found


def _takes(part: Part, name: str) -> bool:
    if isinstance(part, str):
        return part == name
    return part is not None and not name.startswith(".") and part.match(name) is not None
