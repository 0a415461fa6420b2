"""Raw rows of all sides of a join-aggregate as a method takes them, each in the bucket where its partners are.

    bucket, side, event_us, row, k_0 ..., v_0 ..., group      what a method reads
    is_unusable, is_refused                                   rows that no method reads, and why
    batch                                                     the ingest batch that brought it
    g_<name> ...                                              the columns of GROUP BY, of the row's side

Keys and groups are hashes of the values: equal where the values are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.join_aggregate.contract import LARGEST_VALUE, Rows
from lakehouse.declare.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.tables import group_types
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.source import RowSource

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Bools


def raw_rows(
    source: RowSource, query: AggregateQuery, streams: Mapping[str, Stream], buckets: int
) -> DataFrame:
    """Return the rows of all sides, in their buckets."""
    sides = [
        _side(source, query, streams, side).withColumn("bucket", _bucket(query, buckets))
        for side in range(len(query.sides))
    ]
    return reduce(DataFrame.unionByName, sides)


def as_rows(table: pa.Table, query: AggregateQuery, enter_us: Any = None) -> Rows:
    """Return rows as methods take them, in their windows from their event time, or from ``enter_us``, on."""
    side, event = table["side"].to_numpy().astype(np.int8), table["event_us"].to_numpy()
    windows = np.array([each.window_us for each in query.sides], np.int64)
    keys = [table[name].to_numpy() for name in table.column_names if name.startswith("k_")]
    values = [_numbers(table[name]) for name in table.column_names if name.startswith("v_")]
    return Rows.of(
        side,
        event if enter_us is None else enter_us,
        event + windows[side],
        np.column_stack(keys),
        group=table["group"].to_numpy(),
        values=np.column_stack(values) if values else None,
        row=table["row"].to_numpy(),
    )


def is_used(table: pa.Table) -> Bools:
    """Tell which rows a method takes: those with all keys whose clock is believed."""
    used: Bools = ~(table["is_unusable"].to_numpy() | table["is_refused"].to_numpy())
    return used


def _numbers(column: pa.ChunkedArray) -> Any:
    """Return numbers with NaN for null, and for those that methods do not take: no sum could let go of an infinity."""
    numbers = column.fill_null(np.nan).to_numpy()
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(numbers) <= LARGEST_VALUE, numbers, np.nan)


def _side(source: RowSource, query: AggregateQuery, streams: Mapping[str, Stream], number: int) -> DataFrame:
    side = query.sides[number]
    # A null key joins nothing; to a hash it would be a value like any other.
    missing = reduce(lambda one, key: one | F.col(key[1]).isNull(), side.keys, F.lit(False))
    return source.rows(number).select(
        F.lit(number).alias("side"),
        "event_us",
        F.xxhash64("source_file", "source_line", "source_item").alias("row"),
        missing.alias("is_unusable"),
        is_refused(query).alias("is_refused"),
        *_keys(query, number),
        *_values(query, number),
        _group(query, number).alias("group"),
        *_group_columns(query, streams, number),
        "batch",
    )


def _keys(query: AggregateQuery, number: int) -> list[Column]:
    carried = dict(query.sides[number].keys)
    attributes = 1 + max(attribute for side in query.sides for attribute, _ in side.keys)
    hashes = {attribute: F.xxhash64(F.col(column)) for attribute, column in carried.items()}
    return [hashes.get(each, F.lit(0).cast("bigint")).alias(f"k_{each}") for each in range(attributes)]


def _values(query: AggregateQuery, number: int) -> list[Column]:
    own = query.sides[number].values
    widest = max(len(side.values) for side in query.sides)
    nothing = F.lit(None).cast("double")
    values = [F.expr(own[place]).cast("double") if place < len(own) else nothing for place in range(widest)]
    return [value.alias(f"v_{place}") for place, value in enumerate(values)]


def _group(query: AggregateQuery, number: int) -> Column:
    own = [F.col(group.column) for group in query.groups if group.side == number]
    return F.xxhash64(*own) if own else F.lit(0).cast("bigint")


def _group_columns(query: AggregateQuery, streams: Mapping[str, Stream], number: int) -> list[Column]:
    types = group_types(query, streams)
    return [
        (F.col(group.column) if group.side == number else F.lit(None))
        .cast(types[group.name])
        .alias(f"g_{group.name}")
        for group in query.groups
    ]


def _bucket(query: AggregateQuery, buckets: int) -> Column:
    shared = query.bucketed_by
    if not shared:
        return F.lit(0)
    return F.pmod(F.xxhash64(*(F.col(f"k_{number}") for number in shared)), F.lit(buckets)).cast("int")
