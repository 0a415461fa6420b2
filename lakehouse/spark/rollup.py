"""Rollup tables: raw rows -> partial nodes of every level and grouping; reading them whole; compaction.

A batch is one commit: nodes of all levels and groupings and a marker that says what is contained, so levels never
disagree and horizons move with the data they belong to. Each row enters at the finest level that still keeps its
time and is carried up from there, so an old row costs what a node costs, not what a second costs.

Source: DSMGA-Tree (OLAgg), section 4, over tables instead of a tree; late rows and groupings are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.catalog.built import Built
from lakehouse.catalog.crashpoint import crash_point
from lakehouse.catalog.layout import Home
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables
from lakehouse.spark.declared import RollupOutdated as RollupOutdated
from lakehouse.spark.declared import require_current
from lakehouse.spark.entered import counts_of, folded_counts

_NODE = ["level", "grouping", "start_us"]


@dataclass(frozen=True)
class Marker:
    """What a rollup table contains: ingest batches up to ``batch``, event times up to ``newest_us``."""

    newest_us: int | None
    batch: int


def marker(spark: SparkSession, layout: Home, stream: Stream) -> Marker:
    """Return what the stream's rollup table contains; batch 0 and no time when it is empty or missing."""
    path = layout.rollup(stream.name)
    if not tables.exists(path):
        return Marker(None, 0)
    marks = tables.read(spark, path).where("level = 0")
    newest, batch = marks.agg(F.max("start_us"), F.max("batch")).first() or (None, None)
    return Marker(newest, int(batch or 0))


def append_new(spark: SparkSession, layout: Home, stream: Stream) -> dict[str, int]:
    """Append the nodes of every finished ingest batch not contained yet, as one commit.

    Raises:
        RollupOutdated: when levels, groupings or measures are not those the table was built for.
    """
    path = layout.rollup(stream.name)
    tables.create_rollup(spark, path, stream)
    require_current(spark, layout, stream)
    before = marker(spark, layout, stream)
    ledger = tables.read(spark, layout.ledger(stream.name))
    new = ledger.where(F.col("batch") > before.batch)
    last, newest, accepted = (
        new.agg(F.max("batch"), F.max("newest_us"), F.sum("accepted")).first() or (None,) * 3
    )
    if last is None:
        return {"batches": 0, "rows": 0}
    rows = tables.read(spark, layout.raw(stream.name)).where(F.col("batch").between(before.batch + 1, last))
    contained = max((t for t in (newest, before.newest_us) if t is not None), default=None)
    mark = _marker_row(spark, contained, last, accepted)
    if contained is None:
        tables.append_once(mark, path, f"rollup-{stream.name}", last)
        return {"batches": last - before.batch, "rows": 0}
    mark = mark.unionByName(counts_of(rows, stream, contained, last))
    entered = _entered(rows, stream, contained).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        nodes = _all_nodes(entered, stream).withColumn("batch", F.lit(last).cast("bigint"))
        crash_point("rollup.before-append")
        both = nodes.unionByName(mark, allowMissingColumns=True)
        tables.append_once(both, path, f"rollup-{stream.name}", last)
    finally:
        entered.unpersist()
    crash_point("rollup.appended")
    return {"batches": last - before.batch, "rows": accepted}


def folded_nodes(spark: SparkSession, layout: Home, stream: Stream) -> DataFrame:
    """Return one row per node: partial nodes combined, those below their level's horizon left out.

    Raises:
        RollupOutdated: when levels, groupings or measures are not those the table was built for.
    """
    built = require_current(spark, layout, stream)
    return combined(kept_nodes(spark, layout, stream, built), stream)


def kept_nodes(spark: SparkSession, layout: Home, stream: Stream, built: Built) -> DataFrame:
    """Return partial nodes at or above their level's horizon, as the table was built."""
    table = tables.read(spark, layout.rollup(stream.name)).where("level > 0")
    contained = marker(spark, layout, stream)
    if contained.newest_us is None:
        return table.where("false")
    kept = reduce(
        lambda condition, pair: condition | ((F.col("level") == pair[0]) & (F.col("start_us") >= pair[1])),
        enumerate(built.horizons(contained.newest_us), start=1),
        F.lit(False),
    )
    return table.where(kept)


def combined(nodes: DataFrame, stream: Stream) -> DataFrame:
    """Return one row per node of partial ones."""
    return nodes.groupBy(*_NODE, *stream.grouping_keys).agg(*_combined(stream))


def over_keys(nodes: DataFrame, stream: Stream, grouping: tuple[str, ...]) -> DataFrame:
    """Return nodes with the keys that a grouping leaves out set to null."""
    left_out = [key for key in stream.grouping_keys if key not in grouping]
    return nodes.withColumns({key: F.lit(None).cast(nodes.schema[key].dataType) for key in left_out})


def marked(spark: SparkSession, newest_us: int | None, batch: int) -> DataFrame:
    """Return the row that says what a table contains: batches up to this one, times up to the newest."""
    return _marker_row(spark, newest_us, batch, 0)


def nodes_of(rows: DataFrame, stream: Stream, newest_us: int) -> DataFrame:
    """Return the nodes that raw rows make on every level and grouping, by the horizons of a newest time."""
    return _all_nodes(_entered(rows, stream, newest_us), stream)


def totals(nodes: DataFrame, stream: Stream) -> DataFrame:
    """Return per (level, grouping): nodes, rows and, per measure, n, sum and the largest magnitude."""
    sums: list[Column] = [F.count("*").alias("nodes"), F.sum("rows").alias("rows")]
    for name in stream.measures:
        sums += [F.sum(f"{name}__n").alias(f"{name}__n"), F.sum(f"{name}__sum").alias(f"{name}__sum")]
        largest = F.greatest(F.max(F.abs(f"{name}__min")), F.max(F.abs(f"{name}__max")))
        sums.append(largest.alias(f"{name}__largest"))
    return nodes.groupBy("level", "grouping").agg(*sums)


def compact(spark: SparkSession, layout: Home, stream: Stream) -> dict[str, int]:
    """Rewrite the table as one row per node and one marker, in one commit; nodes below horizons go."""
    path = layout.rollup(stream.name)
    table = tables.read(spark, path)
    before = table.where("level >= 0").count()
    if table.where("level = 0").count() <= 1:
        return {"rows_before": before, "rows_after": before}
    contained = marker(spark, layout, stream)
    added = table.where("level = 0").agg(F.sum("rows")).first()
    mark = _marker_row(spark, contained.newest_us, contained.batch, added[0] if added else 0)
    nodes = folded_nodes(spark, layout, stream).withColumn("batch", F.lit(contained.batch).cast("bigint"))
    whole = nodes.unionByName(mark.unionByName(folded_counts(table)), allowMissingColumns=True).select(
        *table.columns
    )
    # Parquet skips what a filter on level or start rules out, if rows stand in that order.
    ordered = whole.repartition(1).sortWithinPartitions(*_NODE)
    ordered.write.format("delta").mode("overwrite").save(str(path))
    crash_point("maintain.compacted")
    return {"rows_before": before, "rows_after": tables.read(spark, path).where("level >= 0").count()}


def _entered(rows: DataFrame, stream: Stream, newest_us: int) -> DataFrame:
    """Aggregate rows, with all keys, at the finest level that still keeps their time."""
    level, start = F.lit(None).cast("int"), F.lit(None).cast("bigint")
    kept_from = horizons(stream.levels, newest_us)
    for number in range(len(stream.levels), 0, -1):
        kept = F.col("event_us") >= kept_from[number - 1]
        level = F.when(kept, F.lit(number)).otherwise(level)
        start = F.when(kept, _floor(F.col("event_us"), stream.levels[number - 1].width_us)).otherwise(start)
    placed = rows.withColumn("level", level).withColumn("start_us", start).where(F.col("level").isNotNull())
    return placed.groupBy("level", "start_us", *stream.grouping_keys).agg(*_lifted(stream))


def _all_nodes(entered: DataFrame, stream: Stream) -> DataFrame:
    """Carry nodes up to every coarser level, then combine over the keys that each grouping leaves out.

    What entered is already partial nodes of its own level with all keys: it is not grouped again.
    """
    keys = stream.grouping_keys
    nodes = entered.unionByName(_raised(entered, stream))
    whole = [number for number, grouping in enumerate(stream.groupings) if set(grouping) == set(keys)]
    frames = [nodes.withColumn("grouping", F.lit(number)) for number in whole]
    cuts = [
        F.struct(F.lit(number).alias("grouping"), *(_kept_key(entered, key, grouping) for key in keys))
        for number, grouping in enumerate(stream.groupings)
        if number not in whole
    ]
    if cuts:
        cut = nodes.withColumn("cut", F.explode(F.array(*cuts))).drop(*keys).select("cut.*", "*").drop("cut")
        frames.append(cut.groupBy(*_NODE, *keys).agg(*_combined(stream)))
    return reduce(DataFrame.unionByName, frames)


def _raised(entered: DataFrame, stream: Stream) -> DataFrame:
    """What nodes add to the levels above their own."""
    ups = [
        F.when(
            F.col("level") < number,
            F.struct(
                F.lit(number).alias("level"), _floor(F.col("start_us"), level.width_us).alias("start_us")
            ),
        )
        for number, level in enumerate(stream.levels, start=1)
    ]
    raised = entered.withColumn("up", F.explode(F.array_compact(F.array(*ups)))).drop("level", "start_us")
    raised = raised.select("up.*", "*").drop("up")
    return raised.groupBy("level", "start_us", *stream.grouping_keys).agg(*_combined(stream))


def _kept_key(nodes: DataFrame, key: str, grouping: tuple[str, ...]) -> Column:
    value = F.col(key) if key in grouping else F.lit(None).cast(nodes.schema[key].dataType)
    return value.alias(key)


def _floor(time_us: Column, width_us: int) -> Column:
    return time_us - F.pmod(time_us, F.lit(width_us))


def _lifted(stream: Stream) -> list[Column]:
    """Aggregates of a node, from rows."""
    parts = [
        F.count("*").alias("rows"),
        F.min("event_us").alias("first_us"),
        F.max("event_us").alias("last_us"),
    ]
    for name in stream.measures:
        value = F.col(name)
        seen = F.when(value.isNotNull(), F.col("event_us"))
        scale = stream.all_columns[name].scale
        total = (
            F.sum(value)
            if scale is None
            else F.sum(value.cast(f"decimal(38,{scale})")).cast(f"decimal(38,{scale})")
        )
        parts += [F.count(value).alias(f"{name}__n"), total.alias(f"{name}__sum")]
        parts += [F.min(value).alias(f"{name}__min"), F.max(value).alias(f"{name}__max")]
        parts += [F.min(seen).alias(f"{name}__first_us"), F.max(seen).alias(f"{name}__last_us")]
    return parts


def _combined(stream: Stream) -> list[Column]:
    """Aggregates of a node, from partial nodes."""
    parts = [
        F.sum("rows").alias("rows"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
    ]
    for name in stream.measures:
        scale = stream.all_columns[name].scale
        total = F.sum(f"{name}__sum")
        total = total if scale is None else total.cast(f"decimal(38,{scale})")
        parts += [F.sum(f"{name}__n").alias(f"{name}__n"), total.alias(f"{name}__sum")]
        for part, combine in (("min", F.min), ("max", F.max), ("first_us", F.min), ("last_us", F.max)):
            parts.append(combine(f"{name}__{part}").alias(f"{name}__{part}"))
    return parts


def _marker_row(spark: SparkSession, newest_us: int | None, batch: int, rows: int | None) -> DataFrame:
    schema = "level int, grouping int, start_us bigint, batch bigint, rows bigint"
    return spark.createDataFrame([(0, -1, newest_us, batch, rows or 0)], schema)
