"""Corrections: begun, carried out, done; killed anywhere and carried out again, the content is the same.

    begun      a row says which raw rows go and which times are built again; from here on it will happen
    carried    raw rows deleted, nodes of those times built again, the ledger's times mended: each one commit
    done       a second row; only now does the balance of raw rows count what left

Every step leaves alone what it already did. Whoever calls holds the leases of raw and rollup.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import REBUILD, RETENTION, RETRACT, Correction, read_corrections, unfinished
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.rollup_table import read_marker
from lakehouse.spark import tables
from lakehouse.streams.old_rows import remove_before
from lakehouse.streams.rebuild import check_range, plan_all, rebuild_all, rebuild_range, widened
from lakehouse.streams.retract_effects import apply_retract_effects
from lakehouse.streams.schema_check import require_current


def finish_open(
    spark: SparkSession, layout: Home, stream: Stream, also: Path | None = None
) -> Correction | None:
    """Carry out the correction that was begun and not finished; return it, None where there is none.

    ``also`` is the table, raw or rollup, whose lease the caller does not hold.

    Raises:
        LeaseHeld: when another process holds that lease now.
    """
    found = unfinished(read_corrections(layout, stream.name))
    if found is not None:
        with tables.lease(also) if also else nullcontext():
            carry_out(spark, layout, stream, found)
    return found


def begin(layout: Home, stream: Stream, asked: Correction) -> Correction:
    """Write that a correction is begun, under the next number; return it as written."""
    tables.create_corrections(layout.corrections(stream.name))
    known = read_corrections(layout, stream.name)
    begun = replace(asked, number=1 + max((found.number for found in known), default=0), done=False)
    _append(layout, stream, begun)
    crash_point("correction.begun")
    return begun


def carry_out(spark: SparkSession, layout: Home, stream: Stream, begun: Correction) -> None:
    """Do what a correction says, whatever of it was already done."""
    if begun.kind == RETENTION and begun.to_us is not None:
        remove_before(spark, layout.raw(stream.name), begun.to_us, begun.through)
    elif begun.condition:
        condition = f"({begun.condition}) AND batch <= {begun.through}"
        tables.remove(spark, layout.raw(stream.name), condition)
    crash_point("correction.raw-deleted")
    if begun.kind == REBUILD and begun.from_us is None and begun.to_us is None:
        rebuild_all(spark, layout, stream)
    elif begun.kind == REBUILD:
        rebuild_range(spark, layout, stream, *widened(stream, begun.from_us, begun.to_us))
    elif begun.kind == RETRACT:
        apply_retract_effects(spark, layout, stream, begun)
    _append(layout, stream, replace(begun, done=True))
    crash_point("correction.done")


def rebuild(
    spark: SparkSession, layout: Home, stream: Stream, from_us: int | None, to_us: int | None
) -> dict[str, Any]:
    """Build all nodes again, or those of a range, as a correction; return its number and what older times lack.

    Raises:
        RawIncomplete: when raw rows for it are gone and older nodes cannot take their place.
        RollupOutdated: when a range is asked for and the stream is declared differently now.
    """
    what, low, high = "all nodes", None, None
    if from_us is None and to_us is None:
        plan_all(spark, layout, stream)
    else:
        require_current(layout, stream)
        low, high = widened(stream, from_us, to_us)
        check_range(layout, stream, low)
        what = f"nodes from {low} to {high} us"
    through = read_marker(layout.rollup(stream.name)).batch
    asked = Correction(
        *(0, REBUILD, False, "rebuild", "", what, "", low, high, through, 0, 0, {}, datetime.now(UTC))
    )
    begun = begin(layout, stream, asked)
    carry_out(spark, layout, stream, begun)
    contained = read_marker(layout.rollup(stream.name))
    lacks = require_current(layout, stream).lacks(contained.newest_us)
    return {
        "correction": begun.number,
        "batches": contained.batch,
        "from_us": low,
        "to_us": high,
        "lacks": lacks,
    }


def per_batch(rows: DataFrame) -> dict[int, int]:
    """Return how many of these raw rows each batch holds."""
    return {
        row["batch"]: row["rows"] for row in rows.groupBy("batch").agg(F.count("*").alias("rows")).collect()
    }


def _append(layout: Home, stream: Stream, correction: Correction) -> None:
    path = layout.corrections(stream.name)
    row = asdict(replace(correction, at=datetime.now(UTC)))
    version = 2 * correction.number + int(correction.done)
    tables.append_row(row, path, f"correct-{stream.name}", version)
