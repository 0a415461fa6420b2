"""Rows taken out of a table's files: tasks write the files that have such rows again, without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine.parts import ENTRIES, TableSink, file_items, sink_of
from lakehouse.home.table_reads import pieces_of
from lakehouse.home.tables_place import place_at

if TYPE_CHECKING:
    from lakehouse.engine.contract import Engine, Item

_PIECE = 200_000
# What a file is replaced by: one entry, or none with a path of null.
_REPLACED = ENTRIES.append(pa.field("replaced", pa.string()))


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


def rewrite_without(engine: Engine, table: Path, files: Sequence[Path], gone: Gone, step: str) -> Rewritten:
    """Write files of a table without partitions again, without the rows that go; those without such rows stay.

    Nothing is committed. Cost: one Spark job; the columns that ``gone`` looks at of each file, and all of those with
    such a row; memory of a task: a row group of a file.
    """
    sink = sink_of(table)
    kernel = partial(_without, sink=sink, gone=gone)
    found = engine.map(file_items(files), kernel, _REPLACED, step)
    root = table.absolute()
    removed = [str(place_at(path).relative_to(root)) for path in found["replaced"].to_pylist()]
    return Rewritten(found.filter(pc.is_valid(found["path"])).drop_columns(["replaced"]), removed)


def _without(item: Item, sink: TableSink, gone: Gone) -> Iterator[pa.Table]:
    path = place_at(item["path"])
    looked_at = pa.schema([field for field in sink.columns if field.name in gone.columns])
    if not any(pc.any(gone(rows)).as_py() for rows in pieces_of(path, looked_at, _PIECE)):
        return
    kept = (
        rows.filter(pc.invert(pc.fill_null(gone(rows), False)))
        for rows in pieces_of(path, sink.columns, _PIECE)
    )
    entry = sink.write(kept)
    row = entry.to_pylist()[0] if entry.num_rows else dict.fromkeys(ENTRIES.names)
    yield pa.Table.from_pylist([row | {"replaced": item["path"]}], _REPLACED)
