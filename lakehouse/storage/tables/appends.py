"""Appends to a Delta table: the files of some commits, read from its log without an engine.

Merging small files moves rows and adds none, so a file that was appended is read as it was, while it is there.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import added_files, commit_actions, commit_at, newest_version


def appended_since(table: Location, version: int, newest: int | None = None) -> list[Location] | None:
    """Return the files that commits after one appended, oldest first, whether or not they have been merged since.

    ``newest``: the last commit that counts, by default that of the table. None where the log does not tell them any
    more, one is gone, or rows were removed. Cost: the commits since.
    """
    found: list[Location] = []
    newest = newest_version(table) if newest is None else newest
    if newest is None or newest < version:
        return None
    while version < newest:
        version += 1
        actions = _changes(table, version)
        if actions is None or any("remove" in action for action in actions):
            return None
        found += added_files(table, actions)
    return found if all(path.exists() for path in found) else None


def before_appended(table: Location, files: Sequence[Location]) -> int | None:
    """Return the last commit before all that appended these files; the newest for none.

    None where not each of them was appended by a commit that the log still has. Cost: the commits since.
    """
    version, left = newest_version(table), set(files)
    while left:
        actions = None if version is None else _changes(table, version)
        if version is None or actions is None:
            return None
        left -= set(added_files(table, actions))
        version -= 1
    return version


def _changes(table: Location, version: int) -> list[dict[str, Any]] | None:
    """Return what a commit adds and removes, but where it moves rows to other files; None where the log lacks it."""
    with suppress(FileNotFoundError):
        actions = commit_actions(commit_at(table, version))
        files = [action for action in actions if "add" in action or "remove" in action]
        return [action for action in files if next(iter(action.values())).get("dataChange", True)]
    return None
