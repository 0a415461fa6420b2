"""The tables of a selection, and what they hold per batch, for checks.

Cost of a check: one pass over one column of the selected rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.checks import Counting, QueryTables
from lakehouse.queries.runtime.tables import NewTable, as_columns, output_types
from lakehouse.queries.selection.query import SelectionQuery
from lakehouse.storage.layout import Home


def create_tables(layout: Home, query: SelectionQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    columns = {"columns": as_columns(output_types(query, streams))}
    own = (NewTable(layout.selection(query.name), "selection", columns),)
    tables.create_tables(layout, query.name, own, "operators")


@dataclass(frozen=True)
class SelectionTables(QueryTables):
    """The tables of a selection."""

    partition_column = "operator"
    columns = ("rows", "selected")
    found_columns = ("selected",)


def open_tables(
    engine: Engine, layout: Home, query: SelectionQuery, since: int, published_us: int | None
) -> SelectionTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    # All that is there was found online: nothing repairs a selection, and nothing is logged.
    return SelectionTables.opened(engine, layout, query, Counting(layout.selection(query.name), None))
