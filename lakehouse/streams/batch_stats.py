"""Batch statistics: the counts and times of a batch that its ledger row holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
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

    @property
    def is_balanced(self) -> bool:
        """Whether every row is accounted for: one that was read twice may have been another by then."""
        return self.rows == self.accepted + sum(self.reasons.values()) + self.duplicates


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    return BatchStats(0, 0, 0, 0, {}, dict.fromkeys(stream.measures, 0), None, None, NOTHING_LATE)


def observed_columns(stream: Stream, good: Column) -> list[Column]:
    """Return aggregates of a batch's rows: all, records, then of good ones how many, their times, missing values."""
    missing = [F.count_if(good & is_missing(stream, m)).alias(f"missing_{m}") for m in stream.measures]
    time = F.when(good, F.col("event_us"))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("source_item") == 0).alias("records"),
        F.count_if(good).alias("accepted"),
        F.min(time).alias("low"),
        F.max(time).alias("high"),
        *missing,
    ]


def is_missing(stream: Stream, measure: str) -> Column:
    """Whether a row has no usable value of a measure."""
    value = F.col(measure)
    return value.isNull() | (value < 0) if measure in stream.counters else value.isNull()


def missing_in(rows: pa.Table, stream: Stream, measure: str) -> pa.ChunkedArray:
    """Return the same of rows in Arrow, a truth value each."""
    missing = rows[measure].is_null()
    if measure in stream.counters:
        missing = pc.or_(missing, pc.fill_null(pc.less(rows[measure], 0), False))
    return missing


def observed_stats(
    stream: Stream, found: Mapping[str, Any], reasons: dict[str, int], lateness: Lateness
) -> BatchStats:
    """Return the statistics of a batch from what was observed of ``observed_columns``; it has no duplicates."""
    return BatchStats(
        *(found["rows"], found["records"], found["accepted"], 0, reasons),
        missing={m: found[f"missing_{m}"] for m in stream.measures},
        low=found["low"],
        high=found["high"],
        lateness=lateness,
    )


def counted_stats(
    stream: Stream, rows: pa.Table, accepted: pa.Table, repeats: Mapping[str, int], lateness: Lateness
) -> BatchStats:
    """Return the statistics of a batch from its ``rows``, which have a reason where they are rejected, and repeats.

    ``accepted`` are those of its rows that go to raw, with a truth value ``missing_<measure>`` each.
    """
    counts = rows["reason"].drop_null().value_counts().to_pylist()
    reasons = {each["values"]: each["counts"] for each in counts}
    if repeats.get("conflict"):
        reasons["conflict"] = repeats["conflict"]
    times = pc.min_max(accepted["event_us"]).as_py()
    return BatchStats(
        rows=rows.num_rows,
        records=pc.sum(rows["is_record"]).as_py() or 0,
        accepted=accepted.num_rows,
        duplicates=repeats.get("duplicate", 0),
        reasons=reasons,
        missing={m: pc.sum(accepted[f"missing_{m}"]).as_py() or 0 for m in stream.measures},
        low=times["min"],
        high=times["max"],
        lateness=lateness,
    )
