"""Tables that a process keeps open: when it opens one again, it reads only the commits since.

To open a table is to read its last checkpoint, which grows with the files that the history keeps, and the commits since
then. A process that commits batch after batch would do that several times for each batch. The caller has a kept table
alone until the block ends, so another thread cannot move it to a later version under a commit that is being prepared.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.storage.control.seal import require_leases
from lakehouse.storage.stores.store_path import Location, StorePath
from lakehouse.storage.tables.table_log import commit_at
from lakehouse.storage.tables.tables_place import delta_table

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MOST = 100
# Copies of what logs say of the files in use, each checked against its log when it is asked for.
_KEPT: dict[Path, _Kept] = {}


@dataclass(frozen=True)
class _Kept:
    known: DeltaTable
    log: int
    commit: tuple[int, int]


def open_table(table: Location) -> DeltaTable:
    """Return the newest version of a table, provided that this process still has the leases that it took.

    Raises deltalake.exceptions.TableNotFoundError if there is none. Raises LeaseLost if it lost them; the base of a
    commit is read before this check (seal.py).
    """
    known = delta_table(table)
    require_leases()
    return known


@contextmanager
def opened(table: Location) -> Iterator[DeltaTable]:
    """Yield the newest version of a table, as ``open_table`` returns it; it may not be used after the block.

    A table that was deleted and created again is opened anew: the folder of its log, or the file of the commit last
    seen, is then another one. Tables on a store are opened anew each time. Cost: a listing of the log, and the commits
    since this process last had the table. Raises deltalake.exceptions.TableNotFoundError or LeaseLost as
    ``open_table``.
    """
    if isinstance(table, StorePath):
        yield open_table(table)
        return
    place = table.absolute()
    log, kept = _log_of(place), _KEPT.pop(place, None)
    if kept and kept.log == log and kept.commit == _commit_of(place, kept.known.version()):
        known = kept.known
        known.update_incremental()
        require_leases()
    else:
        known = open_table(table)
    yield known
    _keep(place, known, log)


def _keep(place: Path, known: DeltaTable, log: int | None) -> None:
    """Keep a table for the next caller; ``log``: of before it was opened, since the table may be another one by now."""
    commit = _commit_of(place, known.version())
    if log is None or commit is None:
        return
    while len(_KEPT) >= _MOST:
        # Another thread may have taken it.
        with suppress(KeyError, RuntimeError, StopIteration):
            del _KEPT[next(iter(_KEPT))]
    _KEPT[place] = _Kept(known, log, commit)


def _log_of(place: Path) -> int | None:
    """Return the inode of the folder of a table's log, None if there is none."""
    with suppress(FileNotFoundError):
        return (place / "_delta_log").stat().st_ino
    return None


def _commit_of(place: Path, version: int) -> tuple[int, int] | None:
    """Return the inode and the time of a commit's file, None if there is none."""
    with suppress(FileNotFoundError):
        found = commit_at(place, version).stat()
        return found.st_ino, found.st_mtime_ns
    return None
