"""Nodes built again from raw: of a range of time, or all of them, each in one commit.

    a range    the nodes of whole top nodes around it are replaced; levels, groupings and measures as they are
    all        the table is replaced by one of today's declaration

        older than raw                    raw rows kept
    ------------------------------)[-----------------------------
      backfilled old nodes             nodes of the raw rows

History older than raw is backfilled from the old nodes: a coarser level is combined from a finer one, a coarser
grouping from a finer one. What cannot be had is recorded (floors of levels, since-times of measures), or the rebuild is
refused. Readers see the table before or after, never between.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from lakehouse.config.durations import format_timestamp
from lakehouse.config.problems import Permanent
from lakehouse.config.stream import Stream
from lakehouse.engine import Item, Session, engine_of
from lakehouse.engine.parts import TableSink, commit_entries, data_files_of, file_items, sink_of
from lakehouse.engine.rewriting import rewrite_without
from lakehouse.ingest.raw_rows import RawRows
from lakehouse.rollup import rollup
from lakehouse.rollup.nodes import folder_of
from lakehouse.rollup.old_nodes import write_old_nodes
from lakehouse.rollup.raw_nodes import Building, write_nodes
from lakehouse.spark import tables
from lakehouse.storage.control.lease import files_of
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent, read_ledger
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.backfill import Backfill, new_columns, plan_backfill
from lakehouse.storage.tables.open_tables import opened
from lakehouse.storage.tables.rollup_table import Marker, RollupSchema, read_marker, read_rollup_schema
from lakehouse.storage.tables.table_commits import arrow_schema
from lakehouse.storage.tables.table_log import file_facts, files_between
from lakehouse.storage.tables.table_reads import pieces_of, read_between

ENDLESS_US = 2**62
_LEVELS_BELOW = -(2**31)
_FIRSTS = pa.schema({"column": pa.string(), "batch": pa.int64()})


class RawIncomplete(Permanent, RuntimeError):
    """Nodes cannot be built again, because raw rows for them are gone."""


def widened(stream: Stream, from_us: int | None, to_us: int | None) -> tuple[int, int]:
    """Return the whole top nodes around a range; None has no limit."""
    width = stream.levels[-1].width_us
    low = KEPT_FOREVER_US if from_us is None else floor_to(width, from_us)
    return low, ENDLESS_US if to_us is None else floor_to(width, to_us + width - 1)


def check_range(layout: Home, stream: Stream, low: int) -> None:
    """Refuse a range that raw rows are not complete for. Raises RawIncomplete with the time since when they are."""
    kept = raw_from(read_corrections(layout, stream.name))
    if kept is not None and low < kept:
        raise RawIncomplete(
            f"stream {stream.name}: raw rows before {format_timestamp(kept, 'T')} are gone (keep_raw), so nodes older "
            f"than that cannot be built again and stay as they are; give --from {format_timestamp(kept, 'T')} or later"
        )


@dataclass(frozen=True)
class _Replaced:
    """Says which rows of a rollup are replaced: nodes that start in ``[low, high)`` of a range, the marker if asked.

    The ranges ascend.
    """

    ranges: Sequence[tuple[int, int]]
    with_marker: bool
    columns: tuple[str, ...] = ("level", "start_us")

    def __call__(self, rows: pa.Table) -> pa.Array:
        level = rows["level"]
        is_node = pc.and_(pc.greater(level, 0), rollup.starts_within(rows, self.ranges))
        return pc.or_kleene(is_node, pc.equal(level, 0)) if self.with_marker else is_node


def rebuild_ranges(
    spark: Session,
    layout: Home,
    stream: Stream,
    ranges: Sequence[tuple[int, int]],
    becomes: Marker | None = None,
) -> None:
    """Replace the nodes of whole top nodes ``[low, high)`` by those of raw rows; ``becomes`` is a new marker.

    Cost: two Spark jobs: over the files of raw and those of the rollup that have such rows.
    """
    path, engine = layout.rollup(stream.name), engine_of(spark)
    contained = read_marker(path)
    newest = becomes.newest_us if becomes and becomes.newest_us is not None else contained.newest_us
    if newest is None:
        return
    step = f"rebuild nodes of {stream.name}"
    with tables.lease(layout, files_of(path), tables.MERGE_S):
        sink = sink_of(path)
        building = Building(folder_of(stream, newest), sink, contained.batch)
        rows = [RawRows(0, contained.batch, *each) for each in ranges]
        replaced = _Replaced(ranges, becomes is not None)
        betweens = [None] if becomes else [("start_us", low, high - 1) for low, high in ranges]
        files = [file for file in file_facts(path) if any(map(file.may_hold, betweens))]
        written, _ = write_nodes(engine, layout.raw(stream.name), rows, building, step)
        entries = [written]
        without = rewrite_without(engine, path, files, replaced, f"{step}: remove old ones")
        if becomes is not None:
            entries.append(sink.write(rollup.marker(becomes.newest_us, becomes.batch)))
        commit_entries(path, pa.concat_tables([*entries, without.entries]), removed=without.removed)
    crash_point("correction.rollup-replaced")


def rebuild_all(spark: Session, layout: Home, stream: Stream) -> None:
    """Replace the stream's rollup by one of today's declaration.

    Raises RawIncomplete when history older than raw cannot be backfilled.
    """
    path, engine = layout.rollup(stream.name), engine_of(spark)
    schema, plan = plan_all(spark, layout, stream)
    extent, contained = read_extent(layout, stream.name), read_marker(path)
    last, newest_us = extent.batch, extent.confirmed_us
    tables.create_rollup(path, stream)
    columns = tables.rollup_schema(stream)
    sink = TableSink(str(path.absolute()), columns, frozenset(tables.ROLLUP_STATISTICS))
    entries = [sink.write(rollup.marker(newest_us, last))]
    if newest_us is not None:
        step, folder = f"rebuild {stream.name}", folder_of(stream, newest_us)
        building = Building(folder, sink, last)
        rows = [RawRows(0, last)]
        if schema:
            # Rows that came after the nodes are in none of the old ones, whatever their time.
            after = contained.batch + 1
            rows = [RawRows(0, contained.batch, plan.from_us), RawRows(after, last)]
        written, _ = write_nodes(engine, layout.raw(stream.name), rows, building, step)
        entries.append(written)
        if schema and [v.width_us for v in schema.levels] == [v.width_us for v in stream.levels]:
            # Counts by level stay true while the widths of levels are the same.
            entries.append(sink.write(_level_counts(path)))
        if schema and plan.sources and contained.newest_us is not None:
            old = replace(building, batch=0)
            entries.append(write_old_nodes(engine, path, schema, plan, old, contained.newest_us, step))
    added = data_files_of(pa.concat_tables(entries), path)
    tables.replace_rollup(path, stream, added, plan.schema.properties())
    crash_point("correction.rollup-replaced")


def _level_counts(path: Location) -> pa.Table:
    """Return one row for each level that rows entered at (``rollup_table.py``)."""
    names = ["level", "grouping", "start_us", "batch", "rows"]
    kinds = [pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64()]
    table = read_between(path, ("level", _LEVELS_BELOW, -1), names)
    found = table.group_by(names[:3]).aggregate([("batch", "max"), ("rows", "sum")])
    return found.rename_columns(names).cast(pa.schema(list(zip(names, kinds, strict=True))))


def plan_all(spark: Session, layout: Home, stream: Stream) -> tuple[RollupSchema | None, Backfill]:
    """Return what the rollup was built for, with its horizons as floors, and what a whole rebuild takes from where.

    Raises RawIncomplete when history older than raw cannot be backfilled, with the reason.
    """
    schema = read_rollup_schema(layout.rollup(stream.name))
    kept_us = raw_from(read_corrections(layout, stream.name))
    if schema:
        schema = replace(
            schema, floors=tuple(schema.horizons(read_marker(layout.rollup(stream.name)).newest_us))
        )
    if kept_us is not None and schema is None:
        raise RawIncomplete(
            f"stream {stream.name}: {layout.rollup(stream.name)} is gone, and so are raw rows before "
            f"{format_timestamp(kept_us, 'T')}: restore that folder; without it older history would be lost"
        )
    first = read_extent(layout, stream.name).earliest_us
    plan = plan_backfill(
        stream, schema, kept_us, first, _later(spark, layout, stream, new_columns(stream, schema))
    )
    if plan.refusals:
        raise RawIncomplete(f"stream {stream.name}: " + "; ".join(plan.refusals))
    return schema, plan


def _later(spark: Session, layout: Home, stream: Stream, names: Sequence[str]) -> dict[str, int]:
    """Return since when each of these columns is in raw; nothing for one that the first rows have.

    A column is known from the first batch on that has a value of it: whether it was not sent before, or not declared,
    raw does not tell, so nothing is promised.
    """
    if not names:
        return {}
    entries = read_ledger(layout, stream.name)
    raw = layout.raw(stream.name)
    with opened(raw) as known:
        there = arrow_schema(known)
    columns = pa.schema([field for field in there if field.name in (*names, "batch")])
    items = file_items(files_between(raw, None))
    step = f"look for columns of {stream.name}"
    firsts = engine_of(spark).map(items, partial(_first_batches, columns=columns), _FIRSTS, step)
    found = firsts.group_by("column").aggregate([("batch", "min")]).to_pylist()
    first_of = {row["column"]: row["batch_min"] for row in found}
    first_batch = first_of.get("batch")
    later = {}
    for name in names:
        first = first_of.get(name)
        times = [entry.max_event_us for entry in entries if first is None or entry.batch < first]
        last = max((time for time in times if time is not None), default=None)
        if last is not None and first != first_batch:
            later[name] = last + 1
    return later


def _first_batches(item: Item, columns: pa.Schema) -> Iterator[pa.Table]:
    """Yield the first batch in a file that has a value of each column."""
    for rows in pieces_of(item["path"], columns):
        firsts = {name: pc.min(rows["batch"].filter(pc.is_valid(rows[name]))) for name in columns.names}
        yield pa.table(
            {"column": list(firsts), "batch": [first.as_py() for first in firsts.values()]}, _FIRSTS
        )
