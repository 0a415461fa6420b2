"""Raw rows of all sides of a join-aggregate as a method takes them, each in the bucket where its partners are.

    bucket, side, event_us, row, k_0 ...                      what a method reads; a key not carried is null
    v_0_0 ...                                                 the values of side 0, others' are null
    is_unusable, is_refused                                   rows that no method reads, and why
    batch                                                     the ingest batch that brought it
    g_<name> ...                                              the columns of GROUP BY, of the row's side

Rows meet in a bucket by a hash of the keys that all sides carry. In it keys and groups are compared by value
([value_codes.py](value_codes.py)).
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import Bools, Float64s, Int64s, Rows
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery, values_of, width_of
from lakehouse.queries.aggregate.tables import group_types
from lakehouse.queries.aggregate.value_codes import BucketCodes
from lakehouse.queries.aggregate.values import columns_of
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH, bucket_of, column_type
from lakehouse.queries.runtime.tasks.reading import SideRows
from lakehouse.spark.row_hash import xxhash64


def side_rows(
    source: RowSource, query: AggregateQuery, streams: Mapping[str, Stream], buckets: int
) -> list[SideRows]:
    """Return the rows of all sides, in their buckets, as tasks read them."""
    sides = range(len(query.sides))
    return [source.read(side, _columns(query, streams, side, buckets)) for side in sides]


def as_rows(
    table: pa.Table, query: AggregateQuery, codes: BucketCodes, came_us: Int64s | int | None = None
) -> Rows:
    """Return rows as methods take them, in their windows from their event time on; ``codes`` number their values.

    ``came_us``: with a recall, what all streams had passed before the batch of each, or of all; None for not known, as
    is a time before 1970.
    """
    side, event = table["side"].to_numpy().astype(np.int8), table["event_us"].to_numpy()
    windows = np.array([each.window_us for each in query.sides], np.int64)
    return Rows.of(
        side,
        event,
        event + windows[side],
        codes.keys(table),
        group=codes.group(table),
        values=_numbers(table, query, came_us),
        row=table["row"].to_numpy(),
    )


def buckets_of(query: AggregateQuery, rows: pa.Table, buckets: int) -> Int64s:
    """Return the bucket of each row by its keys, as ``side_rows`` places it."""
    shared = [rows[f"k_{number}"] for number in query.bucketed_by]
    return xxhash64(shared, len(rows)) % buckets if shared else np.zeros(len(rows), np.int64)


def is_used(table: pa.Table) -> Bools:
    """Tell which rows a method takes: those with all keys whose clock is believed."""
    used: Bools = ~(table["is_unusable"].to_numpy() | table["is_refused"].to_numpy())
    return used


def _numbers(table: pa.Table, query: AggregateQuery, came_us: Int64s | int | None) -> Float64s:
    """Return the columns of numbers that are made of the values of each side, NaN where a row is of another."""
    numbers, of_side = np.full((table.num_rows, width_of(query)), np.nan), table["side"].to_numpy()
    if query.recall is not None and came_us is not None:
        numbers[:, -1] = np.where(np.asarray(came_us) > 0, came_us, np.nan)
    for side, values in enumerate(values_of(query)):
        own = np.flatnonzero(of_side == side)
        for place, value in enumerate(values):
            column = table[f"v_{side}_{place}"].take(pa.array(own)).combine_chunks()
            numbers[own, value.first : value.first + value.columns] = columns_of(value, column)
    return numbers


def _columns(
    query: AggregateQuery, streams: Mapping[str, Stream], number: int, buckets: int
) -> tuple[str, ...]:
    side, keys = query.sides[number], _keys(query, streams, number)
    # A null key joins nothing.
    missing = " OR ".join(f"`{column}` IS NULL" for _, column in side.keys) or "false"
    return (
        f"{number} AS side",
        "event_us",
        f"{ROW_HASH} AS `row`",
        f"{missing} AS is_unusable",
        f"{is_refused(query)} AS is_refused",
        *(f"{key} AS k_{attribute}" for attribute, key in enumerate(keys)),
        *_values(query, number),
        *_group_columns(query, streams, number),
        "batch",
        bucket_of([keys[number] for number in query.bucketed_by], buckets),
    )


def _keys(query: AggregateQuery, streams: Mapping[str, Stream], number: int) -> list[str]:
    carried = dict(query.sides[number].keys)
    # Columns of one attribute are of one type, whichever side's they are.
    types = {
        attribute: column_type(streams, side, column)
        for side in query.sides
        for attribute, column in side.keys
    }
    values = {attribute: f"`{column}`" for attribute, column in carried.items()}
    return [f"CAST({values.get(each, 'NULL')} AS {types[each]})" for each in sorted(types)]


def _values(query: AggregateQuery, number: int) -> list[str]:
    return [
        f"CAST({text if side == number else 'NULL'} AS {value.type}) AS v_{side}_{place}"
        for side, values in enumerate(values_of(query))
        for place, (text, value) in enumerate(zip(query.sides[side].values, values, strict=True))
    ]


def _group_columns(query: AggregateQuery, streams: Mapping[str, Stream], number: int) -> list[str]:
    types = group_types(query, streams)
    own = {group.name: f"`{group.column}`" if group.side == number else "NULL" for group in query.groups}
    # Both zeros are one group, shown as 0.
    zero = {name: " + 0.0" if kind == "double" else "" for name, kind in types.items()}
    return [f"CAST({value} AS {types[name]}){zero[name]} AS `g_{name}`" for name, value in own.items()]
