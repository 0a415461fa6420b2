"""Parts of a table: tasks write them into its folder, the driver commits them once.

    driver   sink = sink_of(table)                          one look at the table's log
    tasks        sink.write(rows) -> entries                a Parquet file of a new name, and one row about it
    driver   commit_entries(table, entries, (writer, n))    one commit, once for each writer and number

Nobody sees a part before the commit. Those of attempts that died, or that ran beside another one, are in no entry: a
vacuum deletes them.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import (
    GROUP_ROWS,
    DataFile,
    add_columns,
    arrow_schema,
    as_json,
    commit,
    committed,
    data_file,
    known_as,
    statistics_columns,
    write_share,
)
from lakehouse.storage.tables.tables_place import place_at

# One row for each part; the path as an address, statistics and values of partition columns as JSON.
ENTRIES = pa.schema(
    {
        "path": pa.string(),
        "rows": pa.int64(),
        "size": pa.int64(),
        "statistics": pa.string(),
        "partition": pa.string(),
    }
)
_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class TableSink:
    """Writes parts of one table from wherever kernels run; ``table``: its address."""

    table: str
    columns: pa.Schema
    statistics: frozenset[str]
    partition: tuple[str, ...] = ()

    def write(
        self, rows: pa.Table | Iterable[pa.Table], prefix: str = "", group_rows: int = GROUP_ROWS
    ) -> pa.Table:
        """Write rows to a part of a new name, or one for each value of partition columns; return their entries.

        Columns that the rows lack are null. ``rows`` may come piece by piece. Without rows there is no part. ``prefix``
        begins the name of the part, whose row groups have about ``group_rows``. Memory: a row group, or all rows where
        the table has partition columns.
        """
        pieces = [rows] if isinstance(rows, pa.Table) else rows
        if self.partition:
            parts = (self._written([own], group_rows, *at) for own, at in self._split(pieces))
            return pa.concat_tables([ENTRIES.empty_table(), *parts])
        return self._written(pieces, group_rows, f"{prefix}{uuid.uuid4().hex}.parquet")

    def _split(self, pieces: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, tuple[str, ...]]]:
        """Yield the rows of each value of the partition columns, and where they go."""
        rows, folder = pa.concat_tables(pieces), uuid.uuid4().hex
        for values in rows.select(self.partition).group_by(list(self.partition)).aggregate([]).to_pylist():
            own = rows
            for name, value in values.items():
                own = own.filter(pc.is_null(own[name]) if value is None else pc.equal(own[name], value))
            named = (
                f"{name}={_NO_PARTITION if value is None else quote(str(value), safe='')}"
                for name, value in values.items()
            )
            yield own.drop_columns(list(self.partition)), (folder, *named, "part.parquet")

    def _written(self, pieces: Iterable[pa.Table], group_rows: int, *at: str) -> pa.Table:
        filled = (piece for piece in pieces if piece.num_rows)
        first = next(filled, None)
        if first is None:
            return ENTRIES.empty_table()
        table = place_at(self.table)
        path = table / "/".join(at)
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = pa.schema([field for field in self.columns if field.name not in self.partition])
        write_share(chain([first], filled), path, columns, group_rows)
        crash_point("task.part-written")
        found = data_file(table, path, self.statistics)
        told = (json.dumps(dict(each)) for each in (found.statistics, found.partition))
        row = dict(zip(ENTRIES.names, (str(path), found.rows, found.size, *told), strict=True))
        return pa.Table.from_pylist([row], ENTRIES)


def sink_of(table: Location, more: pa.Schema | None = None) -> TableSink:
    """Return what tasks write parts of a table with; ``more``: columns that it gains where it lacks them."""
    with opened(table) as known:
        columns = arrow_schema(known)
        lacking = [field for field in more or () if field.name not in columns.names]
        sink = TableSink(
            str(table.absolute()),
            pa.schema([*columns, *lacking]),
            frozenset(statistics_columns(known)),
            tuple(known.metadata().partition_columns),
        )
    if lacking:
        add_columns(table, as_json(pa.schema(lacking)))
    return sink


def file_items(paths: Iterable[Location]) -> pa.Table:
    """Return files as items of an engine, whose ``path`` is an address for ``place_at``."""
    return pa.table({"path": pa.array([str(path.absolute()) for path in paths], pa.string())})


def commit_entries(
    table: Location,
    entries: pa.Table,
    writer: tuple[str, int] | None = None,
    removed: Iterable[str] = (),
    is_change: bool = True,
) -> list[Location] | None:
    """Commit parts to their table, and remove files as its log names them, in one version; return the parts' paths.

    ``writer``: its name, a job and stream, and a number, which only grows: where it has committed this number or a
    later one, nothing is committed, and None returned. ``is_change`` is false if rows only move to other files.
    Raises deltalake.exceptions.CommitFailedError if another writer has removed one of the files; LeaseLost if another
    process has taken the lease meanwhile.
    """
    own = (known_as(writer[0]), writer[1]) if writer else None
    added = data_files_of(entries, table)
    with opened(table) as known:
        if own and committed(known, own[0]) >= own[1]:
            return None
        commit(known, table, added, removed, own, is_change)
    return [each.path for each in added]


def data_files_of(entries: pa.Table, table: Location) -> list[DataFile]:
    """Return what a commit says of parts."""
    return [
        DataFile(
            table / place_at(row["path"]).relative_to(table.absolute()),
            *(row["rows"], row["size"], json.loads(row["statistics"]), json.loads(row["partition"])),
        )
        for row in entries.to_pylist()
    ]


# Entries of parts, each with the number of the sink that wrote it.
SUNK = pa.schema([("sink", pa.int32()), *ENTRIES])
# A task writes the rows that it holds once they are as large as this.
MOST_BYTES = 256 << 20


class Parts:
    """Rows for some sinks, which are held until there are enough for a part."""

    def __init__(self, sinks: Sequence[TableSink]) -> None:
        self._sinks = sinks
        self._held: list[list[pa.Table]] = [[] for _ in sinks]
        self._bytes, self._entries = 0, [SUNK.empty_table()]

    def add(self, sink: int, rows: pa.Table) -> None:
        """Add rows for the sink of this number."""
        self._held[sink].append(rows)
        self._bytes += rows.nbytes
        if self._bytes > MOST_BYTES:
            self._write()

    def entries(self) -> pa.Table:
        """Write what is held; return the entries of all parts."""
        self._write()
        return pa.concat_tables(self._entries)

    def _write(self) -> None:
        for number, (sink, held) in enumerate(zip(self._sinks, self._held, strict=True)):
            entries = sink.write(held)
            numbers = pa.repeat(pa.scalar(number, pa.int32()), len(entries))
            self._entries.append(entries.add_column(0, "sink", numbers).cast(SUNK))
            held.clear()
        self._bytes = 0


def entries_by_sink(found: pa.Table, sinks: int) -> list[pa.Table]:
    """Return the entries that each of some sinks has among rows with other columns."""
    return [found.filter(pc.equal(found["sink"], number)).select(ENTRIES.names) for number in range(sinks)]
