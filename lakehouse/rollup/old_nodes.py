"""Old nodes of a rollup -> parts of its successor, for times whose raw rows are gone: a backfill, by kernels.

    files of the rollup --> nodes in their new places --> nodes by place, or by series with counters --> a part

A coarser level is combined from a finer one, a coarser grouping from a finer one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, file_items
from lakehouse.ingest.raw_rows import ROWS_A_TASK
from lakehouse.rollup.raw_nodes import Building
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.backfill import Backfill
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.rollup_table import RollupSchema, declared_schema
from lakehouse.storage.tables.table_commits import arrow_schema, fitted
from lakehouse.storage.tables.table_log import file_facts
from lakehouse.storage.tables.table_reads import pieces_of

# No column of a stream has "__" in its name.
_BUCKET = pa.field("kernel__bucket", pa.int32())
# Rows that are not markers.
NODES = ("level", 1, None)


@dataclass(frozen=True)
class OldNodes:
    """Nodes of a rollup that was built for ``schema``, in ``columns``, and what a plan makes of them."""

    schema: RollupSchema
    columns: pa.Schema
    plan: Backfill
    building: Building
    newest_us: int
    buckets: int

    def moved(self, nodes: pa.Table) -> Iterator[pa.Table]:
        """Yield nodes that are kept, in each place that they are a part of, with the bucket of that place."""
        known = self._with_measures(self._kept(nodes))
        for level, source in self.plan.sources.items():
            for grouping, source_grouping in self.plan.groupings.items():
                is_own = pc.and_(
                    pc.equal(known["level"], source), pc.equal(known["grouping"], source_grouping)
                )
                yield self._placed(known.filter(is_own), level, grouping)

    def _kept(self, nodes: pa.Table) -> pa.Table:
        """Return the nodes at or above their level's horizon, of times that raw has no rows of."""
        levels, starts = nodes["level"].to_numpy(), nodes["start_us"].to_numpy()
        is_node = levels > 0
        horizons = np.array(self.schema.horizons(self.newest_us), np.int64)[np.where(is_node, levels, 1) - 1]
        return nodes.filter(pa.array(is_node & (starts >= horizons) & (starts < self.plan.from_us)))

    def _with_measures(self, old: pa.Table) -> pa.Table:
        """Return nodes with the columns of measures and keys that are new, without values."""
        folder = self.building.folder
        now, known = declared_schema(folder.stream).measures, list[str]()
        for name in folder.schema.names:
            measure = name.rpartition("__")[0]
            if name in old.column_names and not (
                measure and self.schema.measures.get(measure) != now[measure]
            ):
                known.append(name)
        found = fitted(old.select(known), folder.schema)
        for name in (name for name in folder.schema.names if name.endswith("__n") and name not in known):
            place = found.schema.get_field_index(name)
            found = found.set_column(place, folder.schema.field(name), pc.fill_null(found[name], 0))
        return found

    def _placed(self, nodes: pa.Table, level: int, grouping: int) -> pa.Table:
        folder, rows = self.building.folder, nodes.num_rows
        stream = folder.stream
        left_out = [key for key in stream.grouping_keys if key not in stream.groupings[grouping]]
        # A grouping over several meters has no counter.
        left_out += stream.counter_columns if left_out else ()
        starts, width = nodes["start_us"].to_numpy(), stream.levels[level - 1].width_us
        columns = {name: nodes[name] for name in nodes.column_names}
        columns |= {name: pa.nulls(rows, folder.schema.field(name).type) for name in left_out}
        columns |= {"level": np.full(rows, level, np.int32), "start_us": starts - starts % width}
        columns |= {"grouping": np.full(rows, grouping, np.int32)}
        placed = pa.table(columns, folder.schema)
        # The counters of parents are joined from those of their children: a series stays together.
        by = ["grouping", *([] if stream.counters else ["level", "start_us"]), *stream.grouping_keys]
        hashes = xxhash64([placed[name] for name in by], rows)
        return placed.append_column(_BUCKET, pa.array((hashes % self.buckets).astype(np.int32)))


def write_old_nodes(
    engine: Engine,
    table: Location,
    schema: RollupSchema,
    plan: Backfill,
    building: Building,
    newest_us: int,
    step: str,
) -> pa.Table:
    """Write the nodes that a plan makes of a rollup's as parts of its successor, each whole; return their entries.

    ``newest_us``: the newest time that the rollup contains. Cost: one Spark job with a shuffle; memory of a task: the
    nodes of a bucket, ``ROWS_A_TASK`` on average.
    """
    with opened(table) as known:
        columns = arrow_schema(known)
    files = file_facts(table, NODES)
    buckets = 1 + sum(file.rows for file in files) * len(plan.sources) // ROWS_A_TASK
    old = OldNodes(schema, columns, plan, building, newest_us, buckets)
    items = file_items([file.path for file in files])
    rows_schema = building.folder.schema.append(_BUCKET)
    return engine.by_key(
        *(items, partial(_moved, old=old), rows_schema, _BUCKET.name),
        *(partial(_whole, building=building), ENTRIES, step),
    )


def _moved(item: Item, old: OldNodes) -> Iterator[pa.Table]:
    for nodes in pieces_of(item["path"], old.columns):
        yield from old.moved(nodes)


def _whole(_: int, nodes: pa.Table, building: Building) -> pa.Table:
    return building.written(iter([building.folder.whole(nodes)]))
