"""What follows from raw rows that were taken back out: nodes, newest time, horizons and the ledger's times.

    newest        the latest of the rows that are left; where it moves back, so do the horizons
    nodes         of the whole top nodes around the rows, and of all times that levels hold again, from raw
    floors        where raw is gone, what finer levels forgot because of a wrong newest row stays forgotten
    ledger        earliest, latest and newest time of its batches; its counts tell what came in, and stay

Every step can be made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.rollup.levels import floor_to, horizons
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import RETENTION, Correction, raw_from, read_corrections
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.rollup_table import Marker, read_marker
from lakehouse.spark import tables
from lakehouse.streams.rebuild import ENDLESS_US, rebuild_range, widened
from lakehouse.streams.schema_check import require_current, set_schema

Times = tuple[int | None, int | None]


def apply_retract_effects(spark: SparkSession, layout: Home, stream: Stream, begun: Correction) -> None:
    """Bring rollup and ledger to what they would be without the rows, which have left raw.

    A correction without an end is one whose rows include the newest.
    """
    low, high = widened(stream, begun.from_us, begun.to_us)
    if begun.to_us is None:
        _move_back(spark, layout, stream, begun, low)
    else:
        rebuild_range(spark, layout, stream, low, high)
    _correct_ledger(spark, layout, stream, begun)
    crash_point("correction.ledger-corrected")


def _move_back(spark: SparkSession, layout: Home, stream: Stream, begun: Correction, low: int) -> None:
    """Replace all nodes from ``low`` on, or from where levels hold again, together with the newest time."""
    newest = _newest_left(spark, layout, stream, begun.through, low)
    schema = require_current(layout, stream)
    contained = read_marker(layout.rollup(stream.name))
    held = schema.horizons(contained.newest_us)
    # Floors stay where they are while the newest time moves back, so that no missing node seems to be there.
    set_schema(layout, stream, replace(schema, floors=tuple(held)))
    low = min(low, _held_again_from(layout, stream, newest))
    rebuild_range(spark, layout, stream, low, ENDLESS_US, Marker(newest, contained.batch))
    floors = tuple(min(start, low) for start in held)
    set_schema(layout, stream, replace(schema, floors=floors))


def _newest_left(spark: SparkSession, layout: Home, stream: Stream, through: int, low: int) -> int | None:
    """Return the latest event time that is left: of raw rows, or of nodes from before what is built again."""
    raw = tables.read(spark, layout.raw(stream.name)).where(f"batch <= {through}")
    nodes = tables.read(spark, layout.rollup(stream.name)).where(f"level = {len(stream.levels)}")
    found = [
        raw.agg(F.max("event_us")).collect()[0][0],
        nodes.where(f"start_us < {low}").agg(F.max("last_us")).collect()[0][0],
    ]
    return max((time for time in found if time is not None), default=None)


def _held_again_from(layout: Home, stream: Stream, newest_us: int | None) -> int:
    """Return from which whole top node on the levels hold their times again, as far as raw rows are there."""
    if newest_us is None:
        return ENDLESS_US
    limited = [
        start
        for start, level in zip(horizons(stream.levels, newest_us), stream.levels, strict=True)
        if level.keep_us is not None
    ]
    kept = raw_from(read_corrections(layout, stream.name))
    wanted = floor_to(stream.levels[-1].width_us, min(limited)) if limited else ENDLESS_US
    return wanted if kept is None else max(wanted, kept)


def _correct_ledger(spark: SparkSession, layout: Home, stream: Stream, begun: Correction) -> None:
    path = layout.ledger(stream.name)
    ledger = tables.read(spark, path)
    times = ("batch", "min_event_us", "max_event_us", "newest_us")
    known = [tuple(row) for row in ledger.select(*times).orderBy("batch").collect()]
    corrected = list(_corrected(known, _left(spark, layout, stream, begun), layout, stream))
    if corrected:
        frame = spark.createDataFrame(corrected, "batch bigint, low bigint, high bigint, newest bigint")
        changed = ledger.drop(*times[1:]).join(F.broadcast(frame), "batch")
        changed = changed.withColumnsRenamed(dict(zip(("low", "high", "newest"), times[1:], strict=True)))
        tables.replace(spark, path, f"batch IN ({', '.join(str(row[0]) for row in corrected)})", changed)


def _left(spark: SparkSession, layout: Home, stream: Stream, begun: Correction) -> dict[int, Times]:
    """Return earliest and latest event time that is left in raw, of each batch that lost rows."""
    raw = tables.read(spark, layout.raw(stream.name))
    raw = raw.where(F.col("batch").between(min(begun.batches), max(begun.batches)))
    found = (
        raw.groupBy("batch").agg(F.min("event_us").alias("low"), F.max("event_us").alias("high")).collect()
    )
    left = {row["batch"]: (row["low"], row["high"]) for row in found}
    return {batch: left.get(batch, (None, None)) for batch in begun.batches}


def _corrected(
    ledger: Sequence[tuple[Any, ...]], left: Mapping[int, Times], layout: Home, stream: Stream
) -> Iterator[tuple[Any, ...]]:
    """Return the rows of the ledger whose times are others now."""
    known = read_corrections(layout, stream.name)
    aged = {batch for found in known if found.kind == RETENTION for batch in found.batches}
    newest: int | None = None
    for batch, low, high, was in ledger:
        first, last = left.get(batch, (low, high))
        if batch in aged:
            # Its earliest rows were dropped for their age; where no row is left, all were before raw.
            first = low
            last = last if last is not None else (raw_from(known) or 0) - 1
        newest = max((time for time in (newest, last) if time is not None), default=None)
        if (first, last, newest) != (low, high, was):
            yield batch, first, last, newest
