"""How many rows entered at each level: the finest that kept their time when they came.

Kept in the rollup's table as rows of the level's number below zero, in the commit of the nodes. Rows that entered
above the finest level came too late for the finer ones.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.table_log import read_columns


def folded_counts(table: DataFrame) -> DataFrame:
    """Return one row per level of those that the table holds."""
    counts = table.where("level < 0").groupBy("level", "grouping", "start_us")
    return counts.agg(F.max("batch").alias("batch"), F.sum("rows").alias("rows"))


def level_counts(layout: Home, stream: Stream) -> list[int]:
    """Return how many rows entered at each level, finest first."""
    table, levels = layout.rollup(stream.name), range(1, len(stream.levels) + 1)
    return [
        sum(rows for (rows,) in read_columns(table, ("rows",), ("level", -level, -level))) for level in levels
    ]
