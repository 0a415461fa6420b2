"""How many rows entered at each level: the finest that kept their time when they came.

Kept in the rollup's table as rows of the level's number below zero, in the commit of the nodes. Rows that entered
above the finest level came too late for the finer ones.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.catalog.layout import Home
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables


def folded_counts(table: DataFrame) -> DataFrame:
    """Return one row per level of those that the table holds."""
    counts = table.where("level < 0").groupBy("level", "grouping", "start_us")
    return counts.agg(F.max("batch").alias("batch"), F.sum("rows").alias("rows"))


def entered(spark: SparkSession, layout: Home, stream: Stream) -> list[int]:
    """Return how many rows entered at each level, finest first."""
    counts = folded_counts(tables.read(spark, layout.rollup(stream.name)))
    found = {-row["level"]: row["rows"] for row in counts.collect()}
    return [found.get(number, 0) for number in range(1, len(stream.levels) + 1)]
