"""Repairs of a registered query, one after the other: which is next, and the row that finishes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.home.corrections import raw_from, read_corrections
from lakehouse.home.crashpoint import crash_point
from lakehouse.queries.runtime.batch_manifest import (
    Plan,
    finished,
    last_repair,
    read_plan,
    repaired,
    write_plan,
)
from lakehouse.spark import tables

if TYPE_CHECKING:
    from lakehouse.home.layout import Home
    from lakehouse.queries.registered import Query


def drain_repairs(layout: Home, query: str, finish: Callable[[Plan], Mapping[str, int]]) -> dict[str, int]:
    """Make all repairs that are due; return how many, and in sum what was looked at, what was found and what is gone.

    Batches that finish meanwhile are taken by another one.
    """
    figures = {"repairs": 0, "looked_at": 0, "found": 0, "gone": 0}
    while (plan := next_repair(layout, query)) is not None:
        done = finish(plan)
        figures["repairs"] += 1
        for name, value in done.items():
            figures[name] += value
    return figures


def next_repair(layout: Home, query: str) -> Plan | None:
    """Return the repair that was begun and is not finished, or write down the next one; None when nothing is open.

    A repair takes all finished batches that no repair has taken.
    """
    folder, number = layout.plans(query), last_repair(layout, query) + 1
    if begun := read_plan(folder, "repair", number):
        return begun
    done, through = repaired(layout, query), finished(layout, query)
    if done == through:
        return None
    plan = Plan(number, ((done, through),))
    write_plan(folder, "repair", plan)
    crash_point("repair.planned")
    return plan


def finish_repair(
    spark: SparkSession, layout: Home, query: str, plan: Plan, counted: Mapping[str, int], time_us: int | None
) -> None:
    """Append the row that says what a repair has done, so that it is finished."""
    figures = {"repair": plan.number, "through": plan.spans[0][1], **counted, "time_us": time_us}
    row = {**figures, "committed_at": datetime.now(UTC)}
    tables.append_row(spark, row, layout.repairs(query), f"repair-{query}", plan.number)
    crash_point("repair.finished")


def beyond_raw(layout: Home, query: Query, logged: DataFrame, reach_us: int) -> int:
    """Count logged rows whose partners, up to ``reach_us`` older, may lie where raw rows have been dropped."""
    kept = [raw_from(read_corrections(layout, stream)) for stream in query.streams]
    since = max((time for time in kept if time is not None), default=None)
    return 0 if since is None else logged.where(F.col("event_us") - reach_us < since).count()
