"""What the tables of all kinds of query have in common: columns of the query's own, creation, and old states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.declare.columns import sql_type
from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.queries.kind import Output, Side
from lakehouse.queries.runtime.batch_manifest import finished
from lakehouse.spark import tables

_TIMES = ("event_us", "arrival_us")


class Shown(Protocol):
    """A query that shows columns of its streams' rows."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """Its streams."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The columns that it shows."""


@dataclass(frozen=True)
class NewTable:
    """A table of a query that may not be there: where, what sql/tables calls it, and the columns it has room for."""

    path: Path
    statement: str
    columns: Mapping[str, str] = field(default_factory=dict)


def create_tables(layout: Home, query: str, own: Sequence[NewTable], batches: str) -> None:
    """Create a query's tables where they are not there: its ``own``, and last the one that counts its batches."""
    if tables.exists(layout.queries(query)):
        return
    tables.side_by_side(*(partial(tables.create, new.path, new.statement, **new.columns) for new in own))
    tables.create(layout.queries(query), batches)


def tables_of_repairs(layout: Home, query: str) -> tuple[NewTable, ...]:
    """Return the tables of a query that holds rows and is repaired: log, state and repairs."""
    return (
        NewTable(layout.missed_rows(query), "missed_rows"),
        NewTable(layout.states(query), "states"),
        NewTable(layout.repairs(query), "repairs"),
    )


def column_type(streams: Mapping[str, Stream], side: Side, column: str) -> str:
    """Return the stored type of a column of a side's raw rows."""
    return "bigint" if column in _TIMES else sql_type(streams[side.stream].all_columns[column])


def output_types(query: Shown, streams: Mapping[str, Stream]) -> dict[str, str]:
    """Return the query's own columns with their stored types."""
    return {each.name: column_type(streams, query.sides[each.side], each.column) for each in query.outputs}


# Which row it is, by its place in the sources. Spark is given columns as text: each call over the bridge to it costs a
# small batch as much as hundreds of its rows.
ROW_HASH = "xxhash64(source_file, source_line, source_item)"


def hash_of(columns: Sequence[str]) -> str:
    """Return SQL for a number that is equal where these columns are, null where one of them is: null equals nothing."""
    names = [f"`{name}`" for name in columns]
    complete = " AND ".join(f"{name} IS NOT NULL" for name in names)
    return f"IF({complete}, xxhash64({', '.join(names)}), NULL)"


def output_columns(query: Shown, streams: Mapping[str, Stream], side: int) -> Iterator[str]:
    """Yield the query's own columns, as SQL, as rows of a side have them: of other sides null."""
    types = output_types(query, streams)
    for output in query.outputs:
        value = f"`{output.column}`" if output.side == side else "NULL"
        yield f"CAST({value} AS {types[output.name]}) AS `o_{output.name}`"


def as_columns(types: Mapping[str, str], prefix: str = "") -> str:
    """Return columns with types as they follow others in CREATE TABLE."""
    return "".join(f",\n    `{prefix}{name}` {kind}" for name, kind in types.items())


def parsed(columns: str) -> StructType:
    """Return columns with types, as SQL writes them, as a schema."""
    return cast(StructType, StructType.fromDDL(columns))


def drop_old_states(spark: SparkSession, layout: Home, query: str) -> None:
    """Delete what nobody reads any more: superseded counters, and segments that ended by the last finished batch."""
    table, done = layout.states(query), finished(layout, query)
    if not tables.exists(table):
        return
    states = tables.read(spark, table)
    if "leave_us" not in states.columns:
        # Each batch wrote the whole state.
        tables.remove(spark, table, f"batch < {done}")
        return
    markers = states.where(f"batch = {done} AND content IS NULL").groupBy("part").agg(F.min("leave_us"))
    conditions = [f"batch < {done} AND (leave_us IS NULL OR content IS NULL)"]
    for part, alive_from in markers.collect():
        conditions.append(f"part = '{part}' AND leave_us < {alive_from} AND content IS NOT NULL")
    tables.remove(spark, table, " OR ".join(f"({each})" for each in conditions))
