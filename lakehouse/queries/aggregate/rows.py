"""Raw rows of all sides of a join-aggregate as a method takes them, each in the bucket where its partners are.

    bucket, side, event_us, row, k_0 ..., v_0 ..., group      what a method reads
    is_unusable, is_refused                                   rows that no method reads, and why
    batch                                                     the ingest batch that brought it
    g_<name> ...                                              the columns of GROUP BY, of the row's side

Keys and groups are hashes of the values: equal where the values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import LARGEST_VALUE, Rows
from lakehouse.config.stream import Stream
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.tables import group_types
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH
from lakehouse.queries.runtime.tasks.reading import SideRows
from lakehouse.spark.row_hash import xxhash64

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s


def side_rows(
    source: RowSource, query: AggregateQuery, streams: Mapping[str, Stream], buckets: int
) -> list[SideRows]:
    """Return the rows of all sides, in their buckets, as tasks read them."""
    sides = range(len(query.sides))
    return [source.read(side, _columns(query, streams, side, buckets)) for side in sides]


def as_rows(table: pa.Table, query: AggregateQuery) -> Rows:
    """Return rows as methods take them, in their windows from their event time on."""
    side, event = table["side"].to_numpy().astype(np.int8), table["event_us"].to_numpy()
    windows = np.array([each.window_us for each in query.sides], np.int64)
    keys = [table[name].to_numpy() for name in table.column_names if name.startswith("k_")]
    values = [_numbers(table[name]) for name in table.column_names if name.startswith("v_")]
    return Rows.of(
        side,
        event,
        event + windows[side],
        np.column_stack(keys),
        group=table["group"].to_numpy(),
        values=np.column_stack(values) if values else None,
        row=table["row"].to_numpy(),
    )


def buckets_of(query: AggregateQuery, keys: Int64s, buckets: int) -> Int64s:
    """Return the bucket of each row by its keys, as ``side_rows`` places it."""
    shared = [pa.array(np.ascontiguousarray(keys[:, number])) for number in query.bucketed_by]
    return xxhash64(shared, len(keys)) % buckets if shared else np.zeros(len(keys), np.int64)


def is_used(table: pa.Table) -> Bools:
    """Tell which rows a method takes: those with all keys whose clock is believed."""
    used: Bools = ~(table["is_unusable"].to_numpy() | table["is_refused"].to_numpy())
    return used


def _numbers(column: pa.ChunkedArray) -> Any:
    """Return numbers with NaN for null, and for those that methods do not take: no sum could let go of an infinity."""
    numbers = column.fill_null(np.nan).to_numpy()
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(numbers) <= LARGEST_VALUE, numbers, np.nan)


def _columns(
    query: AggregateQuery, streams: Mapping[str, Stream], number: int, buckets: int
) -> tuple[str, ...]:
    side, keys = query.sides[number], _keys(query, number)
    # A null key joins nothing; to a hash it would be a value like any other.
    missing = " OR ".join(f"`{column}` IS NULL" for _, column in side.keys) or "false"
    return (
        f"{number} AS side",
        "event_us",
        f"{ROW_HASH} AS `row`",
        f"{missing} AS is_unusable",
        f"{is_refused(query)} AS is_refused",
        *(f"{key} AS k_{attribute}" for attribute, key in enumerate(keys)),
        *_values(query, number),
        f"{_group(query, number)} AS `group`",
        *_group_columns(query, streams, number),
        "batch",
        f"{_bucket(query, keys, buckets)} AS `bucket`",
    )


def _keys(query: AggregateQuery, number: int) -> list[str]:
    carried = dict(query.sides[number].keys)
    attributes = 1 + max(attribute for side in query.sides for attribute, _ in side.keys)
    return [f"xxhash64(`{carried[each]}`)" if each in carried else "0L" for each in range(attributes)]


def _values(query: AggregateQuery, number: int) -> list[str]:
    own = query.sides[number].values
    widest = max(len(side.values) for side in query.sides)
    values = [*own, *["NULL"] * (widest - len(own))]
    return [f"CAST({value} AS double) AS v_{place}" for place, value in enumerate(values)]


def _group(query: AggregateQuery, number: int) -> str:
    own = [f"`{group.column}`" for group in query.groups if group.side == number]
    return f"xxhash64({', '.join(own)})" if own else "0L"


def _group_columns(query: AggregateQuery, streams: Mapping[str, Stream], number: int) -> list[str]:
    types = group_types(query, streams)
    own = {group.name: f"`{group.column}`" if group.side == number else "NULL" for group in query.groups}
    return [f"CAST({value} AS {types[name]}) AS `g_{name}`" for name, value in own.items()]


def _bucket(query: AggregateQuery, keys: Sequence[str], buckets: int) -> str:
    shared = query.bucketed_by
    if not shared:
        return "0"
    return f"CAST(pmod(xxhash64({', '.join(keys[number] for number in shared)}), {buckets}) AS int)"
