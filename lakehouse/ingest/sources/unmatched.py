"""Paths of a source that lead to no file: what their folder holds instead, and folders that cannot be listed."""

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from lakehouse.config.landing import landing_folder
from lakehouse.config.store_address import address_of, is_remote
from lakehouse.config.stream import Source
from lakehouse.storage.stores.store_objects import listed

_EXAMPLES = 3
_MOST = 1000
CANNOT = "cannot be listed"


def no_match(source: Source) -> str:
    """Return a sentence that says that no file matches, and what the folder, or the nearest one that is there, holds.

    Raises StoreUnavailable when files are on a store that does not answer, or refuses.
    """
    begin = f"no file matches {source.path}; "
    if is_remote(source.path):
        return begin + _of_store(source)
    wanted = Path(landing_folder(source.path))
    folder = next(path for path in (wanted, *wanted.parents) if path.is_dir())
    missing = "" if folder == wanted else f"there is no folder {wanted}; "
    try:
        with os.scandir(folder) as entries:
            names = [each.name + ("/" if each.is_dir() else "") for each in islice(entries, _MOST)]
    except OSError as error:
        return f"{begin}{missing}{folder} cannot be listed: {error.strerror}"
    return f"{begin}{missing}{'the folder' if folder == wanted else folder} holds {_some(names)}"


def _of_store(source: Source) -> str:
    folder = address_of(landing_folder(source.path), source.endpoint)
    found = listed(folder)
    names = [key.removeprefix(folder.key) for key, _ in islice(found, _MOST)]
    return f"{folder.url} holds {_some(names)}"


def _some(names: list[str]) -> str:
    """Return how many names there are, with the first of them."""
    if not names:
        return "nothing"
    count = f"{_MOST:,} or more" if len(names) >= _MOST else f"{len(names):,}"
    return (
        f"{count} {'entry' if len(names) == 1 else 'entries'}, such as {', '.join(sorted(names)[:_EXAMPLES])}"
    )


def unlisted(source: Source) -> Iterator[str]:
    """Yield a sentence for each folder of this machine that cannot be listed; a store says so itself.

    Cost: a look at each folder that the pattern leads through; only those above its last part are read.
    """
    if is_remote(source.path):
        return
    top = landing_folder(source.path)
    waiting = [(top, os.path.abspath(source.path).removeprefix(top).split("/")[:-1])]
    while waiting:
        folder, parts = waiting.pop()
        try:
            names = _leading_on(folder, parts)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield f"{folder.rstrip('/')} {CANNOT}: {error.strerror}; none of its files is read"
            continue
        rest = parts if parts[:1] == ["**"] else parts[1:]
        waiting += [(os.path.join(folder, name), rest) for name in sorted(names, reverse=True)]


def _leading_on(folder: str, parts: list[str]) -> list[str]:
    """Return the names of the folders in a folder that the next part of a pattern matches."""
    with os.scandir(folder) as entries:
        # Names alone are of no use: without this right no file in it can be looked at.
        os.stat(os.path.join(folder, "."))
        if not parts:
            return []
        return [each.name for each in entries if _is_named(each.name, parts[0]) and _is_folder(each)]


def _is_named(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()
