"""What the tables of all kinds of query have in common: columns of the query's own, schemas, and old states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.registered import MultiwayQuery, PairsQuery, SelectionQuery
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.spark import tables

_TIMES = ("event_us", "arrival_us")


def output_types(
    query: PairsQuery | MultiwayQuery | SelectionQuery, streams: Mapping[str, Stream]
) -> dict[str, str]:
    """Return the query's own columns with their stored types."""
    return {
        output.name: "bigint"
        if output.column in _TIMES
        else sql_type(streams[query.sides[output.side].stream].all_columns[output.column])
        for output in query.outputs
    }


def output_columns(
    query: PairsQuery | MultiwayQuery, streams: Mapping[str, Stream], side: int
) -> Iterator[Column]:
    """Yield the query's own columns as rows of a side have them: of other sides null."""
    types = output_types(query, streams)
    for output in query.outputs:
        value = F.col(output.column) if output.side == side else F.lit(None)
        yield value.cast(types[output.name]).alias(f"o_{output.name}")


def parsed(columns: str) -> StructType:
    """Return columns with types, as SQL writes them, as a schema."""
    return cast(StructType, StructType.fromDDL(columns))


def drop_old_states(spark: SparkSession, layout: Home, query: str) -> None:
    """Delete the state of batches before the last finished one, which nobody reads any more."""
    if tables.exists(layout.states(query)):
        tables.remove(spark, layout.states(query), f"batch < {finished(layout, query)}")
