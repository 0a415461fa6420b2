"""Rows of a block on their way: they leave their window filtered, and meet the other windows in the planned order.

    new rows of side i, of slots that pass -> window of the first stop -> ... -> results

A row of side i meets of the sides before it the rows of this batch and earlier ones, of the sides after it the earlier
ones alone: so each result is found by the block of its last side that has a row of its newest batch, once. Of earlier
batches those rows are met that are within ``since_us``; which others there were the repair finds.

Few rows are sent to where the window is (a broadcast), and the window stays; of many, those and the stored rows that
they can meet are brought together.

A batch may also be joined plainly, without counting: every row of the windows meets every other that it joins. Spark
plans that as it would plan the same join written in SQL, and shuffles each side once, by its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from lakehouse.queries.multiway.rows import sorted_slots

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Float64s, Int64s
    from lakehouse.queries.multiway.centre import Block
    from lakehouse.queries.multiway.query import MultiwayQuery
    from lakehouse.queries.multiway.windows import Windows

# So many rows are still sent to where a window is; they have to fit into the memory of every executor.
MOST_SENT = 500_000
# A window of which more than this share can be met is not worth filtering.
MOST_SHARE = 0.9
# So many slots are still looked for by name, which lets Parquet pass over the others.
MOST_NAMED = 1_000


@dataclass(frozen=True)
class Route:
    """A block on its way through its stops.

    ``seen`` counts the rows that leave the site, then each stop, while results are made. ``filters``: how often the
    slots that can join are sent to all executors.
    """

    block: Block
    results: DataFrame
    seen: tuple[Observation, ...]
    filters: int

    @property
    def filter_bytes(self) -> int:
        """How many bytes the filters are that are sent."""
        return self.filters * len(self.block.slots) * 4

    def moved(self) -> Float64s:
        """Return how many rows left the site, then each stop; the results have been written by then."""
        told: list[Any] = [each for each in self.seen]
        return np.array([dict(each._jo.getAsJava()).get("rows", 0) for each in told], np.float64)


def execute_route(windows: Windows, block: Block, slots: int, most_sent: int = MOST_SENT) -> Route:
    """Return a block's way through the stops of its plan; nothing runs before the results are written.

    ``slots``: how many there are, of which the block names those that can join.
    """
    query = windows.query
    rows, filters = windows.new(block.side), 0
    if block.leaving < block.rows:
        rows, filters = _let_through(windows.spark, rows, block.slots, slots), 1
    rows, left_site = _counted(shown_of(rows, query, block.side))
    seen, visited = [left_site], [block.side]
    for stop, share, size in zip(block.visits, block.shares, block.plan.sizes.tolist(), strict=False):
        met = windows.met_by(block.side, stop)
        # Rows that are sent find their partners themselves; where both sides move, only those that can match do.
        is_sent = size <= most_sent
        if len(block.slots) <= MOST_NAMED or (not is_sent and share < MOST_SHARE):
            met, filters = _let_through(windows.spark, met, block.slots, slots), filters + 1
        rows, left_stop = _counted(
            joined(F.broadcast(rows) if is_sent else rows, shown_of(met, query, stop), query, visited, stop)
        )
        seen.append(left_stop)
        visited.append(stop)
    return Route(block, results_of(rows, query, "online"), tuple(seen), filters)


def joined(
    rows: DataFrame, met: DataFrame, query: MultiwayQuery, visited: Sequence[int], stop: int
) -> DataFrame:
    """Return each combination with each row of a stop that it joins."""
    others = met.withColumnRenamed("key", "other_key")
    close = in_windows(query, visited, stop)
    return rows.join(others, (F.col("key") == F.col("other_key")) & close).drop("other_key")


def results_of(rows: DataFrame, query: MultiwayQuery, found: str) -> DataFrame:
    """Return combinations of rows of all sides as the results that they are."""
    sides = range(len(query.sides))
    times = [F.col(f"event_us_{side}") for side in sides]
    shown = [F.col(f"o_{output.name}").alias(output.name) for output in query.outputs]
    ids = F.array(*(F.col(f"row_{side}") for side in sides))
    return rows.select(
        F.greatest(*times).alias("event_us"),
        F.array(*times).alias("times_us"),
        ids.alias("row_ids"),
        F.lit(found).alias("found"),
        *shown,
    )


def shown_of(rows: DataFrame, query: MultiwayQuery, side: int, *more: str) -> DataFrame:
    """Return what of a side's rows travels: key, own outputs, and ids, times and more under names of their own.

    Ids follow keys: both are hashes, and a shuffle compresses what is not random better if it is not in between.
    """
    own = [F.col(f"o_{output.name}") for output in query.outputs if output.side == side]
    told = [F.col(name).alias(f"{name}_{side}") for name in ("row", "event_us", *more)]
    return rows.select("key", *told, *own)


def in_windows(query: MultiwayQuery, visited: Sequence[int], stop: int) -> Column:
    """Tell which rows of a stop are close enough in time to those of all sides visited before."""
    event, window_us = F.col(f"event_us_{stop}"), query.sides[stop].window_us
    near = [
        event.between(
            F.col(f"event_us_{side}") - window_us, F.col(f"event_us_{side}") + query.sides[side].window_us
        )
        for side in visited
    ]
    return reduce(Column.__and__, near)


def _let_through(spark: SparkSession, rows: DataFrame, passing: Int64s, slots: int) -> DataFrame:
    """Return the rows whose keys are in these slots."""
    slot = F.pmod(F.col("key"), F.lit(slots)).cast("int")
    if len(passing) <= MOST_NAMED:
        # Rows lie in order of what they are sorted by, so Parquet passes over the others.
        near = np.unique(passing % sorted_slots(slots)).tolist()
        named = rows.where(F.col("slot").isin(near)) if near else rows.limit(0)
        return named if sorted_slots(slots) == slots else named.where(slot.isin(passing.tolist()))
    known = spark.createDataFrame(pa.table({"entry": pa.array(passing.astype(np.int32))}))
    return rows.join(F.broadcast(known), slot == F.col("entry"), "left_semi")


def _counted(rows: DataFrame) -> tuple[DataFrame, Observation]:
    seen = Observation()
    return rows.observe(seen, F.count(F.lit(1)).alias("rows")), seen


def plain_results(seen: Windows) -> DataFrame:
    """Return the results that have a new row."""
    query = seen.query
    found, visited = shown_of(seen.whole(0), query, 0, "is_new"), [0]
    for stop in range(1, len(query.sides)):
        found = joined(found, shown_of(seen.whole(stop), query, stop, "is_new"), query, visited, stop)
        visited.append(stop)
    has_new = reduce(Column.__or__, [F.col(f"is_new_{side}") for side in visited])
    return results_of(found.where(has_new), query, "online")
