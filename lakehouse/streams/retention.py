"""Raw rows that a stream no longer keeps: dropped once the rollup holds them, and never a part of a top node.

    top level    [---------------)[---------------)[---------------)[-----
    raw rows                      xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                     dropped      cut      newest - keep_raw           newest

The cut is a whole node of the top level, so that what is kept is enough to build any whole node again. A row that
comes later than that is in the nodes all the same; it leaves raw with the next cut.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.declare.durations import format_duration
from lakehouse.declare.stream import Stream
from lakehouse.declare.timestamps import format_timestamp
from lakehouse.home.corrections import RETENTION, Correction, raw_from, read_corrections
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.home.rollup_table import read_marker
from lakehouse.streams import corrections
from lakehouse.streams.identities import index_before
from lakehouse.streams.old_rows import LEAST_US, count_before
from lakehouse.streams.sources.manifest_store import ManifestStore


def cut_us(stream: Stream, newest_us: int | None) -> int | None:
    """Return before which time raw rows go, None where all are kept."""
    if stream.keep_raw is None or newest_us is None:
        return None
    return floor_to(stream.levels[-1].width_us, newest_us - stream.keep_raw)


def drop_old_raw(spark: SparkSession, layout: Home, stream: Stream) -> dict[str, int]:
    """Drop raw rows that the rollup contains and the stream keeps no longer; return how many, and how many unchecked.

    Rows of batches that the rollup lacks stay. Nothing is dropped while a batch was begun and is not finished: run
    again, it must find the same repeats. Whoever calls holds the leases of raw and rollup.
    """
    contained = read_marker(layout.rollup(stream.name))
    cut = cut_us(stream, contained.newest_us)
    if cut is None or _is_unfinished(layout, stream):
        return {"raw_dropped": 0}
    known = read_corrections(layout, stream.name)
    before = raw_from(known)
    # Where a shorter `keep_raw` was declared once, rows that are gone stay gone.
    cut = max(cut, before or cut)
    # Rows that came later than raw reaches back have been in no check.
    checked_from = LEAST_US if before is None else before
    batches, unchecked = count_before(layout.raw(stream.name), cut, contained.batch, checked_from)
    if not batches:
        return {"raw_dropped": 0}
    asked = _asked(stream, cut, contained.batch, batches, unchecked)
    corrections.carry_out(spark, layout, stream, corrections.begin(layout, stream, asked))
    if stream.identity:
        finished = read_extent(layout, stream.name).batch
        index_before(layout, stream, finished + 1).forget(cut, contained.batch)
    return {"raw_dropped": asked.rows, "raw_dropped_unchecked": unchecked}


def _is_unfinished(layout: Home, stream: Stream) -> bool:
    last = read_extent(layout, stream.name).batch
    return ManifestStore(layout.manifests(stream.name)).last_batch > last


def _asked(stream: Stream, cut: int, through: int, batches: dict[int, int], unchecked: int) -> Correction:
    return Correction(
        number=0,
        kind=RETENTION,
        done=False,
        by="maintain",
        why=f'keep_raw = "{format_duration(stream.keep_raw)}"',
        what=f"raw rows before {format_timestamp(cut)}",
        condition=f"event_us < {cut}",
        from_us=None,
        to_us=cut,
        through=through,
        rows=sum(batches.values()),
        unchecked=unchecked,
        batches=batches,
        at=datetime.now(UTC),
    )
