"""The tables of a window join, and the columns of its own that pairs have."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.registered import PairsQuery
from lakehouse.queries.runtime.tables import output_types
from lakehouse.spark import tables


def create_tables(
    spark: SparkSession, layout: Home, query: PairsQuery, streams: Mapping[str, Stream]
) -> None:
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
