"""Raw rows -> parts of a rollup: tasks read files of raw, fold their rows into partial nodes and write these.

    map       files of raw --> nodes --> a part of the rollup
    by_key    files of raw --> rows by bucket of their meter --> nodes --> a part of the rollup

Partial nodes need not be whole, since readers combine them: so each task folds its own rows. Nodes that hold counters
depend on the order of their rows, and so the rows of a meter meet in one task first. Partial nodes of a later batch may
still overlap them.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink
from lakehouse.ingest import raw_rows
from lakehouse.ingest.raw_rows import RawRows, raw_items, rows_of
from lakehouse.rollup.nodes import NodeFolder, row_columns
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.table_commits import arrow_schema

# Entries, and how many rows of each part entered at which level, as JSON.
_WRITTEN = ENTRIES.append(pa.field("entered", pa.string()))
# No column of a stream has "__" in its name.
_METER = pa.field("meter__bucket", pa.int32())


@dataclass(frozen=True)
class Building:
    """Building of parts out of rows: the fold, the sink of the parts, the batch that nodes are numbered with."""

    folder: NodeFolder
    sink: TableSink
    batch: int

    def written(self, nodes: Iterator[pa.Table]) -> pa.Table:
        """Write nodes; return the entry of the part."""
        return self.sink.write(self._numbered(each) for each in nodes)

    def _numbered(self, nodes: pa.Table) -> pa.Table:
        kept = nodes.filter(pc.greater(nodes["level"], 0))
        return kept.append_column("batch", pa.repeat(pa.scalar(self.batch, pa.int64()), kept.num_rows))


def write_nodes(
    engine: Engine, raw: Location, chosen: Sequence[RawRows], building: Building, step: str
) -> tuple[pa.Table, Mapping[int, int]]:
    """Write the partial nodes of raw rows as parts of the rollup; return their entries, and rows by level entered at.

    Cost: one Spark job, with a shuffle where there are counters; memory of a task: that of ``NodeFolder.folded``, where
    there are counters the rows of a bucket of meters, ``ROWS_A_TASK`` on average and those of one meter at least.
    Raises OverflowError if an exact sum needs more than 38 digits.
    """
    items = raw_items(raw, *chosen)
    columns = _columns(raw, building.folder.stream)
    if not building.folder.stream.counters:
        kernel = partial(_nodes_of, building=building, columns=columns)
        return _added(engine.map(items, kernel, _WRITTEN, step))
    buckets = 1 + sum(items["rows"].to_pylist()) // raw_rows.ROWS_A_TASK
    read = partial(_metered, columns=columns, keys=building.folder.stream.grouping_keys, buckets=buckets)
    of_meters = partial(_nodes_of_meters, building=building)
    return _added(engine.by_key(items, read, columns.append(_METER), _METER.name, of_meters, _WRITTEN, step))


def _added(written: pa.Table) -> tuple[pa.Table, Mapping[int, int]]:
    entered = Counter[int]()
    for text in written["entered"].to_pylist():
        entered.update({int(level): rows for level, rows in json.loads(text).items()})
    return written.drop_columns(["entered"]), entered


def _columns(raw: Location, stream: Stream) -> pa.Schema:
    """Return what nodes are made of, and the number of the batch; raw may lack columns that no row has yet."""
    with opened(raw) as known:
        there = arrow_schema(known)
    declared = row_columns(stream).append(pa.field("batch", pa.int64()))
    return pa.schema([there.field(each.name) if each.name in there.names else each for each in declared])


def _nodes_of(item: Item, building: Building, columns: pa.Schema) -> Iterator[pa.Table]:
    yield _written(building, rows_of(item, columns))


def _metered(item: Item, columns: pa.Schema, keys: Sequence[str], buckets: int) -> Iterator[pa.Table]:
    for rows in rows_of(item, columns):
        hashes = xxhash64([rows[key] for key in keys], rows.num_rows)
        yield rows.append_column(_METER, pa.array((hashes % buckets).astype(np.int32)))


def _nodes_of_meters(_: int, rows: pa.Table, building: Building) -> pa.Table:
    return _written(building, [rows])


def _written(building: Building, rows: Iterable[pa.Table]) -> pa.Table:
    """Write the nodes of rows; return the entry of the part, and how many rows entered at each level."""
    entered = Counter[int]()

    def nodes() -> Iterator[pa.Table]:
        for each in building.folder.folded(rows):
            counts = each.filter(pc.less(each["level"], 0)).select(["level", "rows"])
            entered.update({-row["level"]: row["rows"] for row in counts.to_pylist()})
            yield each

    entry = building.written(nodes())
    return entry.append_column("entered", pa.array([json.dumps(entered)] * entry.num_rows, pa.string()))
