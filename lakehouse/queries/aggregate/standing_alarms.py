"""Alarms as they stand: the newest change of each that is raised, or was cleared lately, which a batch goes on from.

    alarms/<query>/_standing.parquet    rows of the table; the commit up to which they count; from when they are whole

A table of alarms has every change, so reading it takes longer with each batch. Here changes that were committed since
the file was written take the place of older ones. The file follows from the table alone: where it is missing, cannot
be read, is of another table or does not reach back far enough, all changes are read and it is made again. Cost: alarms
that are raised or were cleared lately, and the changes since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.home.appends import appended_since
from lakehouse.home.atomic_files import replacing
from lakehouse.home.table_commits import arrow_schema, fitted, open_table
from lakehouse.home.table_files import source
from lakehouse.home.table_log import most_rows, newest_version, table_id
from lakehouse.home.tables_place import in_home
from lakehouse.queries.aggregate.answers import coded
from lakehouse.queries.runtime.bucket_answers import fit_here
from lakehouse.spark import tables

if TYPE_CHECKING:
    from pathlib import Path

# Delta passes over names that begin like this.
_FILE = "_standing.parquet"


@dataclass(frozen=True)
class _Kept:
    """Alarms after some commit of a table: all that were raised then, or cleared at ``since_us`` or later."""

    table: str
    version: int
    since_us: int
    rows: pa.Table

    @classmethod
    def read(cls, alarms: Path) -> Self | None:
        try:
            rows = pq.read_table(in_home(alarms) / _FILE, partitioning=None)
        except (FileNotFoundError, pa.ArrowInvalid):
            return None
        table, version, since_us = rows.schema.metadata[b"follows"].decode().split()
        return cls(table, int(version), int(since_us), rows.replace_schema_metadata())

    def write(self, alarms: Path) -> None:
        follows = f"{self.table} {self.version} {self.since_us}"
        with replacing(in_home(alarms) / _FILE, durable=True) as file:
            pq.write_table(self.rows.replace_schema_metadata({"follows": follows}), file)


def standing_alarms(alarms: Path, from_us: int, lately_us: int) -> pa.Table | None:
    """Return the newest change of each alarm that is raised, or was cleared at ``from_us`` or later.

    ``lately_us``: batches to come will hardly ask for alarms that were cleared before. None where so many changes are
    to be read that Spark shall do it.
    """
    # Before its files are read: what is committed meanwhile is read again.
    version, table = newest_version(alarms), table_id(alarms)
    assert version is not None and table is not None
    kept, came = _Kept.read(alarms), None
    if kept is not None and kept.table == table and kept.since_us <= from_us:
        came = appended_since(alarms, kept.version)
    lately_us = min(from_us, lately_us)
    if kept is None or came is None:
        if not fit_here(most_rows(alarms)):
            return None
        kept, rows = None, tables.read_between(alarms)
    else:
        columns = arrow_schema(open_table(alarms))
        parts = (fitted(pq.read_table(source(path), partitioning=None), columns) for path in came)
        rows = pa.concat_tables([fitted(kept.rows, columns), *parts])
        lately_us = max(kept.since_us, lately_us)
    standing = near(rows, lately_us)
    if kept is None or kept.version != version:
        _Kept(table, version, lately_us, standing).write(alarms)
    return near(standing, from_us)


def near(changes: pa.Table, from_us: int) -> pa.Table:
    """Return the newest change of each alarm that is raised, or was cleared at some time or later."""
    cleared_us = pc.field("cleared_us")
    is_near = cleared_us.is_null() | (cleared_us >= from_us)
    return newest(changes, ["alarm"], "change").filter((pc.field("state") != "withdrawn") & is_near)


def newest(rows: pa.Table, keys: list[str], version: str) -> pa.Table:
    """Return the row of the highest version for each key."""
    codes = coded(rows, keys)
    order = np.lexsort((rows[version].to_numpy(), codes))
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = codes[order][1:] != codes[order][:-1]
    return rows.take(pa.array(order[is_last]))
