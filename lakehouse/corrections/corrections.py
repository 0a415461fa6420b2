"""Corrections: begun, carried out, done; killed anywhere and carried out again, the content is the same.

    begun      a row says which raw rows go and which times are built again; from here on it will happen
    carried    identities remembered or places noted, raw rows deleted, nodes of those times built again, the
               ledger's times mended: each one commit
    done       a second row; only now does the balance of raw rows count what left

Every step leaves alone what it already did. Whoever calls holds the leases of raw and rollup.

What follows from raw rows that were taken back out:

    ledger     earliest, latest and newest times of its batches; its counts tell what came in, and stay
    confirmed  as the corrected ledger says; where it moves back, so do the horizons
    nodes      of the whole top nodes around the rows, and of all times that levels hold again, from raw
    floors     where raw is gone, what finer levels forgot because of wrong rows stays forgotten

Rows leave raw by tasks: of the files that may have such a row they read the columns that tell, and write those again
that have other rows, too. Files of which all rows go are not opened.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from lakehouse.algorithms.ingest.confirmed import Reach, confirmed
from lakehouse.algorithms.rollup.levels import floor_to, horizons
from lakehouse.config.stream import Stream
from lakehouse.corrections.rebuild import (
    ENDLESS_US,
    check_range,
    plan_all,
    rebuild_all,
    rebuild_ranges,
    widened,
)
from lakehouse.corrections.revisions import carry_out_revision, revision_of
from lakehouse.corrections.wrong_rows import Wrong, note_wrong
from lakehouse.engine import Engine, Item, Session, engine_of
from lakehouse.engine.rewriting import remove_rows
from lakehouse.ingest.batch_records import StreamTables
from lakehouse.ingest.identities.remembered import forget, remember
from lakehouse.ingest.raw_rows import RawRows, raw_columns, raw_items, rows_of
from lakehouse.rollup.rollup import is_current, require_current, set_schema
from lakehouse.spark import tables
from lakehouse.storage.control.lease import files_of
from lakehouse.storage.corrections import (
    REBUILD,
    RETENTION,
    RETRACT,
    REVISE,
    TAKEN_OUT,
    Correction,
    raw_from,
    read_corrections,
    unfinished,
    waiting_revisions,
)
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_ledger
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.rollup_table import Marker, read_marker
from lakehouse.storage.tables.table_commits import arrow_schema, commit, fitted, write_arrow
from lakehouse.storage.tables.table_files import source
from lakehouse.storage.tables.table_log import FileFacts, files_between, newest_version, read_columns

# Earliest and latest event time of a batch, and what it reached.
Times = tuple[int | None, int | None, int | None]
_TIMES = ("min_event_us", "max_event_us", "newest_us", "reached_us", "confirmed_us")
LEAST_US = -(2**63)
_SPANS = pa.schema(dict.fromkeys(("batch", "span", "rows", "low_us", "high_us"), pa.int64()))
_COUNTS = pa.schema(dict.fromkeys(("batch", "rows", "latest_us", "earlier_us"), pa.int64()))


def finish_open(
    spark: Session, layout: Home, stream: Stream, also: Location | None = None
) -> Correction | None:
    """Carry out the correction that was begun and not finished, and revisions that wait; return the last of them.

    ``also`` is the table, raw or rollup, whose lease the caller does not hold. Leases are waited for in the order raw,
    rollup: who holds the rollup alone does not wait, and leaves revisions to ingest. Revisions wait for a rollup that
    is to be built again for another declaration. Raises LeaseHeld when another process holds that lease now.
    """
    found = unfinished(read_corrections(layout, stream.name))
    lacks_raw = also == layout.raw(stream.name)
    waiting = None if lacks_raw else waiting_revisions(layout, stream.name)
    if waiting is not None and not is_current(layout, stream):
        waiting = None
    if found is None and waiting is None:
        return None
    with tables.lease(layout, also, 0 if lacks_raw else tables.MERGE_S) if also else nullcontext():
        if found is not None:
            carry_out(spark, layout, stream, found, again=True)
        if waiting is not None:
            found = begin(layout, stream, revision_of(spark, layout, stream, waiting))
            carry_out(spark, layout, stream, found)
    return found


@contextmanager
def writing(target: StreamTables, job: str | None = None) -> Iterator[None]:
    """Be the one writer of a stream's tables; a correction that was begun is finished first, revisions last.

    ``job``: what another process must not do at the same time. Raises LeaseHeld as ``turn``.
    """
    layout, stream = target.layout, target.stream
    raw = layout.raw(stream.name)
    with tables.turn(layout, raw, job) if job else tables.lease(layout, raw, tables.WAIT_S):
        finish_open(target.spark, layout, stream, also=layout.rollup(stream.name))
        yield
        finish_open(target.spark, layout, stream, also=layout.rollup(stream.name))


def begin(layout: Home, stream: Stream, asked: Correction) -> Correction:
    """Write that a correction is begun, under the next number; return it as written."""
    tables.create(layout.corrections(stream.name), "corrections")
    known = read_corrections(layout, stream.name)
    begun = replace(asked, number=1 + max((found.number for found in known), default=0), done=False)
    _append(layout, stream, begun)
    crash_point("correction.begun")
    return begun


def carry_out(spark: Session, layout: Home, stream: Stream, begun: Correction, again: bool = False) -> None:
    """Do what a correction says, whatever of it was already done; ``again``: some of it may have been."""
    engine, step = (engine_of(spark), layout), f"remove rows of {stream.name}"
    if begun.kind == RETENTION and begun.to_us is not None:
        remember(engine_of(spark), layout, stream, begun)
        crash_point("correction.remembered")
        old = _Old(begun.to_us, begun.through)
        for table in (layout.raw(stream.name), layout.revised(stream.name)):
            own = ("event_us", LEAST_US, begun.to_us - 1)
            if newest_version(table) is not None:
                remove_rows(*engine, table, old, own, step, goes_whole=old.has_all_of)
        if begun.known_from_us is not None:
            forget(layout, stream, begun.known_from_us)
    elif begun.kind == RETRACT:
        wrong = Wrong.read(begun.condition).rows_of(stream, begun.through)
        note_wrong(engine_of(spark), layout, stream.name, begun.number, wrong)
        crash_point("correction.rows-noted")
        remove_rows(*engine, layout.raw(stream.name), wrong, wrong.between, step)
    elif begun.kind == REVISE:
        carry_out_revision(spark, layout, stream, begun)
    crash_point("correction.raw-deleted")
    if begun.kind == REBUILD and begun.from_us is None and begun.to_us is None:
        rebuild_all(spark, layout, stream)
    elif begun.kind == REBUILD and begun.nodes:
        rebuild_ranges(spark, layout, stream, begun.nodes)
    elif begun.kind == RETRACT:
        is_moved = _apply_retract_effects(spark, layout, stream, begun)
        # Once the ledger is corrected, nothing says whether the newest time has moved.
        begun = replace(begun, nodes=None) if is_moved or again else begun
    _append(layout, stream, replace(begun, done=True))
    crash_point("correction.done")


def rebuild(
    spark: Session, layout: Home, stream: Stream, from_us: int | None, to_us: int | None
) -> dict[str, Any]:
    """Build all nodes again, or those of a range, as a correction; return its number and what older times lack.

    Raises RawIncomplete when raw rows for it are gone and older nodes cannot take their place; RollupOutdated when a
    range is asked for and the stream is declared differently now.
    """
    what, low, high, nodes = "all nodes", None, None, None
    if from_us is None and to_us is None:
        plan_all(spark, layout, stream)
    else:
        require_current(layout, stream)
        low, high = widened(stream, from_us, to_us)
        check_range(layout, stream, low)
        what, nodes = f"nodes from {low} to {high} us", [(low, high)]
    through = read_marker(layout.rollup(stream.name)).batch
    asked = Correction(
        *(0, REBUILD, False, "rebuild", "", what, "", low, high, through, 0, {}, datetime.now(UTC)),
        nodes=nodes,
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


def _append(layout: Home, stream: Stream, correction: Correction) -> None:
    path = layout.corrections(stream.name)
    nodes = None if correction.nodes is None else json.dumps(correction.nodes)
    row = asdict(replace(correction, at=datetime.now(UTC))) | {"nodes": nodes}
    version = 2 * correction.number + int(correction.done)
    tables.append_row(row, path, f"correct-{stream.name}", version)


def _apply_retract_effects(spark: Session, layout: Home, stream: Stream, begun: Correction) -> bool:
    """Bring rollup and ledger to what they would be without the rows, which have left raw.

    Return whether another time is confirmed without them, so that other nodes change, too.
    """
    low, high = widened(stream, begun.from_us, begun.to_us)
    known = sorted(read_columns(layout.ledger(stream.name), ("batch", *_TIMES)))
    left = _left(engine_of(spark), layout, stream, begun)
    corrected = list(_corrected(known, left, layout, stream))
    through = [row for row in corrected if row[0] <= begun.through]
    was = max((row[-1] for row in known if row[0] <= begun.through and row[-1] is not None), default=None)
    newest = through[-1][-1]
    is_moved = bool(newest != was)
    if is_moved:
        _move_back(spark, layout, stream, newest, low)
    else:
        rebuild_ranges(spark, layout, stream, [(low, high)])
    _correct_ledger(layout, stream, set(corrected) - set(known))
    crash_point("correction.ledger-corrected")
    return is_moved


def _move_back(spark: Session, layout: Home, stream: Stream, newest: int | None, low: int) -> None:
    """Replace all nodes from ``low`` on, or from where levels hold again, together with the confirmed newest time."""
    schema = require_current(layout, stream)
    contained = read_marker(layout.rollup(stream.name))
    held = schema.horizons(contained.newest_us)
    # Floors stay where they are while the newest time moves back, so that no missing node seems to be there.
    set_schema(layout, stream, replace(schema, floors=tuple(held)))
    low = min(low, _held_again_from(layout, stream, newest))
    rebuild_ranges(spark, layout, stream, [(low, ENDLESS_US)], Marker(newest, contained.batch))
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


def _correct_ledger(layout: Home, stream: Stream, changed: set[tuple[Any, ...]]) -> None:
    """Give batches of the ledger other times."""
    if not changed:
        return
    path = layout.ledger(stream.name)
    times = {int(row[0]): dict(zip(_TIMES, row[1:], strict=True)) for row in changed}
    with tables.lease(layout, files_of(path), tables.MERGE_S), opened(path) as known:
        files = files_between(path, ("batch", min(times), max(times)))
        columns = arrow_schema(known)
        rows = pa.concat_tables(fitted(parquet.read_table(source(file)), columns) for file in files)
        corrected = [row | times.get(row["batch"], {}) for row in rows.to_pylist()]
        added = write_arrow(known, path, pa.Table.from_pylist(corrected, columns))
        commit(known, path, added, [str(file.relative_to(path)) for file in files])


def _left(engine: Engine, layout: Home, stream: Stream, begun: Correction) -> dict[int, Times]:
    """Return the times of what is left in raw of each batch that lost rows."""
    raw, batches = layout.raw(stream.name), sorted(begun.batches)
    kernel = partial(_spans_of, step_us=stream.step_us, batches=batches, columns=raw_columns(raw, ()))
    items = raw_items(raw, RawRows(batches[0], batches[-1]))
    spans = engine.map(items, kernel, _SPANS, f"read times of {stream.name}")
    combine = [("rows", "sum"), ("low_us", "min"), ("high_us", "max")]
    reach = {batch: Reach(stream.step_us) for batch in batches}
    whole = spans.group_by(["batch", "span"]).aggregate(combine).rename_columns(_SPANS.names)
    for row in whole.to_pylist():
        reach[row["batch"]].spans[row["span"]] = (row["rows"], row["low_us"], row["high_us"])
    return {
        batch: (
            min((low for _, low, _ in of.spans.values()), default=None),
            max((high for *_, high in of.spans.values()), default=None),
            of.newest_us,
        )
        for batch, of in reach.items()
    }


def _spans_of(item: Item, step_us: int, batches: Sequence[int], columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield the spans of time, as ``Reach`` has them, of each of some batches."""
    for rows in rows_of(item, columns):
        numbers, times = rows["batch"].to_numpy(), rows["event_us"].to_numpy()
        for batch in np.intersect1d(numbers, batches).tolist():
            spans = Reach(step_us).add(times[numbers == batch]).spans
            rows_of_batch = [(batch, span, *ends) for span, ends in spans.items()]
            yield pa.table(dict(zip(_SPANS.names, zip(*rows_of_batch, strict=True), strict=True)), _SPANS)


def _corrected(
    ledger: Sequence[tuple[Any, ...]], left: Mapping[int, Times], layout: Home, stream: Stream
) -> Iterator[tuple[Any, ...]]:
    """Return the numbers and times of the ledger's batches as they are now."""
    known = read_corrections(layout, stream.name)
    aged = {batch for found in known if found.kind == RETENTION for batch in found.batches}
    rows = Counter({each.batch: each.accepted for each in read_ledger(layout, stream.name)})
    for each in known:
        rows.subtract(each.batches if each.kind in TAKEN_OUT else {})
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
    engine: Engine, layout: Home, stream: Stream, end_us: int, through: int, earlier_us: int
) -> tuple[dict[int, int], int, int | None]:
    """Return how many rows before a time each batch up to ``through`` has, and the latest time of these rows.

    The last is where those before another time end. Cost: one Spark job over the files that have such rows.
    """
    raw = layout.raw(stream.name)
    kernel = partial(_counted, earlier_us=earlier_us, columns=raw_columns(raw, ()))
    items = raw_items(raw, RawRows(last=through, to_us=end_us))
    counts = engine.map(items, kernel, _COUNTS, f"count old rows of {stream.name}")
    of_batch = counts.group_by("batch").aggregate([("rows", "sum")]).to_pylist()
    latest, earlier = (pc.max(counts[name]).as_py() for name in ("latest_us", "earlier_us"))
    batches = {row["batch"]: row["rows_sum"] for row in of_batch}
    return batches, LEAST_US if latest is None else latest, None if earlier is None else earlier + 1


def _counted(item: Item, earlier_us: int, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield how many rows each batch has, their latest time, and the latest of those before another time."""
    for rows in rows_of(item, columns):
        is_earlier = pc.less(rows["event_us"], earlier_us)
        rows = rows.append_column("earlier_us", pc.if_else(is_earlier, rows["event_us"], None))
        combine = [("event_us", "count"), ("event_us", "max"), ("earlier_us", "max")]
        yield rows.group_by("batch").aggregate(combine).rename_columns(_COUNTS.names)


@dataclass(frozen=True)
class _Old:
    """Says which rows are before a time and of batches up to one."""

    end_us: int
    through: int
    columns: tuple[str, ...] = ("event_us", "batch")

    def __call__(self, rows: pa.Table) -> pa.Array:
        is_before = pc.less(rows["event_us"], self.end_us)
        return pc.and_(is_before, pc.less_equal(rows["batch"], self.through))

    def has_all_of(self, file: FileFacts) -> bool:
        """True if all rows of a file are so old, by its statistics."""
        (_, newest_us), (_, last) = file.ends("event_us"), file.ends("batch")
        return newest_us is not None and newest_us < self.end_us and last is not None and last <= self.through
