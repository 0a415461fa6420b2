"""Raw rows -> parts of a rollup: tasks read files of raw, fold their rows into partial nodes and write these.

    map       files of raw --> nodes --> a part of the rollup
    by_key    files of raw --> rows by bucket of their meter --> nodes --> a part of the rollup

Partial nodes need not be whole, since readers combine them: so each task folds its own rows. Nodes that hold counters
depend on the order of their rows, and so the rows of a meter meet in one task first. Partial nodes of a later batch may
still overlap them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine.parts import ENTRIES
from lakehouse.home.open_tables import opened
from lakehouse.home.table_commits import arrow_schema
from lakehouse.home.table_log import FileFacts, file_facts
from lakehouse.home.table_reads import pieces_of
from lakehouse.home.tables_place import place_at
from lakehouse.spark.row_hash import xxhash64
from lakehouse.streams.nodes import NodeFolder, row_columns

if TYPE_CHECKING:
    from lakehouse.declare.stream import Stream
    from lakehouse.engine import Engine, Item
    from lakehouse.engine.parts import TableSink

# A task has files of so many rows, or one of more.
ROWS_A_TASK = 500_000
# Rows take several times their bytes while they are folded.
_PIECE = 500_000
# No column of a stream has "__" in its name.
_METER = pa.field("meter__bucket", pa.int32())
_LEAST, _MOST = -(2**63), 2**63 - 1
_ITEMS = pa.schema(
    {
        "files": pa.list_(pa.string()),
        **dict.fromkeys(("first", "last", "from_us", "to_us"), pa.int64()),
    }
)


@dataclass(frozen=True)
class RawRows:
    """The raw rows of batches ``first`` to ``last`` whose event time is in ``[from_us, to_us)``."""

    first: int
    last: int
    from_us: int = _LEAST
    to_us: int = _MOST

    def may_be_in(self, file: FileFacts) -> bool:
        """True if a file may have such a row, by its statistics."""
        (low, high), (first, last) = (file.bounds[name] for name in ("event_us", "batch"))
        is_of_batches = last is None or first is None or (first <= self.last and last >= self.first)
        return is_of_batches and (low is None or high is None or (low < self.to_us and high >= self.from_us))


@dataclass(frozen=True)
class Building:
    """Building of parts out of rows: the fold, the sink of the parts, the batch that nodes are numbered with.

    ``with_counts``: whether the parts also say how many rows entered at each level.
    """

    folder: NodeFolder
    sink: TableSink
    batch: int
    with_counts: bool = True

    def written(self, nodes: Iterator[pa.Table]) -> pa.Table:
        """Write nodes; return the entry of the part."""
        return self.sink.write(self._numbered(each) for each in nodes)

    def _numbered(self, nodes: pa.Table) -> pa.Table:
        kept = nodes if self.with_counts else nodes.filter(pc.greater(nodes["level"], 0))
        return kept.append_column("batch", pa.repeat(pa.scalar(self.batch, pa.int64()), kept.num_rows))


def write_nodes(
    engine: Engine, raw: Path, chosen: Sequence[RawRows], building: Building, step: str
) -> pa.Table:
    """Write the partial nodes of raw rows as parts of the rollup; return their entries.

    Cost: one Spark job, with a shuffle where there are counters; memory of a task: that of ``NodeFolder.folded``, where
    there are counters the rows of a bucket of meters, ``ROWS_A_TASK`` on average and those of one meter at least.

    Raises:
        OverflowError: if an exact sum needs more than 38 digits.
    """
    facts = file_facts(raw, ("event_us", "batch"))
    items = pa.Table.from_pylist([item for rows in chosen for item in _items(facts, rows)], _ITEMS)
    columns = _columns(raw, building.folder.stream)
    if not building.folder.stream.counters:
        return engine.map(items, partial(_nodes_of, building=building, columns=columns), ENTRIES, step)
    buckets = 1 + sum(file.rows for rows in chosen for file in facts if rows.may_be_in(file)) // ROWS_A_TASK
    read = partial(_metered, columns=columns, keys=building.folder.stream.grouping_keys, buckets=buckets)
    kernel = partial(_nodes_of_meters, building=building)
    return engine.by_key(items, read, columns.append(_METER), _METER.name, kernel, ENTRIES, step)


def _items(facts: Sequence[FileFacts], rows: RawRows) -> Iterator[dict[str, object]]:
    """Yield the files that may have such rows, several small ones at a time."""
    files, waiting = list[str](), 0
    found = [file for file in facts if rows.may_be_in(file)]
    for number, file in enumerate(found, start=1):
        files.append(str(file.path.absolute()))
        waiting += file.rows
        if waiting >= ROWS_A_TASK or number == len(found):
            yield {"files": files} | vars(rows)
            files, waiting = [], 0


def _columns(raw: Path, stream: Stream) -> pa.Schema:
    """Return what nodes are made of, and the number of the batch; raw may lack columns that no row has yet."""
    with opened(raw) as known:
        there = arrow_schema(known)
    declared = row_columns(stream).append(pa.field("batch", pa.int64()))
    return pa.schema([there.field(each.name) if each.name in there.names else each for each in declared])


def _rows(item: Item, columns: pa.Schema) -> Iterator[pa.Table]:
    rows = RawRows(*(item[name] for name in ("first", "last", "from_us", "to_us")))
    for path in item["files"]:
        for piece in pieces_of(place_at(path), columns, _PIECE):
            times, batches = piece["event_us"].to_numpy(), piece["batch"].to_numpy()
            is_own = (batches >= rows.first) & (batches <= rows.last)
            is_own &= (times >= rows.from_us) & (times < rows.to_us)
            yield piece if is_own.all() else piece.filter(pa.array(is_own))


def _nodes_of(item: Item, building: Building, columns: pa.Schema) -> Iterator[pa.Table]:
    yield building.written(building.folder.folded(_rows(item, columns)))


def _metered(item: Item, columns: pa.Schema, keys: Sequence[str], buckets: int) -> Iterator[pa.Table]:
    for rows in _rows(item, columns):
        hashes = xxhash64([rows[key] for key in keys], rows.num_rows)
        yield rows.append_column(_METER, pa.array((hashes % buckets).astype(np.int32)))


def _nodes_of_meters(_: int, rows: pa.Table, building: Building) -> pa.Table:
    return building.written(building.folder.folded([rows]))
