"""Answers -> alarms: what a batch or a repair changes about when groups began and ceased to be alarming."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.algorithms.join_aggregate.alarms import OPEN_US, Followed, Runs, followed
from lakehouse.home.table_log import most_rows
from lakehouse.queries.aggregate.answers import coded
from lakehouse.queries.aggregate.query import AggregateQuery
from lakehouse.queries.aggregate.standing_alarms import near, newest, standing_alarms
from lakehouse.queries.aggregate.tables import group_types
from lakehouse.queries.runtime.bucket_answers import Rows, fit_here
from lakehouse.spark import tables
from lakehouse.spark.ddl import schema_of
from lakehouse.spark.row_hash import xxhash64

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.algorithms.join_aggregate.contract import Int64s
    from lakehouse.declare.stream import Stream


@dataclass(frozen=True)
class Changed:
    """Ticks from ``from_us`` on may have other answers; ``last_us`` is the last tick answered."""

    from_us: int
    last_us: int


def changes(
    spark: SparkSession,
    query: AggregateQuery,
    streams: Mapping[str, Stream],
    alarms: Path,
    answers: Path,
    changed: Changed,
    found: str,
    batch: int,
    places: int,
) -> Rows:
    """Return a row for each alarm that is new, or other than its newest row says.

    An alarm is named after what raised it, so that one which was withdrawn and is raised again has a new name. Cost:
    the answers since ``changed.from_us``, and the alarms that stand.
    """
    groups = group_types(query, streams)
    shown = ", ".join(f"`{name}` {kind}" for name, kind in groups.items())
    times = "state string, raised_us bigint, cleared_us bigint, change int, merged_into string"
    schema = schema_of(f"alarm string, {shown}{', ' if shown else ''}{times}")
    work = _follower(query, to_arrow_schema(schema), changed)
    since = "tick_us", changed.from_us, None
    lateness_us = query.slack_us + max(streams[side.stream].latest for side in query.sides)
    standing = standing_alarms(alarms, changed.from_us, changed.last_us - lateness_us)
    if standing is not None and fit_here(most_rows(answers, since) + standing.num_rows):
        told = work(standing, tables.read_between(answers, since))
        return named_here(told, query, found, batch)
    rows = tables.read(spark, answers).where(F.col("tick_us") >= changed.from_us)
    place = F.pmod(F.xxhash64(F.lit(""), *(F.col(name) for name in groups)), F.lit(places)).alias("_place")
    known = tables.read(spark, alarms).groupBy(place)
    told = known.cogroup(rows.groupBy(place)).applyInArrow(work, schema)
    return named(told, query, found, batch)


def named_here(told: pa.Table, query: AggregateQuery, found: str, batch: int) -> pa.Table:
    """Return changes with a name for each new alarm, the one that ``named`` gives it."""
    run = pa.repeat(_run_of(query, found, batch), told.num_rows)
    hashes = xxhash64([run, *(told[group.name] for group in query.groups), told["raised_us"]], told.num_rows)
    digits = np.frombuffer(hashes.astype(">i8").tobytes().hex().encode(), "S16")
    names = pc.utf8_ltrim(pa.array(digits.astype("U16"), pa.string()), characters="0")
    place = told.column_names.index("alarm")
    return told.set_column(place, told.field(place), pc.coalesce(told["alarm"], names))


def _run_of(query: AggregateQuery, found: str, batch: int) -> str:
    return f"{query.name} {found} {batch}"


def named(told: DataFrame, query: AggregateQuery, found: str, batch: int) -> DataFrame:
    """Return changes with a name for each new alarm, made of what raised it."""
    groups = (F.col(group.name) for group in query.groups)
    name = F.lower(F.hex(F.xxhash64(F.lit(_run_of(query, found, batch)), *groups, "raised_us")))
    return told.withColumn("alarm", F.coalesce("alarm", name))


def _follower(
    query: AggregateQuery, schema: pa.Schema, changed: Changed
) -> Callable[[pa.Table, pa.Table], pa.Table]:
    names = [group.name for group in query.groups]

    def follow(alarms: pa.Table, answers: pa.Table) -> pa.Table:
        known = near(alarms, changed.from_us)
        holding = newest(answers, ["tick_us", *names], "revision").filter(pc.field("holds"))
        both = pa.concat_tables([known.select(["raised_us", *names]), _moments(holding, names)])
        group = coded(both, names)
        order = pa.array(np.lexsort((known["raised_us"].to_numpy(), group[: known.num_rows])))
        known, before = known.take(order), group[: known.num_rows][order.to_numpy()]
        raised, cleared = (known[name].fill_null(OPEN_US).to_numpy() for name in ("raised_us", "cleared_us"))
        ticks = group[known.num_rows :], holding["tick_us"].to_numpy()
        told = followed(
            Runs(before, raised, cleared), *ticks, changed.from_us, changed.last_us, query.every_us
        )
        is_same = np.zeros(len(told.runs), np.bool_)
        old = told.alarm >= 0
        was = told.alarm[old]
        is_same[old] = (told.runs.raised_us[old] == raised[was]) & (told.runs.cleared_us[old] == cleared[was])
        groups = both.take(pa.array(_first_of(group, told.runs.group))).select(names)
        now = _now(known, told, groups).filter(pa.array(~is_same))
        parts = [part.select(schema.names).cast(schema) for part in (now, _gone(known, told))]
        return pa.concat_tables(parts)

    return follow


def _moments(holding: pa.Table, names: list[str]) -> pa.Table:
    return holding.select(["tick_us", *names]).rename_columns(["raised_us", *names])


def _first_of(group: Int64s, wanted: Int64s) -> Int64s:
    """Return the first position of each group wanted."""
    known, first = np.unique(group, return_index=True)
    positions: Int64s = first[np.searchsorted(known, wanted)]
    return positions


def _now(known: pa.Table, told: Followed, groups: pa.Table) -> pa.Table:
    """Return how the alarm of each run stands; a new one has no name yet."""
    runs, before = told.runs, pa.array(told.alarm, mask=told.alarm < 0)
    is_open = runs.cleared_us == OPEN_US
    columns = {
        "alarm": known["alarm"].take(before),
        **{name: groups[name] for name in groups.column_names},
        "state": pc.if_else(pa.array(is_open), "raised", "cleared"),
        "raised_us": pa.array(runs.raised_us),
        "cleared_us": pa.array(runs.cleared_us, mask=is_open),
        "change": pc.fill_null(pc.add(known["change"].take(before), 1), 0),
        "merged_into": pa.nulls(len(runs), pa.string()),
    }
    return pa.table(columns)


def _gone(known: pa.Table, told: Followed) -> pa.Table:
    """Return alarms that no run continues, with the one that has their time now."""
    heir = np.where(told.run >= 0, told.alarm[told.run], -1) if len(told.alarm) else told.run
    is_gone = heir != np.arange(known.num_rows)
    heirs = pa.array(heir, mask=heir < 0)
    columns = {name: known[name] for name in known.column_names} | {
        "state": pa.repeat("withdrawn", known.num_rows),
        "change": pc.add(known["change"], 1),
        "merged_into": known["alarm"].take(heirs),
    }
    return pa.table(columns).filter(pa.array(is_gone))
