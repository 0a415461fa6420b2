"""The tables of a window join."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.pairs.query import PairsQuery
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.tables import NewTable, as_columns, output_types, tables_of_repairs


def create_tables(layout: Home, query: PairsQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    columns = {"columns": as_columns(output_types(query, streams))}
    own = (NewTable(layout.pairs(query.name), "pairs", columns), *tables_of_repairs(layout, query.name))
    tables.create_tables(layout, query.name, own, "pairs_batches")
