"""The tables of a join-aggregate, and the columns that its own names give them."""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.shape import shape_of
from lakehouse.queries.runtime import tables
from lakehouse.queries.runtime.tables import NewTable, as_columns, column_type, tables_of_repairs

PARTS = {"counted": "bigint", "high": "double", "low": "double", "extreme": "double"}


def group_types(query: AggregateQuery, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the columns of GROUP BY, by the names that answers have for them, with their stored types."""
    return {group.name: column_type(streams, query.sides[group.side], group.column) for group in query.groups}


def measure_types(query: AggregateQuery) -> dict[str, str]:
    """Return the aggregates that SELECT and HAVING name, with their stored types."""
    return {measure.name: "bigint" if measure.function == "count" else "double" for measure in query.measures}


def part_types(aggregates: int) -> dict[str, str]:
    """Return the columns of the parts of so many aggregates: how many values, their sum as two, their extreme."""
    return {f"{part}_{number}": kind for number in range(aggregates) for part, kind in PARTS.items()}


def create_tables(layout: Home, query: AggregateQuery, streams: Mapping[str, Stream]) -> None:
    """Create the query's tables where they are not there."""
    name, groups = query.name, as_columns(group_types(query, streams))
    parts = as_columns(part_types(len(shape_of(query).aggregates)))
    columns = {"columns": groups + as_columns(measure_types(query)), "parts": parts}
    own = [NewTable(layout.answers(name), "answers", columns), *tables_of_repairs(layout, name)]
    if query.is_alarm:
        own.append(NewTable(layout.alarms(name), "alarms", {"groups": groups}))
    tables.create_tables(layout, name, own, "aggregate_batches")
