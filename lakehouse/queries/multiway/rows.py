"""Raw rows of all sides of a join of three streams or more.

    side, event_us, row, key, slot      what a join reads; key and slot are null where a key column is
    is_refused                          a clock ahead of its own arrival: it joins nothing
    batch                               the ingest batch that brought it
    o_<name> ...                        the query's own columns, of the row's side

Keys are hashes of the values: equal where the values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.queries.multiway.query import SLOTS, MultiwayQuery
from lakehouse.queries.runtime.progress import is_refused
from lakehouse.queries.runtime.source import RowSource
from lakehouse.queries.runtime.tables import ROW_HASH, hash_of, output_columns


def raw_rows(source: RowSource, query: MultiwayQuery, streams: Mapping[str, Stream], slots: int) -> DataFrame:
    """Return the rows of all sides."""
    sides = range(len(query.sides))
    rows = reduce(DataFrame.unionByName, [side_rows(source, query, streams, side) for side in sides])
    return rows.withColumn("slot", F.pmod(F.col("key"), F.lit(sorted_slots(slots))).cast("int"))


def sorted_slots(slots: int) -> int:
    """Return by how many slots rows are sorted in the windows' files, where they are counted by so many."""
    return min(slots, SLOTS)


def is_used() -> Column:
    """Tell which rows join: those with a whole key whose clock is believed."""
    return F.col("key").isNotNull() & ~F.col("is_refused")


def kind_of_row(horizon_us: int | None) -> Column:
    """Return what a row is to a batch: refused, unusable, missed (late: some that it joins may be gone), or used."""
    kind = F.when(F.col("is_refused"), "refused").when(F.col("key").isNull(), "unusable")
    late = F.lit(False) if horizon_us is None else F.col("event_us") < horizon_us
    return kind.when(late, "missed").otherwise("used")


def side_rows(
    source: RowSource, query: MultiwayQuery, streams: Mapping[str, Stream], number: int
) -> DataFrame:
    """Return the rows of one side, without their slot."""
    return source.select(number, side_columns(query, streams, number))


def side_columns(query: MultiwayQuery, streams: Mapping[str, Stream], number: int) -> tuple[str, ...]:
    """Return what a row of a side is, as SQL over the raw table's columns, without its slot."""
    return (
        f"{number} AS side",
        "event_us",
        f"{ROW_HASH} AS `row`",
        f"{hash_of(query.sides[number].keys)} AS `key`",
        f"{is_refused(query)} AS is_refused",
        "batch",
        *output_columns(query, streams, number),
    )


def keyed(columns: Sequence[str], places: int) -> tuple[str, ...]:
    """Return columns of rows with the place in which all rows of a key meet."""
    key = next(each.removesuffix(" AS `key`") for each in columns if each.endswith(" AS `key`"))
    return (*columns, f"CAST(pmod(coalesce({key}, 0L), {places}) AS int) AS bucket")
