"""How many rows entered at each level: the finest that kept their time when they came.

Kept in the rollup's table as rows of the level's number below zero, in the commit of the nodes. Rows that entered
above the finest level came too late for the finer ones.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.catalog.layout import Home
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables


def counts_of(rows: DataFrame, stream: Stream, newest_us: int, batch: int) -> DataFrame:
    """Count raw rows by the level that they enter at; one pass over their event times."""
    level = F.lit(None).cast("int")
    for number, start in reversed(list(enumerate(horizons(stream.levels, newest_us), start=1))):
        level = F.when(F.col("event_us") >= start, F.lit(-number)).otherwise(level)
    counted = rows.select(level.alias("level")).where("level IS NOT NULL").groupBy("level").count()
    return counted.selectExpr(
        "level",
        "-1 AS grouping",
        "CAST(null AS bigint) AS start_us",
        f"CAST({batch} AS bigint) AS batch",
        "count AS rows",
    )


def folded_counts(table: DataFrame) -> DataFrame:
    """Return one row per level of those that the table holds."""
    counts = table.where("level < 0").groupBy("level", "grouping", "start_us")
    return counts.agg(F.max("batch").alias("batch"), F.sum("rows").alias("rows"))


def entered(spark: SparkSession, layout: Home, stream: Stream) -> list[int]:
    """Return how many rows entered at each level, finest first."""
    counts = folded_counts(tables.read(spark, layout.rollup(stream.name)))
    found = {-row["level"]: row["rows"] for row in counts.collect()}
    return [found.get(number, 0) for number in range(1, len(stream.levels) + 1)]
