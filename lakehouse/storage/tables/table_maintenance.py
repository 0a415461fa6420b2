"""Housekeeping of Delta tables: merging small files, deleting files that no version in reach uses, a log that ends.

Files that a version of a table's history uses, of the last week if nobody says otherwise, stay, so a reader that began
before a merge is not broken. Log entries stay as long (time travel), but no more than ``MOST_COMMITS``: whoever opens a
table or commits to it lists its log, so an entry too many is paid for by every commit. No engine is started for any of
it.
"""

import shutil
import time
from bisect import bisect_left

from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.table_commits import open_table
from lakehouse.storage.tables.table_log import commits_of, newest_version, read_log

SMALL_FILES = 16
# Larger files are left alone: a merge then costs what came in since, not what a table holds.
SMALL_BYTES = 64 * 1024 * 1024
# A service makes that many in some hours; listing them takes a few milliseconds.
MOST_COMMITS = 2_000
# Whoever opens a table reads fewer commits than this; of a log that is cut, so many stay at most before the history.
CHECKPOINTED_AFTER = 10
# How long old versions can be read where nobody says; a table is told what counts when it is maintained.
HISTORY_US = 7 * 24 * 3600 * 1_000_000


def kept(history_us: int = HISTORY_US) -> dict[str, str]:
    """Return the properties of a table by which old versions can be read for so long, and its log remembers them."""
    interval = f"interval {history_us // 1_000_000} seconds"
    return {
        "delta.logRetentionDuration": interval,
        "delta.deletedFileRetentionDuration": interval,
        "delta.checkpointInterval": str(CHECKPOINTED_AFTER),
    }


def compact_and_vacuum(table: Location, history_us: int = HISTORY_US) -> dict[str, int]:
    """Merge small files, delete unused ones and bound the log; contents stay the same.

    ``history_us``: how far back versions can be read.

    Returns:
        How many files were merged and deleted, and how many files and log entries there are now.
    """
    merged = merge_small_files(table)
    return {"files_merged": merged, **clear(table, history_us), **left(table)}


def clear(table: Location, history_us: int = HISTORY_US) -> dict[str, int]:
    """Delete files that no version in reach uses, and bound the log; return how many files were deleted."""
    _set_history(table, history_us)
    _expire(table, history_us)
    return {"files_deleted": vacuum(table, history_us)}


def left(table: Location) -> dict[str, int]:
    """Return how many files and log entries a table has."""
    facts = read_log(table)
    return {"files": len(facts.files), "log_entries": len(commits_of(table))} if facts else {}


def merge_small_files(table: Location) -> int:
    """Merge files when there are many small ones; return how many were merged.

    Rows may be appended meanwhile; whoever deletes some must wait, or loses against it.
    """
    facts = read_log(table)
    if facts is None or sum(size < SMALL_BYTES for size in facts.files.values()) < SMALL_FILES:
        return 0
    # One core: jobs go on beside a merge.
    merged = open_table(table).optimize.compact(target_size=SMALL_BYTES, max_concurrent_tasks=1)
    return int(merged["numFilesRemoved"])


def vacuum(table: Location, history_us: int) -> int:
    """Delete data files that no version of the table's history uses; return how many there were."""
    if newest_version(table) is None:
        return 0
    known = open_table(table)
    # A run that deletes is two entries of the log, so it is only begun when there is something to delete.
    unused = known.vacuum(dry_run=True, full=True)
    if unused:
        known.vacuum(dry_run=False, full=True)
    _remove_folders(table, time.time() - history_us / 1e6)
    return len(unused)


def remove_table(home: Home, table: Location) -> None:
    """Delete a table, and what the home has at its place. Cost: on a store a request for each file."""
    if isinstance(table, StorePath):
        for path in list(table.rglob("*")):
            path.unlink()
    if home.folder_of(table).exists():
        shutil.rmtree(home.folder_of(table))


def _remove_folders(table: Location, oldest: float) -> None:
    """Remove the folders of writers of which no file is left."""
    if isinstance(table, StorePath):
        return
    for folder in table.iterdir():
        is_writers = folder.is_dir() and not folder.name.startswith("_") and "=" not in folder.name
        if is_writers and folder.stat().st_mtime < oldest and not any(folder.rglob("*.parquet")):
            shutil.rmtree(folder)


def _expire(table: Location, history_us: int) -> None:
    """Delete the log entries that no version in reach needs, the oldest first, and what dead writers left among them.

    Those of the last checkpoint from which each version in reach can be made stay. Cost: a listing, and a look at a few
    of the entries.
    """
    commits, oldest_s = commits_of(table), time.time() - history_us / 1e6
    young = bisect_left(commits, oldest_s, key=lambda commit: commit.stat().st_mtime)
    first = max(young - 1, len(commits) - MOST_COMMITS)
    if first <= 0:
        return
    entries = sorted(path for path in (table / "_delta_log").iterdir() if path.name[:20].isdigit())
    checkpoints = (_version(path) for path in entries if path.name.endswith(".checkpoint.parquet"))
    needed = max((each for each in checkpoints if each <= _version(commits[first])), default=0)
    for path in entries:
        if _version(path) < needed:
            path.unlink(missing_ok=True)


def _version(entry: Location) -> int:
    return int(entry.name[:20])


def _set_history(table: Location, history_us: int) -> None:
    facts, properties = read_log(table), kept(history_us)
    if facts is not None and any(facts.properties.get(name) != value for name, value in properties.items()):
        open_table(table).alter.set_table_properties(properties)
