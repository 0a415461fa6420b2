"""Checkpoint of a Delta table's log: the actions that everything up to a commit comes to.

A checkpoint never changes, and a publish alone looks at each log several times, so a process keeps what it read of
small ones, of a few thousand files. Whoever reads actions must not change them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from lakehouse.storage.atomic_files import read_once
from lakehouse.storage.damaged import naming
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_files import source

# What is read of a checkpoint, by kind of action.
_COLUMNS = {
    "metaData": ("metaData.id", "metaData.configuration"),
    "add": ("add.path", "add.size", "add.stats", "add.partitionValues"),
}
Action = dict[str, Any]


@read_once(256, most_bytes=1_000_000)
def actions(checkpoint: Location, kind: str) -> Sequence[Action]:
    """Return the actions of a kind; each is an object with that kind alone."""
    return tuple(_read(checkpoint, kind))


def _read(checkpoint: Location, kind: str) -> Iterator[Action]:
    from pyarrow import compute, parquet

    with naming(checkpoint), parquet.ParquetFile(source(checkpoint)) as file:
        column = file.read(columns=list(_COLUMNS[kind]))[kind]
    # A row has an action of one kind; files that are gone may be many times those that are there.
    for action in column.filter(compute.is_valid(column)).to_pylist():
        yield {kind: action}
