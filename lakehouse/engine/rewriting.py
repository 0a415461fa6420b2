"""Rows taken out of a table's files: tasks write the files that have such rows again, without them."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine.contract import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, file_items, sink_of
from lakehouse.storage.control.lease import MERGE_S, files_of, lease
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import Between, FileFacts, file_facts
from lakehouse.storage.tables.table_reads import pieces_of
from lakehouse.storage.tables.tables_place import place_at

# What a file is replaced by: one entry, or none with a path of null.
_REPLACED = ENTRIES.append(pa.field("replaced", pa.string()))
# Makes of rows those that take their place; it can be pickled.
Instead = Callable[[pa.Table], pa.Table]


class Gone(Protocol):
    """Says which rows go; it can be pickled."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns that it looks at."""

    def __call__(self, rows: pa.Table) -> pa.Array:
        """Return for each row whether it goes; null is no."""


@dataclass(frozen=True)
class Rewritten:
    """Entries of new parts, and the files that they replace, as the table's log names them: for one commit."""

    entries: pa.Table
    removed: Sequence[str]


def rewrite_without(
    engine: Engine,
    table: Location,
    files: Sequence[FileFacts],
    gone: Gone,
    step: str,
    instead: Instead | None = None,
) -> Rewritten:
    """Write files of a table again, without the rows that go; those without such rows stay.

    ``instead``: makes of rows that go those that take their place, in tasks. Nothing is committed. Cost: one Spark job;
    the columns that ``gone`` looks at of each file, and all of those with such a row; memory of a task: a row group of
    a file.
    """
    sink = sink_of(table)
    kernel = partial(_without, sink=sink, gone=gone, instead=instead)
    own = pa.array([json.dumps(file.partition) for file in files], pa.string())
    items = file_items([file.path for file in files]).append_column("partition", own)
    found = engine.map(items, kernel, _REPLACED, step)
    root = table.absolute()
    removed = [str(place_at(path).relative_to(root)) for path in found["replaced"].to_pylist()]
    return Rewritten(found.filter(pc.is_valid(found["path"])).drop_columns(["replaced"]), removed)


def remove_rows(
    engine: Engine,
    home: Home,
    table: Location,
    gone: Gone,
    between: Between | None,
    step: str,
    writer: tuple[str, int] | None = None,
    goes_whole: Callable[[FileFacts], bool] = lambda _: False,
    may_have: Callable[[FileFacts], bool] = lambda _: True,
    instead: Instead | None = None,
) -> None:
    """Remove the rows that go of those in between, in one version; a merge of the table's files is waited for.

    ``writer``: a name and number, which are noted with the version, also if no row goes; ``instead`` as for
    ``rewrite_without``. Files of which all rows go are not opened, nor those that ``may_have`` none. Cost: as that of
    ``rewrite_without``. Raises LeaseHeld when the merge takes longer than ``MERGE_S``.
    """
    with lease(home, files_of(table), MERGE_S):
        files, whole = list[FileFacts](), list[FileFacts]()
        for file in filter(may_have, file_facts(table, between)):
            (whole if goes_whole(file) else files).append(file)
        found = rewrite_without(engine, table, files, gone, step, instead)
        removed = [*found.removed, *(str(file.path.relative_to(table)) for file in whole)]
        if removed or writer:
            commit_entries(table, found.entries, writer, removed)


def _without(item: Item, sink: TableSink, gone: Gone, instead: Instead | None) -> Iterator[pa.Table]:
    looked_at = pa.schema([field for field in sink.columns if field.name in gone.columns])
    if not any(pc.any(gone(rows)).as_py() for rows in _pieces(item, looked_at)):
        return
    entry = sink.write(part for rows in _pieces(item, sink.columns) for part in _left(rows, gone, instead))
    row = entry.to_pylist()[0] if entry.num_rows else dict.fromkeys(ENTRIES.names)
    yield pa.Table.from_pylist([row | {"replaced": item["path"]}], _REPLACED)


def _left(rows: pa.Table, gone: Gone, instead: Instead | None) -> Iterator[pa.Table]:
    goes = pc.fill_null(gone(rows), False)
    yield rows.filter(pc.invert(goes))
    if instead is not None:
        yield instead(rows.filter(goes))


def _pieces(item: Item, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows of a file, which has no column whose value is the same in all of a partition."""
    partition = json.loads(item["partition"])
    stored = pa.schema([field for field in columns if field.name not in partition])
    for rows in pieces_of(item["path"], stored):
        for name in partition.keys() & {*columns.names}:
            value = pa.scalar(partition[name], pa.string()).cast(columns.field(name).type)
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
        yield rows.select(columns.names)
