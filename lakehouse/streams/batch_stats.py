"""Batch statistics: the counts and times of a batch that its ledger row holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness
from lakehouse.declare.stream import Stream


@dataclass(frozen=True)
class BatchStats:
    """Counts of a batch's rows; times and missing values are those of accepted rows."""

    rows: int
    records: int
    accepted: int
    duplicates: int
    reasons: dict[str, int]
    missing: dict[str, int]
    low: int | None
    high: int | None
    lateness: Lateness


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    return BatchStats(0, 0, 0, 0, {}, dict.fromkeys(stream.measures, 0), None, None, NOTHING_LATE)


def stat_columns(stream: Stream, good: Column) -> list[Column]:
    """Return aggregates of a batch's rows: all, records, then of good ones how many, their times, missing values."""
    missing = [F.count_if(good & _is_missing(stream, m)).alias(f"missing_{m}") for m in stream.measures]
    time = F.when(good, F.col("event_us"))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("source_item") == 0).alias("records"),
        F.count_if(good).alias("accepted"),
        F.min(time).alias("low"),
        F.max(time).alias("high"),
        *missing,
    ]


def _is_missing(stream: Stream, measure: str) -> Column:
    value = F.col(measure)
    return value.isNull() | (value < 0) if measure in stream.counters else value.isNull()


def combined_stats(
    stream: Stream,
    parts: Sequence[Row | dict[str, Any]],
    reasons: dict[str, int],
    duplicates: int,
    lateness: Lateness,
) -> BatchStats:
    """Add up the statistics of a batch's parts."""
    times = [(row["low"], row["high"]) for row in parts if row["low"] is not None]
    added = {name: sum(row[name] for row in parts) for name in ("rows", "records", "accepted")}
    return BatchStats(
        **added,
        duplicates=duplicates,
        reasons=reasons,
        missing={m: sum(row[f"missing_{m}"] for row in parts) for m in stream.measures},
        low=min((low for low, _ in times), default=None),
        high=max((high for _, high in times), default=None),
        lateness=lateness,
    )
