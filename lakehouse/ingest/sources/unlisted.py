"""Folders that a source's pattern leads through and that cannot be listed: nobody would miss their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase

from lakehouse.config.landing import landing_folder
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Source

CANNOT = "cannot be listed"


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
