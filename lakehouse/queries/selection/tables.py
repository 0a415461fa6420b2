"""The tables of a selection."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.tables import NewTable, as_columns, output_types
from lakehouse.queries.selection.query import SelectionQuery


def create_tables(layout: Home, query: SelectionQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    columns = {"columns": as_columns(output_types(query, streams))}
    own = (NewTable(layout.selection(query.name), "selection", columns),)
    tables.create_tables(layout, query.name, own, "operators")
