"""The tables of a join of three streams or more, and what they hold per batch and per repair, for checks.

Cost of a check: one pass over two columns of the results and over the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.table_log import most_rows
from lakehouse.queries.multiway.query import MultiwayQuery
from lakehouse.queries.runtime import tables as query_tables
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.queries.runtime.checks import COUNTS, QueryTables, scanned
from lakehouse.queries.runtime.progress import until_us_of
from lakehouse.queries.runtime.tables import NewTable, as_columns, output_types, tables_of_repairs
from lakehouse.spark import tables


def create_tables(layout: Home, query: MultiwayQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    types, name = output_types(query, streams), query.name
    own = (
        NewTable(layout.multiway(name), "multiway", {"columns": as_columns(types)}),
        NewTable(layout.windows(name), "windows", {"columns": as_columns(types, "o_")}),
        *tables_of_repairs(layout, name),
    )
    query_tables.create_tables(layout, name, own, "multiway_batches")


def drop_old_rows(spark: SparkSession, layout: Home, query: MultiwayQuery) -> None:
    """Delete the rows that no later batch meets: those beyond their windows once the last batch was finished."""
    done = finished(layout, query.name)
    until_us = until_us_of(layout, query.name, done)
    if until_us is None or not most_rows(layout.windows(query.name)):
        return
    horizon = until_us - query.slack_us
    gone = [
        f"side = {number} AND event_us < {horizon - side.window_us}"
        for number, side in enumerate(query.sides)
    ]
    tables.remove(spark, layout.windows(query.name), f"batch <= {done} AND ({' OR '.join(gone)})")


@dataclass(frozen=True)
class MultiwayTables(QueryTables):
    """The tables of a join of three streams or more."""

    partition_column = "side"
    columns = (*COUNTS, "results")
    found_columns = ("results",)


def open_tables(
    layout: Home, query: MultiwayQuery, since: int, published_us: int | None
) -> MultiwayTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    return MultiwayTables.opened(layout, query, scanned(layout.multiway(query.name), ("found", "batch")))
