"""Rollup tables: appending the nodes of new batches once; reading them whole; compaction.

A batch is one commit: nodes of all levels and groupings and a marker that says what is contained, so levels never
disagree and horizons move with the data they belong to. The table must be what its stream declares now; only how long
levels keep their nodes may change as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.declare.problems import Permanent
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent, read_ledger
from lakehouse.home.open_tables import opened
from lakehouse.home.rollup_table import (
    RollupSchema,
    declared_schema,
    read_marker,
    read_rollup_schema,
    same_but_keeps,
)
from lakehouse.home.schema_change import compare_schemas
from lakehouse.home.table_commits import add_columns, arrow_schema, fitted, set_properties
from lakehouse.home.table_log import Between, bounds, most_rows, read_parts
from lakehouse.spark import tables
from lakehouse.spark.tables import rollup_schema
from lakehouse.streams.fold import fold
from lakehouse.streams.nodes import (
    folder_of,
    needed,
    nodes_and_counts,
    nodes_and_counts_here,
)

log = logging.getLogger(__name__)
# This process folds up to this many rows, in less time than Spark needs to read them.
SMALL_ROWS = 8_000_000
# Counters are combined in order of time. This process sorts up to this many rows; Spark sorts more, by meter.
_SMALL_ROWS_OF_COUNTERS = 100_000
# The values of partial nodes that are folded at a time, in one to two gigabytes: a million nodes of three measures.
VALUES_AT_ONCE = 30_000_000
# Nodes are counted in at most this many equal parts of their time, to be folded part by part.
_COUNTED = 100_000
# Rows take several times their bytes while they are folded.
_PIECE = 500_000
# Rows that are not markers.
_NODES = ("level", 1, None)
_MARKER = pa.schema(
    {
        "level": pa.int32(),
        "grouping": pa.int32(),
        "start_us": pa.int64(),
        "batch": pa.int64(),
        "rows": pa.int64(),
    }
)


def append_new(spark: SparkSession, layout: Home, stream: Stream) -> dict[str, int]:
    """Append the nodes of every finished ingest batch that the rollup lacks, as one commit.

    Raises:
        RollupOutdated: if levels, groupings or measures are not those that the table was built for.
    """
    path = layout.rollup(stream.name)
    tables.create_rollup(path, stream)
    require_current(layout, stream)
    before = read_marker(path)
    new = read_ledger(layout, stream.name, before.batch)
    if not new:
        return {"batches": 0, "rows": 0}
    last, accepted = new[-1].batch, sum(entry.accepted for entry in new)
    times = (before.newest_us, *(entry.confirmed_us for entry in new))
    contained = max((time for time in times if time is not None), default=None)
    added = _Added(stream, before.batch + 1, last, contained, accepted)
    if accepted <= min(SMALL_ROWS, _SMALL_ROWS_OF_COUNTERS if stream.counters else SMALL_ROWS):
        nodes = added.nodes_here(layout.raw(stream.name))
        crash_point("rollup.before-append")
        tables.append_arrow_once(nodes, path, f"rollup-{stream.name}", last)
    else:
        frame = added.nodes(spark, layout.raw(stream.name))
        crash_point("rollup.before-append")
        tables.append_once(frame, path, f"rollup-{stream.name}", last)
    crash_point("rollup.appended")
    return {"batches": last - before.batch, "rows": accepted}


@dataclass(frozen=True)
class _Added:
    """The nodes of some batches, given the newest time confirmed, and the marker."""

    stream: Stream
    first: int
    last: int
    newest_us: int | None
    accepted: int

    def nodes_here(self, raw: Path) -> pa.Table:
        """Return nodes and marker, folded in this process."""
        marker = pa.Table.from_pylist([_marker(self.newest_us, self.last, self.accepted)], _MARKER)
        if self.newest_us is None:
            return marker
        with opened(raw) as known:
            columns = arrow_schema(known)
        kinds = pa.schema([columns.field(name) for name in needed(self.stream)])
        parts = (
            fitted(part.slice(low, _PIECE), kinds)
            for part in read_parts(raw, kinds.names, ("batch", self.first, self.last))
            for low in range(0, part.num_rows, _PIECE)
        )
        nodes = nodes_and_counts_here(parts, self.stream, self.newest_us)
        nodes = nodes.append_column("batch", pa.repeat(pa.scalar(self.last, pa.int64()), nodes.num_rows))
        return pa.concat_tables([nodes, marker], promote_options="default")

    def nodes(self, spark: SparkSession, raw: Path) -> DataFrame:
        """Return nodes and marker, folded by Spark."""
        marker = marker_row(spark, self.newest_us, self.last, self.accepted)
        if self.newest_us is None:
            return marker
        rows = tables.read(spark, raw).where(F.col("batch").between(self.first, self.last))
        nodes = nodes_and_counts(rows, self.stream, self.newest_us)
        numbered = nodes.withColumn("batch", F.lit(self.last).cast("bigint"))
        return numbered.unionByName(marker, allowMissingColumns=True)


def folded_nodes(layout: Home, stream: Stream, horizons: Sequence[int]) -> Iterator[pa.Table]:
    """Yield one row per node, range of time by range: partial nodes combined, without those below their horizon.

    ``horizons`` are those of a table that is current. Cost: one pass on one core, and one over the starts if there
    are many nodes; memory: ``VALUES_AT_ONCE``, for counters at least the nodes of the last level's width, which are
    combined from each other.
    """
    folder = folder_of(stream)
    starts = pa.array([0, *horizons], pa.int64())
    for times in _times(layout.rollup(stream.name), stream, 1 + VALUES_AT_ONCE // len(folder.schema)):
        parts = [folder.schema.empty_table()]
        for part in read_parts(layout.rollup(stream.name), folder.schema.names, times):
            nodes = fitted(part, folder.schema)
            nodes = nodes.filter(pc.greater(nodes["level"], 0))
            parts.append(nodes.filter(pc.greater_equal(nodes["start_us"], starts.take(nodes["level"]))))
        yield folder.whole(pa.concat_tables(parts))


def _times(table: Path, stream: Stream, most: int) -> list[Between]:
    """Divide the starts of nodes into ranges of about this many nodes; a counter's node stays with its parents."""
    ((first, last),) = bounds(table, ["start_us"], _NODES)
    if first is None or last is None:
        return []
    if most_rows(table, _NODES) <= most:
        return [("start_us", first, last)]
    width = stream.levels[-1 if stream.counters else 0].width_us
    width *= -(-(last - first + 1) // (width * _COUNTED))
    counts = np.zeros(last // width - first // width + 1, np.int64)
    for part in read_parts(table, ["start_us"], _NODES):
        place = np.asarray(part["start_us"]) // width - first // width
        counts += np.bincount(place, minlength=len(counts))
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // most)) + 1
    edges = [(first // width + cut) * width for cut in (0, *cuts.tolist(), len(counts))]
    return [("start_us", low, high - 1) for low, high in pairwise(edges)]


def kept_nodes(spark: SparkSession, layout: Home, stream: Stream, schema: RollupSchema) -> DataFrame:
    """Return partial nodes at or above their level's horizon, with the levels that the table was built for."""
    table = tables.read(spark, layout.rollup(stream.name)).where("level > 0")
    contained = read_marker(layout.rollup(stream.name))
    if contained.newest_us is None:
        return table.where("false")
    kept = reduce(
        lambda condition, pair: condition | ((F.col("level") == pair[0]) & (F.col("start_us") >= pair[1])),
        enumerate(schema.horizons(contained.newest_us), start=1),
        F.lit(False),
    )
    return table.where(kept)


def over_keys(nodes: DataFrame, stream: Stream, grouping: tuple[str, ...]) -> DataFrame:
    """Return nodes with the keys that a grouping leaves out set to null."""
    left_out = [key for key in stream.grouping_keys if key not in grouping]
    # A grouping over several meters has no counter.
    left_out += stream.counter_columns if left_out else ()
    return nodes.withColumns({key: F.lit(None).cast(nodes.schema[key].dataType) for key in left_out})


def totals(nodes: pa.Table, stream: Stream) -> pa.Table:
    """Return rows and, for each measure, n and sum, per level and grouping, from nodes or from totals."""
    parts = ["rows", *(f"{name}__{part}" for name in stream.measures for part in ("n", "sum"))]
    found = nodes.group_by(["level", "grouping"]).aggregate([(part, "sum") for part in parts])
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names])


def compact(layout: Home, stream: Stream) -> dict[str, int]:
    """Fold the nodes that batches have added, if there are enough, in one commit; parts below horizons are deleted.

    Cost: the new nodes, and the parts that they affect.
    """
    path = layout.rollup(stream.name)
    schema = require_current(layout, stream)
    contained = read_marker(path)
    folded = fold(path, folder_of(stream), schema.horizons(contained.newest_us))
    crash_point("maintain.compacted")
    return folded


def marker_row(spark: SparkSession, newest_us: int | None, batch: int, rows: int = 0) -> DataFrame:
    """Return the row that says what a table contains: batches up to this one, the newest time confirmed, rows added."""
    # From Arrow, so that Spark starts no Python worker for one row.
    return spark.createDataFrame(pa.Table.from_pylist([_marker(newest_us, batch, rows)], _MARKER))


def _marker(newest_us: int | None, batch: int, rows: int) -> dict[str, int | None]:
    return {"level": 0, "grouping": -1, "start_us": newest_us, "batch": batch, "rows": rows}


class RollupOutdated(Permanent, RuntimeError):
    """The stream is declared differently from what its rollups were built for."""


class HistoryErased(Permanent, RuntimeError):
    """The last level would forget what no other level holds."""


def require_current(layout: Home, stream: Stream) -> RollupSchema:
    """Return the schema of the stream's rollup; changed `keep` times of levels are applied.

    Whoever calls holds the rollup's lease.

    Raises:
        RollupOutdated: when widths, groupings or measures are not those the table was built for.
        HistoryErased: when the last level is to keep less than it holds.
    """
    schema, now = read_rollup_schema(layout.rollup(stream.name)), declared_schema(stream)
    if schema is None:
        return now
    if not same_but_keeps(now, schema):
        raise RollupOutdated(
            f"stream {stream.name}: its rollups were built for other levels, groupings or measures; it is now declared "
            f"as {stream.definition()}; `tidemark plan {stream.name}` tells what that means, "
            f"`tidemark rebuild {stream.name}` builds them again"
        )
    _add_carries(layout, stream)
    if now.levels == schema.levels:
        return schema
    return _keep_otherwise(layout, stream, schema)


def _add_carries(layout: Home, stream: Stream) -> None:
    """Give a table that an earlier Tidemark made the columns that it lacks; its nodes have no carries."""
    path = layout.rollup(stream.name)
    with opened(path) as known:
        there = {column.name for column in known.schema().fields}
    lacking = [column for column in rollup_schema(stream) if column.name not in there]
    if lacking:
        add_columns(path, StructType(lacking).json())


def set_schema(layout: Home, stream: Stream, schema: RollupSchema) -> None:
    """Write the stream's definition, and what its rollup lacks, into the table's properties, in one commit."""
    properties = {"tidemark.definition": stream.definition(), **schema.properties()}
    set_properties(layout.rollup(stream.name), properties)


def _keep_otherwise(layout: Home, stream: Stream, schema: RollupSchema) -> RollupSchema:
    """Take on how long levels keep their nodes; nodes that are gone already stay gone, as floors."""
    newest = read_marker(layout.rollup(stream.name)).newest_us
    first = read_extent(layout, stream.name).earliest_us
    change = compare_schemas(stream, schema, newest, raw_from(read_corrections(layout, stream.name)), first)
    if change.refusals:
        raise HistoryErased(f"stream {stream.name}: " + "; ".join(change.refusals))
    for sentence in change.effects:
        log.warning("stream %s: %s", stream.name, sentence)
    floors = () if newest is None else tuple(schema.horizons(newest))
    kept = replace(declared_schema(stream), floors=floors, since=schema.since)
    set_schema(layout, stream, kept)
    return kept
