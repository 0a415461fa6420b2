"""The commits of a table's log, as files of its folder or objects of a store: listed, or followed one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakehouse.home.tables_place import is_on_store


def commits_of(table: Path) -> list[Path]:
    """Return the commits that the table's log still holds, oldest first, none where there is no table: a listing."""
    return sorted(path for path in (table / "_delta_log").glob("*.json") if path.stem.isdigit())


def commit_at(table: Path, version: int) -> Path:
    """Return where a commit is, if it is there."""
    return table / "_delta_log" / f"{version:020d}.json"


def commits_after(table: Path, version: int) -> Iterator[Path]:
    """Yield the commits after one. Cost: a look for each, on a store a listing from there on."""
    if is_on_store(table):
        from lakehouse.home.store_path import entries_after

        yield from entries_after(table / "_delta_log", version)
        return
    while (commit := commit_at(table, version + 1)).exists():
        yield commit
        version += 1
