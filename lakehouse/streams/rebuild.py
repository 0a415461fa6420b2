"""Nodes built again from raw: of a range of time, or all of them, each in one commit.

    a range    the nodes of whole top nodes around it are replaced; levels, groupings and measures as they are
    all        the table is replaced by one of today's declaration

        older than raw                    raw rows kept
    ------------------------------)[-----------------------------
      backfilled old nodes             nodes of the raw rows

History older than raw is backfilled from the old nodes: a coarser level is combined from a finer one, a coarser
grouping from a finer one. What cannot be had is recorded (floors of levels, since-times of measures), or the rebuild is
refused. Readers see the table before or after, never between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from lakehouse.declare.columns import sql_type
from lakehouse.declare.problems import Permanent
from lakehouse.declare.stream import Stream
from lakehouse.declare.timestamps import format_timestamp
from lakehouse.home.backfill import Backfill, new_columns, plan_backfill
from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent, read_ledger
from lakehouse.home.rollup_table import Marker, RollupSchema, declared_schema, read_marker, read_rollup_schema
from lakehouse.spark import tables
from lakehouse.streams import rollup
from lakehouse.streams.nodes import combined_nodes, nodes_of

ENDLESS_US = 2**62


class RawIncomplete(Permanent, RuntimeError):
    """Nodes cannot be built again, because raw rows for them are gone."""


def widened(stream: Stream, from_us: int | None, to_us: int | None) -> tuple[int, int]:
    """Return the whole top nodes around a range; None has no limit."""
    width = stream.levels[-1].width_us
    low = KEPT_FOREVER_US if from_us is None else floor_to(width, from_us)
    return low, ENDLESS_US if to_us is None else floor_to(width, to_us + width - 1)


def check_range(layout: Home, stream: Stream, low: int) -> None:
    """Refuse a range that raw rows are not complete for.

    Raises:
        RawIncomplete: with the time since when they are.
    """
    kept = raw_from(read_corrections(layout, stream.name))
    if kept is not None and low < kept:
        raise RawIncomplete(
            f"stream {stream.name}: raw rows before {format_timestamp(kept, 'T')} are gone (keep_raw), so nodes older "
            f"than that cannot be built again and stay as they are; give --from {format_timestamp(kept, 'T')} or later"
        )


def rebuild_range(
    spark: SparkSession,
    layout: Home,
    stream: Stream,
    low: int,
    high: int,
    becomes: Marker | None = None,
) -> None:
    """Replace the nodes of whole top nodes ``[low, high)`` by those of raw rows; ``becomes`` is a new marker."""
    path = layout.rollup(stream.name)
    contained = read_marker(layout.rollup(stream.name))
    rows = _rows(spark, layout, stream, contained.batch).where(f"event_us >= {low} AND event_us < {high}")
    newest = becomes.newest_us if becomes and becomes.newest_us is not None else contained.newest_us
    replaced = f"level > 0 AND start_us >= {low} AND start_us < {high}"
    if newest is None:
        return
    nodes = nodes_of(rows, stream, newest).withColumn("batch", F.lit(contained.batch).cast("bigint"))
    if becomes is not None:
        mark = rollup.marker_row(spark, becomes.newest_us, becomes.batch)
        nodes, replaced = nodes.unionByName(mark, allowMissingColumns=True), f"level = 0 OR ({replaced})"
    tables.replace(spark, path, replaced, nodes)
    crash_point("correction.rollup-replaced")


def rebuild_all(spark: SparkSession, layout: Home, stream: Stream) -> None:
    """Replace the stream's rollup by one of today's declaration.

    Raises:
        RawIncomplete: when history older than raw cannot be backfilled.
    """
    path = layout.rollup(stream.name)
    schema, plan = plan_all(spark, layout, stream)
    extent = read_extent(layout, stream.name)
    last, newest_us = extent.batch, extent.confirmed_us
    contained = read_marker(layout.rollup(stream.name))
    rows = _rows(spark, layout, stream, last)
    mark = rollup.marker_row(spark, newest_us, last)
    frames = [mark]
    if newest_us is not None:
        fresh = rows.where(f"event_us >= {plan.from_us} OR batch > {contained.batch}")
        nodes = nodes_of(fresh if schema else rows, stream, newest_us)
        frames = [nodes.withColumn("batch", F.lit(last).cast("bigint")), mark]
        if schema and [v.width_us for v in schema.levels] == [v.width_us for v in stream.levels]:
            # Counts by level stay true while the widths of levels are the same.
            frames.append(_level_counts(tables.read(spark, path)))
        if schema and plan.sources:
            old = rollup.kept_nodes(spark, layout, stream, schema)
            frames.append(_backfilled(old, stream, schema, plan))
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    tables.replace_rollup(path, stream, whole, plan.schema.properties())
    crash_point("correction.rollup-replaced")


def _level_counts(table: DataFrame) -> DataFrame:
    """Return one row for each level that rows entered at (``rollup_table.py``)."""
    counts = table.where("level < 0").groupBy("level", "grouping", "start_us")
    return counts.agg(F.max("batch").alias("batch"), F.sum("rows").alias("rows"))


def plan_all(spark: SparkSession, layout: Home, stream: Stream) -> tuple[RollupSchema | None, Backfill]:
    """Return what the rollup was built for, with its horizons as floors, and what a whole rebuild takes from where.

    Raises:
        RawIncomplete: when history older than raw cannot be backfilled, with the reason.
    """
    schema = read_rollup_schema(layout.rollup(stream.name))
    kept_us = raw_from(read_corrections(layout, stream.name))
    if schema:
        schema = replace(
            schema, floors=tuple(schema.horizons(read_marker(layout.rollup(stream.name)).newest_us))
        )
    if kept_us is not None and schema is None:
        raise RawIncomplete(
            f"stream {stream.name}: {layout.rollup(stream.name)} is gone, and so are raw rows before "
            f"{format_timestamp(kept_us, 'T')}: restore that folder; without it older history would be lost"
        )
    first = read_extent(layout, stream.name).earliest_us
    plan = plan_backfill(
        stream, schema, kept_us, first, _later(spark, layout, stream, new_columns(stream, schema))
    )
    if plan.refusals:
        raise RawIncomplete(f"stream {stream.name}: " + "; ".join(plan.refusals))
    return schema, plan


def _backfilled(nodes: DataFrame, stream: Stream, schema: RollupSchema, plan: Backfill) -> DataFrame:
    """Return old nodes of times before raw as nodes of today's levels, groupings and measures."""
    frame = _with_measures(nodes.where(F.col("start_us") < plan.from_us), stream, schema)
    parts = [frame.where("false")]
    for level, source_level in plan.sources.items():
        for grouping, source_grouping in plan.groupings.items():
            part = frame.where(f"level = {source_level} AND grouping = {source_grouping}")
            width = stream.levels[level - 1].width_us
            start = F.col("start_us") - F.pmod(F.col("start_us"), F.lit(width))
            part = part.withColumn("level", F.lit(level)).withColumn("grouping", F.lit(grouping))
            part = part.withColumn("start_us", start)
            parts.append(rollup.over_keys(part, stream, stream.groupings[grouping]))
    whole = combined_nodes(reduce(DataFrame.unionByName, parts), stream)
    return whole.withColumn("batch", F.lit(0).cast("bigint"))


def _with_measures(old: DataFrame, stream: Stream, schema: RollupSchema) -> DataFrame:
    """Add the columns of measures and keys that are new, without values."""
    now, columns = declared_schema(stream).measures, tables.rollup_schema(stream)
    for column in columns:
        measure = column.name.rpartition("__")[0]
        if column.name not in old.columns or (measure and schema.measures.get(measure) != now[measure]):
            empty = F.lit(0 if column.name.endswith("__n") else None)
            old = old.withColumn(column.name, empty.cast(column.dataType))
    return old.select(*columns.names)


def _rows(spark: SparkSession, layout: Home, stream: Stream, through: int) -> DataFrame:
    """Return raw rows of finished batches; a column that none of them has yet is there without values."""
    raw = tables.read(spark, layout.raw(stream.name)).where(f"batch <= {through}")
    missing = {name: column for name, column in stream.all_columns.items() if name not in raw.columns}
    return raw.withColumns({name: F.lit(None).cast(sql_type(column)) for name, column in missing.items()})


def _later(spark: SparkSession, layout: Home, stream: Stream, names: Sequence[str]) -> dict[str, int]:
    """Return since when each of these columns is in raw; nothing for one that the first rows have.

    A column is known from the first batch on that has a value of it: whether it was not sent before, or not declared,
    raw does not tell, so nothing is promised.
    """
    if not names:
        return {}
    entries = read_ledger(layout, stream.name)
    rows = _rows(spark, layout, stream, 2**62)
    firsts = rows.agg(
        F.min("batch"), *(F.min(F.when(F.col(name).isNotNull(), F.col("batch"))) for name in names)
    )
    first_batch, *found = firsts.collect()[0]
    later = {}
    for name, first in zip(names, found, strict=True):
        times = [entry.max_event_us for entry in entries if first is None or entry.batch < first]
        last = max((time for time in times if time is not None), default=None)
        if last is not None and first != first_batch:
            later[name] = last + 1
    return later
