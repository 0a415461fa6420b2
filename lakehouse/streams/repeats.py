"""Identities that stand again as near as duplicates can: what no raw table should hold.

Few rows are compared in this process; more are Spark's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.declare.stream import Stream
    from lakehouse.streams.table_rows import TableRows

# So many rows are compared in this process.
FEW_ROWS = 1_000_000


def repeated_identities(
    stream: Stream, raw: TableRows, batches: tuple[int, int], spark: SparkSession | None
) -> Mapping[int, int]:
    """Count per batch, of those after one up to and with another, the rows whose identity stands again.

    Rows of earlier batches are compared as well where those of the same time are few, and always where every batch is
    asked for.
    """
    identity = ["record_hash"] if stream.identity_is_record else list(stream.identity)
    since, through = batches
    if not identity:
        return {}
    new = raw.between("batch", since + 1, through)
    low, high = _times(new, batches)
    if low is None or high is None:
        return {}
    low, high = low - stream.repeat_distance_us, high + stream.repeat_distance_us
    around = raw.between("event_us", low, high)
    is_all = since < 0
    chosen = around if is_all or around.count <= FEW_ROWS else new
    if chosen.count > FEW_ROWS and spark is not None:
        first = -1 if is_all else since
        return _by_spark(spark, stream, identity, raw, (first, since, through), (low, high))
    names = list(dict.fromkeys([*identity, "event_us", "batch"]))
    kept = (ds.field("batch") <= through) & (ds.field("event_us") >= low) & (ds.field("event_us") <= high)
    return repeats(
        chosen.dataset().to_table(columns=names, filter=kept), identity, stream.repeat_distance_us, since
    )


def _times(new: TableRows, batches: tuple[int, int]) -> tuple[int | None, int | None]:
    """Return the earliest and latest time of new rows."""
    rows = (ds.field("batch") > batches[0]) & (ds.field("batch") <= batches[1])
    ends = []
    for batch in new.dataset().to_batches(columns=["event_us"], filter=rows):
        found = pc.min_max(batch["event_us"]).as_py()
        ends += [time for time in found.values() if time is not None]
    return min(ends, default=None), max(ends, default=None)


def repeats(rows: pa.Table, identity: Sequence[str], within_us: int, since: int) -> dict[int, int]:
    """Count rows that follow one of the same identity within a time, by the newer batch of both, where it is new.

    A row that lacks a part of it has no identity, so ingest accepts it however often it comes.
    """
    rows = rows.filter(reduce(and_, (pc.field(name).is_valid() for name in identity)))
    columns = [rows[name] for name in identity]
    codes = [
        column.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        for column in columns
    ]
    event, batch = rows["event_us"].to_numpy(), rows["batch"].to_numpy()
    order = np.lexsort((event, *codes))
    event, batch = event[order], batch[order]
    is_same = np.ones(max(len(order) - 1, 0), np.bool_)
    for code in codes:
        found = code[order]
        is_same &= found[1:] == found[:-1]
    newer = np.maximum(batch[1:], batch[:-1])
    chosen = newer[is_same & (event[1:] - event[:-1] <= within_us) & (newer > since)]
    numbers, counts = np.unique(chosen, return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))


def _by_spark(
    spark: SparkSession,
    stream: Stream,
    identity: Sequence[str],
    raw: TableRows,
    batches: tuple[int, int, int],
    times: tuple[int, int],
) -> dict[int, int]:
    from lakehouse.spark.tables import read

    first, since, through = batches
    rows = read(spark, raw.table).where(f"batch > {first} AND batch <= {through}")
    found = spark_repeats(
        rows.where(f"event_us BETWEEN {times[0]} AND {times[1]}"), identity, stream.repeat_distance_us
    )
    return {row["batch"]: row["repeated"] for row in found.where(f"batch > {since}").collect()}


def spark_repeats(rows: DataFrame, identity: Sequence[str], within_us: int) -> DataFrame:
    """Return what ``repeats`` does, of rows that are too many for one process."""
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    rows = rows.dropna(subset=list(identity))
    before = Window.partitionBy(*identity).orderBy("event_us")
    gap = F.col("event_us") - F.lag("event_us").over(before)
    newest = F.greatest("batch", F.lag("batch").over(before))
    pairs = rows.select(gap.alias("gap"), newest.alias("batch"))
    return pairs.where(F.col("gap") <= within_us).groupBy("batch").agg(F.count("*").alias("repeated"))
