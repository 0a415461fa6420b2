"""Corrections: begun, carried out, done; killed anywhere and carried out again, the content is the same.

    begun      a row says which raw rows go and which times are built again; from here on it will happen
    carried    identities remembered, raw rows deleted, nodes of those times built again, the ledger's times mended:
               each one commit
    done       a second row; only now does the balance of raw rows count what left

Every step leaves alone what it already did. Whoever calls holds the leases of raw and rollup.

What follows from raw rows that were taken back out:

    ledger     earliest, latest and newest times of its batches; its counts tell what came in, and stay
    confirmed  as the corrected ledger says; where it moves back, so do the horizons
    nodes      of the whole top nodes around the rows, and of all times that levels hold again, from raw
    floors     where raw is gone, what finer levels forgot because of wrong rows stays forgotten

Raw rows before a time are counted and deleted by this process, file by file; retention asks Spark for nothing. Cost:
two columns of the files that may have such a row; those that have other rows too are written anew without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.confirmed import Reach, confirmed
from lakehouse.algorithms.rollup.levels import floor_to, horizons
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import (
    REBUILD,
    RETENTION,
    RETRACT,
    Correction,
    raw_from,
    read_corrections,
    unfinished,
)
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.home.lease import files_of
from lakehouse.home.ledger import read_ledger
from lakehouse.home.rollup_table import Marker, read_marker
from lakehouse.home.table_commits import DataFile, arrow_schema, commit, fitted, open_table, write_arrow
from lakehouse.home.table_files import source
from lakehouse.home.table_log import FileFacts, file_facts, read_columns, read_parts
from lakehouse.spark import tables
from lakehouse.streams.rebuild import ENDLESS_US, check_range, plan_all, rebuild_all, rebuild_range, widened
from lakehouse.streams.remembered import forget, remember
from lakehouse.streams.rollup import require_current, set_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Earliest and latest event time of a batch, and what it reached.
Times = tuple[int | None, int | None, int | None]
_TIMES = ("min_event_us", "max_event_us", "newest_us", "reached_us", "confirmed_us")
LEAST_US = -(2**63)
# A file of more rows that goes in part is Spark's.
ROWS_AT_ONCE = 2_000_000


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
        remember(layout, stream, begun)
        crash_point("correction.remembered")
        _remove_before(spark, layout.raw(stream.name), begun.to_us, begun.through)
        if begun.known_from_us is not None:
            forget(layout, stream, begun.known_from_us)
    elif begun.condition:
        condition = f"({begun.condition}) AND batch <= {begun.through}"
        tables.remove(spark, layout.raw(stream.name), condition)
    crash_point("correction.raw-deleted")
    if begun.kind == REBUILD and begun.from_us is None and begun.to_us is None:
        rebuild_all(spark, layout, stream)
    elif begun.kind == REBUILD:
        rebuild_range(spark, layout, stream, *widened(stream, begun.from_us, begun.to_us))
    elif begun.kind == RETRACT:
        _apply_retract_effects(spark, layout, stream, begun)
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
        *(0, REBUILD, False, "rebuild", "", what, "", low, high, through, 0, {}, datetime.now(UTC))
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
    tables.append_row(row, path, f"correct-{stream.name}", version, "corrections")


def _apply_retract_effects(spark: SparkSession, layout: Home, stream: Stream, begun: Correction) -> None:
    """Bring rollup and ledger to what they would be without the rows, which have left raw."""
    low, high = widened(stream, begun.from_us, begun.to_us)
    known = sorted(read_columns(layout.ledger(stream.name), ("batch", *_TIMES)))
    corrected = list(_corrected(known, _left(layout, stream, begun), layout, stream))
    through = [row for row in corrected if row[0] <= begun.through]
    was = max((row[-1] for row in known if row[0] <= begun.through and row[-1] is not None), default=None)
    newest = through[-1][-1]
    if newest == was:
        rebuild_range(spark, layout, stream, low, high)
    else:
        _move_back(spark, layout, stream, newest, low)
    _correct_ledger(spark, layout, stream, set(corrected) - set(known))
    crash_point("correction.ledger-corrected")


def _move_back(spark: SparkSession, layout: Home, stream: Stream, newest: int | None, low: int) -> None:
    """Replace all nodes from ``low`` on, or from where levels hold again, together with the confirmed newest time."""
    schema = require_current(layout, stream)
    contained = read_marker(layout.rollup(stream.name))
    held = schema.horizons(contained.newest_us)
    # Floors stay where they are while the newest time moves back, so that no missing node seems to be there.
    set_schema(layout, stream, replace(schema, floors=tuple(held)))
    low = min(low, _held_again_from(layout, stream, newest))
    rebuild_range(spark, layout, stream, low, ENDLESS_US, Marker(newest, contained.batch))
    floors = tuple(min(start, low) for start in held)
    set_schema(layout, stream, replace(schema, floors=floors))


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


def _correct_ledger(spark: SparkSession, layout: Home, stream: Stream, changed: set[tuple[Any, ...]]) -> None:
    """Give batches of the ledger other times."""
    if not changed:
        return
    path = layout.ledger(stream.name)
    kinds = ", ".join(f"{name} bigint" for name in ("batch", *_TIMES))
    times = F.broadcast(spark.createDataFrame(sorted(changed, key=lambda row: int(row[0])), kinds))
    ledger = tables.read(spark, path)
    rows = ledger.drop(*_TIMES).join(times, "batch").select(*ledger.columns)
    tables.replace(spark, path, f"batch IN ({', '.join(str(row[0]) for row in changed)})", rows)


def _left(layout: Home, stream: Stream, begun: Correction) -> dict[int, Times]:
    """Return the times of what is left in raw of each batch that lost rows."""
    between = ("batch", min(begun.batches), max(begun.batches))
    reach = {batch: Reach(stream.step_us) for batch in begun.batches}
    ends: dict[int, list[int]] = {batch: [] for batch in begun.batches}
    for rows in read_parts(layout.raw(stream.name), ("event_us", "batch"), between):
        numbers, times = rows["batch"].to_numpy(), rows["event_us"].to_numpy()
        for batch in set(np.unique(numbers).tolist()) & set(reach):
            own = times[numbers == batch]
            reach[batch].add(own)
            ends[batch] += [int(own.min()), int(own.max())]
    return {
        batch: (min(found, default=None), max(found, default=None), reach[batch].newest_us)
        for batch, found in ends.items()
    }


def _corrected(
    ledger: Sequence[tuple[Any, ...]], left: Mapping[int, Times], layout: Home, stream: Stream
) -> Iterator[tuple[Any, ...]]:
    """Return the numbers and times of the ledger's batches as they are now."""
    known = read_corrections(layout, stream.name)
    aged = {batch for found in known if found.kind == RETENTION for batch in found.batches}
    rows = Counter({each.batch: each.accepted for each in read_ledger(layout, stream.name)})
    for each in known:
        rows.subtract(each.batches if each.kind == RETRACT else {})
    newest = confirmed_us = reached_us = None
    own: int | None = None
    for batch, low, high, _, was, _ in ledger:
        first, last = low, high
        own = was if high is not None else None
        if batch in left:
            first, last, own = left[batch]
            if batch in aged:
                # Its earliest rows were dropped for their age; where no row is left, all were before raw.
                first = low
                last = last if last is not None else (raw_from(known) or 0) - 1
                own = min(each for each in (own, was, last) if each is not None)
        newest = max((time for time in (newest, last) if time is not None), default=None)
        before, least_us = (confirmed_us, reached_us), stream.event_time_bounds[0]
        confirmed_us = confirmed(before, own, rows[batch], stream.step_us, least_us)
        reached_us = reached_us if own is None else own
        yield batch, first, last, newest, reached_us, confirmed_us


def count_before(
    raw: Path, end_us: int, through: int, earlier_us: int
) -> tuple[dict[int, int], int, int | None]:
    """Return how many rows before a time each batch up to ``through`` has, and the latest time of these rows.

    The last is where those before another time end.
    """
    batches, latest, earlier = Counter[int](), LEAST_US, list[int]()
    for part in read_parts(raw, ("event_us", "batch"), ("event_us", LEAST_US, end_us - 1)):
        old = part.filter(pc.less_equal(part["batch"], through))
        latest = max(latest, *(time for time in [pc.max(old["event_us"]).as_py()] if time is not None))
        for found in pc.value_counts(old["batch"]).to_pylist():
            batches[found["values"]] += found["counts"]
        oldest = pc.max(old["event_us"].filter(pc.less(old["event_us"], earlier_us))).as_py()
        earlier += [] if oldest is None else [oldest + 1]
    return dict(batches), latest, max(earlier, default=None)


def _remove_before(spark: SparkSession, raw: Path, end_us: int, through: int) -> None:
    """Delete the rows before a time of batches up to ``through``; a merge of the table's files is waited for.

    Files that go whole are not opened, the others are read one at a time.

    Raises:
        LeaseHeld: when the merge takes longer than ``tables.MERGE_S``.
    """
    with tables.lease(files_of(raw), tables.MERGE_S):
        files = [file for file in file_facts(raw, ("event_us", "batch")) if _may_go(file, end_us)]
        whole = [file.path for file in files if _goes_whole(file, end_us, through)]
        mixed = [file for file in files if file.path not in whole]
        is_here = all(file.rows <= ROWS_AT_ONCE for file in mixed)
        if is_here and files:
            _remove_here(raw, whole, mixed, end_us, through)
    if not is_here:
        tables.remove(spark, raw, f"event_us < {end_us} AND batch <= {through}")


def _may_go(file: FileFacts, end_us: int) -> bool:
    low, _ = file.bounds["event_us"]
    return low is None or low < end_us


def _goes_whole(file: FileFacts, end_us: int, through: int) -> bool:
    (_, newest_us), (_, last) = file.bounds["event_us"], file.bounds["batch"]
    return newest_us is not None and newest_us < end_us and last is not None and last <= through


def _remove_here(raw: Path, whole: list[Path], mixed: list[FileFacts], end_us: int, through: int) -> None:
    known, added, removed = open_table(raw), list[DataFile](), list(whole)
    columns = arrow_schema(known)
    for path in (file.path for file in mixed):
        rows = fitted(parquet.read_table(source(path), partitioning=None), columns)
        kept = rows.filter(pc.invert(_is_old(rows, end_us, through)))
        if len(kept) < len(rows):
            removed.append(path)
            added += write_arrow(known, raw, kept) if len(kept) else []
    if removed:
        commit(known, raw, added, [str(path.relative_to(raw)) for path in removed])


def _is_old(rows: pa.Table, end_us: int, through: int) -> pa.ChunkedArray:
    return pc.and_(pc.less(rows["event_us"], end_us), pc.less_equal(rows["batch"], through))
