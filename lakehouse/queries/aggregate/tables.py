"""The tables of a join-aggregate, and the columns that its own names give them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.spark import tables

_TIMES = ("event_us", "arrival_us")
PARTS = {"counted": "bigint", "high": "double", "low": "double", "extreme": "double"}


def group_types(query: AggregateQuery, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the columns of GROUP BY, by the names that answers have for them, with their stored types."""
    return {
        group.name: "bigint"
        if group.column in _TIMES
        else sql_type(streams[query.sides[group.side].stream].all_columns[group.column])
        for group in query.groups
    }


def measure_types(query: AggregateQuery) -> dict[str, str]:
    """Return the aggregates that SELECT and HAVING name, with their stored types."""
    return {measure.name: "bigint" if measure.function == "count" else "double" for measure in query.measures}


def part_types(aggregates: int) -> dict[str, str]:
    """Return the columns of the parts of so many aggregates: how many values, their sum as two, their extreme."""
    return {f"{part}_{number}": kind for number in range(aggregates) for part, kind in PARTS.items()}


def create_tables(
    spark: SparkSession,
    layout: Home,
    query: AggregateQuery,
    streams: Mapping[str, Stream],
    aggregates: int,
) -> None:
    """Create the query's tables where they are not there; the one that counts its batches is last."""
    if tables.exists(layout.queries(query.name)):
        return
    groups = _columns(group_types(query, streams))
    create, name = tables.create, query.name
    columns, parts = groups + _columns(measure_types(query)), _columns(part_types(aggregates))
    steps = [
        lambda: create(spark, layout.answers(name), "answers", columns=columns, parts=parts),
        lambda: create(spark, layout.late(name), "late"),
        lambda: create(spark, layout.states(name), "states"),
        lambda: create(spark, layout.repairs(name), "repairs"),
    ]
    if query.is_alarm:
        steps.append(lambda: create(spark, layout.alarms(name), "alarms", groups=groups))
    tables.side_by_side(*steps)
    create(spark, layout.queries(name), "aggregates")


def _columns(types: Mapping[str, str]) -> str:
    return "".join(f",\n    `{name}` {kind}" for name, kind in types.items())
