"""The tables of a selection."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.runtime.tables import output_types
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.spark import tables


def create_tables(
    spark: SparkSession, layout: Home, query: SelectionQuery, streams: Mapping[str, Stream]
) -> None:
    """Create the query's tables where they are not there; the one that counts its batches is last."""
    if tables.exists(layout.queries(query.name)):
        return
    shown = "".join(f",\n    `{name}` {kind}" for name, kind in output_types(query, streams).items())
    tables.create(spark, layout.selected(query.name), "selected", columns=shown)
    tables.create(spark, layout.queries(query.name), "operators")
