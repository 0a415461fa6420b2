"""Rollup tables: appending the nodes of new batches once; reading them whole; compaction.

A batch is one commit: nodes of all levels and groupings and a marker that says what is contained, so levels never
disagree and horizons move with the data they belong to. The table must be what its stream declares now; only how long
levels keep their nodes may change as it is.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.problems import Permanent
from lakehouse.config.stream import Stream
from lakehouse.engine import Session, engine_of
from lakehouse.engine.parts import commit_entries, sink_of
from lakehouse.ingest.raw_rows import RawRows
from lakehouse.rollup.fold import fold
from lakehouse.rollup.nodes import folder_of
from lakehouse.rollup.old_nodes import NODES
from lakehouse.rollup.raw_nodes import Building, write_nodes
from lakehouse.spark import tables
from lakehouse.storage.corrections import raw_from, read_corrections
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent, read_ledger
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.rollup_table import (
    RollupSchema,
    declared_schema,
    read_marker,
    read_rollup_schema,
    same_but_keeps,
)
from lakehouse.storage.tables.schema_change import compare_schemas
from lakehouse.storage.tables.table_commits import set_properties
from lakehouse.storage.tables.table_log import bounds, files_near, read_parts
from lakehouse.storage.tables.table_reads import pieces_of

log = logging.getLogger(__name__)
# The values of partial nodes that are folded at a time, in one to two gigabytes: a million nodes of three measures.
VALUES_AT_ONCE = 30_000_000
# Nodes are counted in at most this many equal parts of their time, to be folded part by part.
_COUNTED = 100_000
_MARKER = pa.schema(
    {
        "level": pa.int32(),
        "grouping": pa.int32(),
        "start_us": pa.int64(),
        "batch": pa.int64(),
        "rows": pa.int64(),
    }
)


def append_new(spark: Session, layout: Home, stream: Stream) -> dict[str, int]:
    """Append the nodes of every finished ingest batch that the rollup lacks, as one commit.

    Raises RollupOutdated if levels, groupings or measures are not those that the table was built for.
    """
    path = layout.rollup(stream.name)
    tables.create_rollup(path, stream)
    require_current(layout, stream)
    before = read_marker(path)
    new = read_ledger(layout, stream.name, before.batch)
    if not new:
        return {"batches": 0, "rows": 0}
    last, accepted = new[-1].batch, sum(entry.accepted for entry in new)
    times = (before.newest_us, *(entry.confirmed_us for entry in new))
    contained = max((time for time in times if time is not None), default=None)
    sink = sink_of(path)
    marks, entries = [marker(contained, last, accepted)], list[pa.Table]()
    if contained is not None:
        building = Building(folder_of(stream, contained), sink, last)
        rows = RawRows(before.batch + 1, last)
        step = f"roll up {stream.name}, batches {rows.first} to {last}"
        written, entered = write_nodes(engine_of(spark), layout.raw(stream.name), [rows], building, step)
        entries.append(written)
        marks.append(level_counts(entered, last))
    # In a file of their own, so that who looks for them reads no nodes.
    entries.append(sink.write(pa.concat_tables(marks)))
    crash_point("rollup.before-append")
    commit_entries(path, pa.concat_tables(entries), (f"rollup-{stream.name}", last))
    crash_point("rollup.appended")
    return {"batches": last - before.batch, "rows": accepted}


def folded_nodes(
    layout: Home, stream: Stream, horizons: Sequence[int], ranges: Sequence[tuple[int, int]] | None = None
) -> Iterator[pa.Table]:
    """Yield one row per node, part by part of the time: partial nodes combined, without those below their horizon.

    ``horizons`` are those of a table that is current. ``ranges``: only the nodes of these whole top nodes. Cost: one
    pass on one core over the files that have such nodes, and one over the starts if there are many; memory:
    ``VALUES_AT_ONCE``, for counters at least the nodes of the last level's width, which are combined from each other.
    """
    folder, table = folder_of(stream), layout.rollup(stream.name)
    starts = pa.array([0, *horizons], pa.int64())
    for times in _times(table, stream, 1 + VALUES_AT_ONCE // len(folder.schema), ranges):
        parts = [folder.schema.empty_table()]
        for path, _ in files_near(table, "start_us", [(low, high - 1) for low, high in times]):
            for nodes in pieces_of(path, folder.schema):
                own = nodes.filter(pc.and_(pc.greater(nodes["level"], 0), starts_within(nodes, times)))
                parts.append(own.filter(pc.greater_equal(own["start_us"], starts.take(own["level"]))))
        yield folder.whole(pa.concat_tables(parts))


def starts_within(nodes: pa.Table, ranges: Sequence[tuple[int, int]]) -> pa.Array:
    """Return which nodes start in one of some ranges ``[low, high)``, which ascend."""
    starts = nodes["start_us"].fill_null(0).to_numpy()
    lows, highs = np.array(ranges, np.int64).T
    at = np.searchsorted(lows, starts, "right") - 1
    return pa.array((at >= 0) & (starts < highs[at]))


def _times(
    table: Location, stream: Stream, most: int, ranges: Sequence[tuple[int, int]] | None
) -> Iterator[Sequence[tuple[int, int]]]:
    """Divide ranges of starts into parts of about this many nodes; a counter's node stays with its parents."""
    ((first, last),) = bounds(table, ["start_us"], NODES)
    if first is None or last is None:
        return
    asked = [(first, last + 1)] if ranges is None else ranges
    if sum(rows for _, rows in files_near(table, "start_us", asked)) <= most:
        yield asked
        return
    width = stream.levels[-1 if stream.counters else 0].width_us
    width *= -(-(last - first + 1) // (width * _COUNTED))
    counts = np.zeros(last // width - first // width + 1, np.int64)
    for part in read_parts(table, ["start_us"], NODES):
        place = np.asarray(part["start_us"]) // width - first // width
        counts += np.bincount(place, minlength=len(counts))
    cuts = np.flatnonzero(np.diff(np.cumsum(counts) // most)) + 1
    edges = [(first // width + cut) * width for cut in (0, *cuts.tolist(), len(counts))]
    for low, high in pairwise(edges):
        if own := [(max(low, begin), min(high, end)) for begin, end in asked if begin < high and end > low]:
            yield own


def totals(nodes: pa.Table, stream: Stream) -> pa.Table:
    """Return rows and, for each measure, n and sum, per level and grouping, from nodes or from totals."""
    parts = ["rows", *(f"{name}__{part}" for name in stream.measures for part in ("n", "sum"))]
    found = nodes.group_by(["level", "grouping"]).aggregate([(part, "sum") for part in parts])
    return found.rename_columns([name.removesuffix("_sum") for name in found.column_names])


def compact(spark: Session, layout: Home, stream: Stream) -> dict[str, int]:
    """Fold the nodes that batches have added, if there are enough, in one commit; parts below horizons are deleted.

    Cost: the new nodes, and the parts that they affect.
    """
    path = layout.rollup(stream.name)
    schema = require_current(layout, stream)
    contained = read_marker(path)
    horizons = schema.horizons(contained.newest_us)
    folded = fold(engine_of(spark), path, folder_of(stream), horizons, f"fold nodes of {stream.name}")
    crash_point("maintain.compacted")
    return folded


def marker(newest_us: int | None, batch: int, rows: int = 0) -> pa.Table:
    """Return the row that says what a table contains: batches up to this one, the newest time confirmed, rows added."""
    row = {"level": 0, "grouping": -1, "start_us": newest_us, "batch": batch, "rows": rows}
    return pa.Table.from_pylist([row], _MARKER)


def level_counts(entered: Mapping[int, int], batch: int) -> pa.Table:
    """Return a row for each level that rows entered at, under the level's number below zero."""
    rows = [
        {"level": -level, "grouping": -1, "start_us": None, "batch": batch, "rows": count}
        for level, count in sorted(entered.items())
    ]
    return pa.Table.from_pylist(rows, _MARKER)


class RollupOutdated(Permanent, RuntimeError):
    """The stream is declared differently from what its rollups were built for."""


class HistoryErased(Permanent, RuntimeError):
    """The last level would forget what no other level holds."""


def require_current(layout: Home, stream: Stream) -> RollupSchema:
    """Return the schema of the stream's rollup; changed `keep` times of levels are applied.

    Whoever calls holds the rollup's lease. Raises RollupOutdated when widths, groupings or measures are not those the
    table was built for; HistoryErased when the last level is to keep less than it holds.
    """
    schema, now = read_rollup_schema(layout.rollup(stream.name)), declared_schema(stream)
    if schema is None:
        return now
    if not same_but_keeps(now, schema):
        raise RollupOutdated(
            f"stream {stream.name}: its rollups were built for other levels, groupings or measures; it is now declared "
            f"as {stream.definition()}; `tidemark plan {stream.name}` tells what that means, "
            f"`tidemark rebuild {stream.name}` builds them again"
        )
    if now.levels == schema.levels:
        return schema
    return _keep_otherwise(layout, stream, schema)


def is_current(layout: Home, stream: Stream) -> bool:
    """True if the stream's rollup, if there is one, is built for the present levels, groupings and measures."""
    schema = read_rollup_schema(layout.rollup(stream.name))
    return schema is None or same_but_keeps(declared_schema(stream), schema)


def set_schema(layout: Home, stream: Stream, schema: RollupSchema) -> None:
    """Write the stream's definition, and what its rollup lacks, into the table's properties, in one commit."""
    properties = {"tidemark.definition": stream.definition(), **schema.properties()}
    set_properties(layout.rollup(stream.name), properties)


def _keep_otherwise(layout: Home, stream: Stream, schema: RollupSchema) -> RollupSchema:
    """Take on how long levels keep their nodes; nodes that are gone already stay gone, as floors."""
    newest = read_marker(layout.rollup(stream.name)).newest_us
    first = read_extent(layout, stream.name).earliest_us
    change = compare_schemas(stream, schema, newest, raw_from(read_corrections(layout, stream.name)), first)
    if change.refusals:
        raise HistoryErased(f"stream {stream.name}: " + "; ".join(change.refusals))
    for sentence in change.effects:
        log.warning("stream %s: %s", stream.name, sentence)
    floors = () if newest is None else tuple(schema.horizons(newest))
    kept = replace(declared_schema(stream), floors=floors, since=schema.since)
    set_schema(layout, stream, kept)
    return kept
