"""The tables of a sample: those of a selection serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakehouse.config.stream import Stream
from lakehouse.engine import Engine
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.checks import Counting, QueryTables
from lakehouse.queries.runtime.tables import NewTable, as_columns, output_types
from lakehouse.storage.layout import Home
from tests.queries.toy_kind.query import SampleQuery


def create_tables(layout: Home, query: SampleQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    columns = {"columns": as_columns(output_types(query, streams))}
    own = (NewTable(layout.selection(query.name), "selection", columns),)
    tables.create_tables(layout, query.name, own, "operators")


@dataclass(frozen=True)
class SampleTables(QueryTables):
    """The tables of a sample."""

    partition_column = "operator"
    columns = ("rows", "selected")
    found_columns = ("selected",)


def open_tables(
    engine: Engine, layout: Home, query: SampleQuery, since: int, published_us: int | None
) -> SampleTables | None:
    """Return what a query's tables hold, None where no batch is finished."""
    return SampleTables.opened(engine, layout, query, Counting(layout.selection(query.name), None))
