"""The tables of a window join, and the columns of its own that pairs have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.catalog.layout import Home
from lakehouse.catalog.plans import finished
from lakehouse.catalog.queries import JoinQuery, MultiwayQuery, SelectionQuery
from lakehouse.catalog.stream import Stream
from lakehouse.spark import tables
from lakehouse.spark.sources.rows import sql_type

_TIMES = ("event_us", "arrival_us")


def output_types(
    query: JoinQuery | MultiwayQuery | SelectionQuery, streams: Mapping[str, Stream]
) -> dict[str, str]:
    """Return the query's own columns with their stored types."""
    return {
        output.name: "bigint"
        if output.column in _TIMES
        else sql_type(streams[query.sides[output.side].stream].all_columns[output.column])
        for output in query.outputs
    }


def output_columns(
    query: JoinQuery | MultiwayQuery, streams: Mapping[str, Stream], side: int
) -> Iterator[Column]:
    """Yield the query's own columns as rows of a side have them: of other sides null."""
    types = output_types(query, streams)
    for output in query.outputs:
        value = F.col(output.column) if output.side == side else F.lit(None)
        yield value.cast(types[output.name]).alias(f"o_{output.name}")


def parsed(columns: str) -> StructType:
    """Return columns with types, as SQL writes them, as a schema."""
    return cast(StructType, StructType.fromDDL(columns))


def create_tables(spark: SparkSession, layout: Home, query: JoinQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there; the one that counts its batches is last."""
    if tables.exists(layout.queries(query.name)):
        return
    types = output_types(query, streams)
    columns = "".join(f",\n    `{name}` {kind}" for name, kind in types.items())
    create = tables.create
    tables.side_by_side(
        lambda: create(spark, layout.joins(query.name), "joins", columns=columns),
        lambda: create(spark, layout.late(query.name), "late"),
        lambda: create(spark, layout.states(query.name), "states"),
        lambda: create(spark, layout.repairs(query.name), "repairs"),
    )
    create(spark, layout.queries(query.name), "queries")


def drop_old_states(spark: SparkSession, layout: Home, query: str) -> None:
    """Delete the state of batches before the last finished one, which nobody reads any more."""
    if tables.exists(layout.states(query)):
        tables.remove(spark, layout.states(query), f"batch < {finished(layout, query)}")
