"""What a checkpoint of a Delta table's log holds: the actions that everything up to a commit comes to.

A checkpoint never changes, and a publish alone looks at each log several times, so a process keeps what it read of
small ones. Whoever reads actions must not change them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lakehouse.home.damaged import naming
from lakehouse.home.table_files import source

# What is read of a checkpoint, by kind of action.
_COLUMNS = {
    "metaData": ("metaData.id", "metaData.configuration"),
    "add": ("add.path", "add.size", "add.stats", "add.partitionValues"),
}
# A few thousand files; what is larger is read again, so that memory stays small.
_KEPT_BYTES = 1_000_000
Action = dict[str, Any]


def actions(checkpoint: Path, kind: str) -> Sequence[Action]:
    """Return the actions of a kind; each is an object with that kind alone."""
    found = checkpoint.stat()
    if found.st_size > _KEPT_BYTES:
        return list(_read(checkpoint, kind))
    return _kept(checkpoint, kind, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=256)
def _kept(checkpoint: Path, kind: str, file: tuple[int, int, int]) -> Sequence[Action]:
    # A table may be made again under its name: then its file is another.
    del file
    return tuple(_read(checkpoint, kind))


def _read(checkpoint: Path, kind: str) -> Iterator[Action]:
    from pyarrow import compute, parquet

    with naming(checkpoint), parquet.ParquetFile(source(checkpoint)) as file:
        column = file.read(columns=list(_COLUMNS[kind]))[kind]
    # A row has an action of one kind; files that are gone may be many times those that are there.
    for action in column.filter(compute.is_valid(column)).to_pylist():
        yield {kind: action}
