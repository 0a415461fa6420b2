"""The rollup's nodes -> a frame of deviations: one row per level and grouping.

Levels are compared over the time that the finer one keeps. Its horizon H is a multiple of the coarser width, so
no node is cut:

    level 2   [--------)[--------)[--------)[--------)
    level 1             [--)[--)[--)[--)[--)[--)[--)[--
                        H                     rows from here on must be equal

Cost: one pass over the table's nodes. Partial nodes need no combining, for all that is compared adds up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse.home.rollup_schema import RollupSchema, read_rollup_schema
from lakehouse.spark import tables as delta_tables
from lakehouse.spark.deviations import Frame, any_of, collect, count_if, is_not_a_number
from lakehouse.streams.checks import Tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakehouse.declare.stream import Stream
    from lakehouse.home.layout import Home

DISORDERS = ("disordered_values", "disordered_counts", "disordered_times", "not_numbers", "unaligned")


def measure_rollup(spark: SparkSession, home: Home, tables: Tables) -> list[Frame]:
    """Return the frame of the stream's rollup; none where nothing was rolled up yet."""
    table, version = home.rollup(tables.stream.name), tables.rollup_version
    schema = None if version is None else read_rollup_schema(table)
    return rollup_frames(delta_tables.read(spark, table, version), tables, schema) if schema else []


def rollup_frames(nodes: DataFrame, tables: Tables, schema: RollupSchema) -> list[Frame]:
    """Return the frame of these nodes, judged as of the newest marker among them; none without a marker."""
    newest = nodes.where("level = 0").agg(F.max("start_us"), F.max("batch")).first()
    if newest is None or newest[0] is None:
        return []
    kept = schema.horizons(newest[0])
    found = collect(_by_level(nodes.where("level > 0"), tables.stream, kept))
    rows = list(_rows(tables.stream, found, tables.accepted(newest[1])))
    return [Frame("rollup", ("level", "grouping"), rows)]


def _by_level(nodes: DataFrame, stream: Stream, kept: Sequence[int]) -> DataFrame:
    level, start = F.col("level"), F.col("start_us")
    width = _per_level([level_.width_us for level_ in stream.levels])
    doubles = [name for name in stream.measures if stream.all_columns[name].type == "double"]
    parts = [f"{name}__{part}" for name in doubles for part in ("sum", "min", "max")]
    claims = {
        "disordered_values": any_of(_disordered_values(stream)),
        "disordered_counts": any_of(_disordered_counts(stream)),
        "disordered_times": any_of(_disordered_times(stream, width)),
        "not_numbers": any_of(is_not_a_number(part) for part in parts),
        "unaligned": F.pmod(start, width) != 0,
    }
    finer = F.when(level > 1, _per_level([kept[0], *kept[:-1]]))
    return nodes.groupBy("level", "grouping").agg(
        F.sum(F.when(start >= _per_level(kept), F.col("rows"))).alias("kept_rows"),
        F.sum(F.when(start >= finer, F.col("rows"))).alias("rows_where_finer"),
        *(F.sum(count_if(claim)).alias(name) for name, claim in claims.items()),
    )


def _per_level(values: Sequence[int]) -> Column:
    return F.try_element_at(F.array(*(F.lit(value).cast("bigint") for value in values)), F.col("level"))


def _disordered_values(stream: Stream) -> Iterator[Column]:
    for name in stream.measures:
        yield F.col(f"{name}__min") > F.col(f"{name}__max")
    for name in stream.counters:
        yield F.col(f"{name}__drops_low") > F.col(f"{name}__drops_high")


def _disordered_counts(stream: Stream) -> Iterator[Column]:
    yield F.col("rows") <= 0
    for name in stream.measures:
        n = F.col(f"{name}__n")
        yield (n < 0) | (n > F.col("rows"))


def _disordered_times(stream: Stream, width: Column) -> Iterator[Column]:
    first, last, start = F.col("first_us"), F.col("last_us"), F.col("start_us")
    yield (first > last) | (first < start) | (last >= start + width)
    for name in stream.measures:
        yield (F.col(f"{name}__first_us") < first) | (F.col(f"{name}__last_us") > last)


def _rows(stream: Stream, found: Sequence[dict[str, Any]], accepted: int) -> Iterator[dict[str, Any]]:
    by_place = {(row["level"], row["grouping"]): row for row in found}
    top = len(stream.levels)
    declared = [(level, grouping) for level in range(1, top + 1) for grouping in range(len(stream.groupings))]
    for level, grouping in sorted({*declared, *by_place}):
        row = by_place.get((level, grouping), {})
        finer = by_place.get((level - 1, grouping), {})
        is_declared = (level, grouping) in declared
        counts_all = level == top and stream.levels[-1].keep_us is None
        has_finer = is_declared and level > 1
        yield {
            "level": level,
            "grouping": grouping,
            "undeclared": int(not is_declared),
            "gap_to_finer": _gap(row, "rows_where_finer", finer.get("kept_rows") or 0) if has_finer else 0,
            "gap_to_accepted": _gap(row, "kept_rows", accepted) if is_declared and counts_all else 0,
            **{name: row.get(name, 0) for name in DISORDERS},
        }


def _gap(row: dict[str, Any], name: str, expected: int) -> int:
    return abs(int(row.get(name) or 0) - expected)
