"""Nodes and a snapshot of every stream -> the tables of one new DuckDB file, and of the segments beside it.

Nodes go into segments (segments.py), rows of the ledger and of queries into others (row_store.py); a version writes
only the newest of each. Everything else is small and written anew. Values are written as literals, see literals.py.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US
from lakehouse.algorithms.rollup.refinement import MOST_SERIES, refinements
from lakehouse.config.durations import format_duration
from lakehouse.serving.literals import literal, parquet, row, text
from lakehouse.serving.publish.changes import combined_of, write_changed
from lakehouse.serving.publish.macros import create_macros, create_tables, views
from lakehouse.serving.publish.node_rows import Numbered, folded_nodes, write_rows
from lakehouse.serving.publish.query_snapshot import QuerySnapshot, take_queries, write_queries
from lakehouse.serving.publish.snapshot import (
    ROWS,
    ChangedNodes,
    PublishedMeasure,
    StreamSnapshot,
    fingerprint,
    in_ladder,
)
from lakehouse.serving.publish.withheld import Withheld, keep, kept_in, write_withheld
from lakehouse.serving.segments.merge import SMALL_ROW_GROUP, Stored, open_fresh, settle
from lakehouse.serving.segments.previous import Previous
from lakehouse.serving.segments.row_store import RowStore, say, statements_of
from lakehouse.serving.segments.segments import BLOCK, NEWEST_STORED, transaction
from lakehouse.serving.segments.shared_rows import SharedRows
from lakehouse.serving.table_reader import connected
from lakehouse.serving.versions.versions import draft_path
from lakehouse.storage.stores.store_path import Location
from sql import statement

_NEVER = 2**62


@contextmanager
def drafted(path: Path, tables: Location) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a new file for writing as the connection's current database; closed and checkpointed at the end."""
    connection = connected(tables, {"preserve_insertion_order": True})
    try:
        # The session's zone would shift text times without an offset while macros are bound.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"ATTACH {text(str(path))} AS draft (ROW_GROUP_SIZE {SMALL_ROW_GROUP})")
        connection.execute("USE draft")
        yield connection
        connection.execute("CHECKPOINT draft")
        connection.execute("USE memory")
        connection.execute("DETACH draft")
    finally:
        connection.close()


def write_tables(
    connection: duckdb.DuckDBPyConnection,
    version: int,
    streams: Sequence[StreamSnapshot],
    queries: Sequence[QuerySnapshot] = (),
    folder: Path | None = None,
    previous: Previous | None = None,
    withheld: Sequence[Withheld] = (),
) -> tuple[Stored, RowStore]:
    """Fill every table of the version, with the macros and views; return where its nodes and rows are.

    ``folder`` takes segments; if it is None, everything is in the version's own file. ``previous`` is attached if the
    version may share with it. ``withheld``: streams that keep their state of ``previous``. Raises ValueError if the
    version before is not the one that a stream's changes follow.
    """
    create_tables(connection, folder)
    # There may be many folded nodes, but few changed ones.
    is_large = folder is not None and any(stream.changed is None for stream in streams)
    draft = draft_path(folder / "segments", f"{version:08d}") if folder and is_large else None
    open_fresh(connection, draft)
    kept = kept_in(connection, previous, withheld)
    # Without a stream that shares its nodes, no segment of nodes is shared.
    of_nodes = previous if kept or any(stream.changed for stream in streams) else None
    for one in _numbered(sorted(streams, key=lambda one: one.name), of_nodes):
        _write_stream(connection, one)
    if previous is not None:
        keep(connection, previous, kept)
    stored = settle(connection, version, folder, draft, of_nodes)
    shared = (previous.rows, previous.row_segments) if previous else ({}, ())
    store = RowStore(connection, version, folder, *shared)
    ledgers = [
        _take_ledger(connection, store, None),
        *(_take_ledger(connection, store, one) for one in streams),
        *(_keep_ledger(connection, store, one, previous) for one in kept),
    ]
    take_queries(store, queries)
    store.settle()
    store.show()
    create_macros(connection, folder, is_shared=stored.is_shared)
    with transaction(connection):
        connection.execute(f"CREATE VIEW ledger AS {' UNION ALL '.join(map(store.select, ledgers))}")
        say(connection, statements_of(statement("serving/ledger"))[1:], "ledger", is_view=True)
        write_queries(connection, store, queries)
        for created in views(stored.segments, stored.has_own):
            connection.execute(created)
        write_withheld(connection, withheld, previous, kept)
        is_shared = previous is not None and previous.is_shared and (of_nodes is not None or store.is_sharing)
        _write_publication(connection, version, fingerprint(streams, queries, withheld), is_shared)
    return stored, store


def _write_publication(
    connection: duckdb.DuckDBPyConnection, version: int, made_of: str, is_shared: bool
) -> None:
    """Describe the version; ``is_shared``: it has nodes or rows of the one before."""
    names = "string_agg(stream || '.' || measure, ', ' ORDER BY stream, measure)"
    catalog = f"SELECT coalesce({names}, 'nothing') FROM measures"
    now_us = time.time_ns() // 1000
    anew = "(SELECT anew_us FROM previous.publication)" if is_shared else now_us
    values = f"{version}, {now_us}, {text(made_of)}, ({catalog}), {anew}"
    connection.execute(f"INSERT INTO publication VALUES ({values})")


def _numbered(streams: Sequence[StreamSnapshot], previous: Previous | None) -> Iterator[Numbered]:
    """Yield the streams with their numbers; a stream whose nodes are all written anew gets a new number."""
    known = previous.streams if previous else {}
    new = 1 + max((stream.number for stream in known.values()), default=-1)
    for stream in streams:
        if stream.changed is None:
            yield Numbered(new, stream)
            new += 1
            continue
        before = known.get(stream.name)
        follows = stream.basis(), stream.changed.after, stream.changed.rebuilt
        if before is None or (before.basis, before.batch, before.rebuilt) != follows:
            raise ValueError(f"stream {stream.name}: its changes do not follow the version that is published")
        yield Numbered(before.number, stream, before.series)


def _write_stream(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    stream = one.stream
    if one.is_shared:
        write_changed(connection, one)
    else:
        write_rows(connection, one, folded_nodes(stream), "fresh.segment.")
    with transaction(connection):
        _write_node_counts(connection, one)
        _write_ladder(connection, one)
        _write_levels(connection, one)
        _write_facts(connection, one)


def _write_facts(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    stream, of_stream = one.stream, f"WHERE stream_id = {one.number}"
    count = one.known_series + _scalar(connection, f"SELECT count(*) FROM fresh.segment.series {of_stream}")
    nodes = _scalar(connection, f"SELECT sum(stored) FROM node_counts {of_stream}")
    values = (
        *(one.number, stream.name, stream.definition, stream.newest_us, stream.confirmed_us),
        *(
            stream.earliest_us,
            stream.batch,
            stream.latest_us,
            stream.raw_path,
            stream.key_names,
            count,
            nodes,
        ),
        *(stream.raw_from_us, stream.retracted),
        sum(one.n for one in stream.unchecked if one.measure == ROWS),
        *(stream.timezone, stream.basis(), stream.rebuilt),
    )
    connection.execute(f"INSERT INTO streams VALUES {row(values)}")
    for reason, records in sorted(stream.quarantine.items()):
        counts = row((stream.name, reason, records, stream.closed.get(reason, 0)))
        connection.execute(f"INSERT INTO quarantine VALUES {counts}")


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    found = connection.execute(query).fetchone()
    return int(found[0]) if found and found[0] is not None else 0


def _write_node_counts(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    """Count the stream's nodes by level and parent: horizons lie between parents, so they delete whole rows.

    Rows of times whose nodes were built again are counted anew, but that of top nodes that are kept forever.
    """
    levels, before, gained = one.stream.levels, "", "1"
    source = f"fresh.segment.nodes WHERE slot >= {one.first_slot(0)} AND slot < {one.end_slot}"
    if one.stream.changed is not None:
        source = combined_of(one.number)
        is_again = f"bucket_us <> {KEPT_FOREVER_US} AND {one.stream.changed.within('bucket_us')}"
        gained = f"CASE WHEN {is_again} THEN (n > 0)::INT WHEN n = 0 THEN -1 ELSE is_new::INT END"
        before = f"UNION ALL {_counted_before(one, one.stream.changed)}"
    top = "parent_us" if levels[-1].keep_us is None else "start_us"
    connection.execute(
        f"""
        INSERT INTO node_counts
        SELECT stream_id, level, bucket_us, sum(nodes), sum(stored), min(first_us), max(last_us) FROM (
            SELECT
                {one.number} AS stream_id, place % {len(levels)} + 1 AS level, bucket_us,
                sum(gained) FILTER (place < {len(levels)}) AS nodes, sum(gained) AS stored,
                min(start_us) FILTER (n > 0) AS first_us, max(start_us) FILTER (n > 0) AS last_us
            FROM (
                SELECT *, (slot - {one.first_slot(0)}) // {BLOCK} AS place,
                    CASE WHEN parent_us = {KEPT_FOREVER_US} THEN {top} ELSE parent_us END AS bucket_us,
                    {gained} AS gained
                FROM {source}
            ) GROUP BY ALL
            {before}
        ) GROUP BY ALL HAVING sum(stored) > 0 ORDER BY ALL
        """
    )


def _counted_before(one: Numbered, changed: ChangedNodes) -> str:
    """Return SQL for the counts of the version before, as far as they stay."""
    starts = literal([KEPT_FOREVER_US, *one.stream.horizons])
    kept = f"stream_id = {one.number} AND (bucket_us = {KEPT_FOREVER_US} OR bucket_us >= {starts}[level + 1])"
    if not changed.ranges:
        return f"FROM previous.node_counts WHERE {kept}"
    first = one.first_slot(0, len(one.stream.levels))
    left = f"slot >= {first} AND slot < {first + BLOCK} AND NOT {changed.within()}"
    return f"""
        SELECT stream_id, level, bucket_us, nodes, stored, ends.first_us, ends.last_us
        FROM (FROM previous.node_counts WHERE {kept} AND bucket_us = {KEPT_FOREVER_US}), (
            SELECT min(start_us) AS first_us, max(start_us) AS last_us
            FROM (FROM previous.node_segments WHERE {left} {NEWEST_STORED})
        ) AS ends
        UNION ALL
        FROM previous.node_counts
        WHERE {kept} AND bucket_us <> {KEPT_FOREVER_US} AND NOT {changed.within("bucket_us")}
    """


def _write_ladder(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    """Write the stream's measures, and a row of the ladder for each of their levels."""
    groupings = _groupings(connection, one)
    measures: list[tuple[Any, ...]] = []
    ladder: list[tuple[Any, ...]] = []
    for place, measure in enumerate(one.measures):
        decimals = measure.decimals if measure.is_exact else None
        measures.append(
            (
                *(one.stream.name, measure.name, measure.type, decimals, one.first_slot(place)),
                *(measure.is_counter, measure.default_agg),
            )
        )
        ladder += _steps(one, place, measure, groupings)
    for table, rows in (("measures", measures), ("ladder", ladder)):
        connection.execute(f"INSERT INTO {table} VALUES {', '.join(map(row, rows))}")


def _steps(
    one: Numbered, place: int, measure: PublishedMeasure, groupings: Sequence[dict[str, Any]]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the ladder of one measure, finest level first."""
    stream = one.stream
    decimals = measure.decimals if measure.is_exact else None
    for index, level in enumerate(stream.levels):
        coarser = stream.levels[index + 1].width_us if index + 1 < len(stream.levels) else 0
        finer = stream.horizons[index - 1] if index else _NEVER
        yield (
            *(stream.name, measure.name, index + 1, one.first_slot(place, index + 1)),
            *(level.width_us, coarser, finer, stream.horizons[index] if stream.horizons else KEPT_FOREVER_US),
            *(measure.is_exact, 10.0 ** (decimals or 0), stream.newest_us, *_edges(stream, measure.name)),
            *(measure.is_counter, groupings, str([one["key_names"] for one in groupings])),
            in_ladder(stream.unchecked, measure.name),
            in_ladder(stream.ambiguous, measure.name),
        )


def _groupings(connection: duckdb.DuckDBPyConnection, one: Numbered) -> list[dict[str, Any]]:
    """Return the rows of the ladder for the groupings, fewest keys first."""
    stream = one.stream
    ids = [one.number * 1000 + index for index in range(len(stream.groupings))]
    refined = refinements(stream.groupings, [_series_of(connection, one, number) for number in ids])
    found = [
        {
            "id": ids[index],
            "key_names": list(keys),
            "is_meter": index == stream.meter_grouping,
            "refined_by": by and ids[by.grouping],
            "refined_series": by and by.series,
            "refined_rows": by and by.most_rows,
        }
        for index, (keys, by) in enumerate(zip(stream.groupings, refined, strict=True))
    ]
    return sorted(found, key=lambda grouping: len(grouping["key_names"]))


def _series_of(connection: duckdb.DuckDBPyConnection, one: Numbered, grouping_id: int) -> int:
    """Count the series of a grouping, up to one more than are ever read for one node."""
    tables = ["fresh.segment.series", *(["previous.series"] if one.is_shared else [])]
    known = " UNION ALL ".join(f"SELECT 1 FROM {table} WHERE grouping_id = {grouping_id}" for table in tables)
    return _scalar(connection, f"SELECT count(*) FROM ({known} LIMIT {MOST_SERIES + 1})")


def _edges(stream: StreamSnapshot, measure: str) -> tuple[int, int, int]:
    """Return the times before which answers are final, from which rows exist, and where the kept past begins.

    For a measure that was added later the past begins when it was added, because its earlier values are unknown.
    """
    final = KEPT_FOREVER_US if stream.confirmed_us is None else stream.confirmed_us - stream.latest_us
    earliest = KEPT_FOREVER_US if stream.earliest_us is None else stream.earliest_us
    kept = stream.horizons[-1] if stream.horizons else KEPT_FOREVER_US
    return final, earliest, max(kept, stream.since.get(measure, kept))


def _write_levels(connection: duckdb.DuckDBPyConnection, one: Numbered) -> None:
    stream = one.stream
    for index, level in enumerate(stream.levels):
        horizon = None if level.keep_us is None else stream.horizons[index]
        entered = stream.entered[index] if stream.entered else None
        named = (stream.name, index + 1, format_duration(level.width_us), format_duration(level.keep_us))
        values = ", ".join(literal(value) for value in (*named, level.width_us, level.keep_us, horizon))
        connection.execute(
            f"INSERT INTO levels SELECT {values}, ifnull(sum(nodes), 0), min(first_us), "
            f"max(last_us) + {level.width_us}, {literal(entered)} FROM node_counts "
            f"WHERE stream_id = {one.number} AND level = {index + 1}"
        )


def _take_ledger(
    connection: duckdb.DuckDBPyConnection, store: RowStore, stream: StreamSnapshot | None
) -> SharedRows:
    """Add a stream's ledger; without a stream an empty one, so that the table always exists."""
    if stream is None:
        table = SharedRows("ledger", "", ("stream", "batch"), is_view=False)
        store.open(table, statement("serving/ledger"))
        return table
    table = _ledger_of(stream.name, stream.batch)
    changed = stream.changed
    is_shared = changed is not None and not changed.is_corrected
    before = store.open(table, statement("serving/ledger"), is_shared=is_shared)
    into, named = (
        f"INSERT INTO {store.arrived(table)} BY NAME",
        f"SELECT {text(stream.name)} AS stream, {_LEDGER} FROM",
    )
    if changed is not None:
        if before is None and is_shared:
            connection.execute(f"{into} FROM previous.ledger WHERE stream = {text(stream.name)}")
        if changed.ledger:
            since = f"batch > {changed.counted} AND batch <= {stream.batch}"
            connection.execute(f"{into} {named} {parquet(changed.ledger)} WHERE {since} ORDER BY batch")
    elif stream.ledger is not None and any(stream.ledger.glob("*.parquet")):
        files = f"read_parquet({text(str(stream.ledger / '*.parquet'))})"
        connection.execute(f"{into} {named} {files} ORDER BY batch")
    return table


def _ledger_of(stream: str, batch: int) -> SharedRows:
    return SharedRows(f"ledger_{stream}", "", ("batch",), batches=batch, is_view=False)


def _keep_ledger(
    connection: duckdb.DuckDBPyConnection, store: RowStore, stream: str, previous: Previous | None
) -> SharedRows:
    """Add the ledger that the version before has of a withheld stream."""
    assert previous is not None
    table = _ledger_of(stream, previous.streams[stream].batch)
    if store.open(table, statement("serving/ledger")) is None:
        rows = f"FROM previous.ledger WHERE stream = {text(stream)}"
        connection.execute(f"INSERT INTO {store.arrived(table)} BY NAME {rows}")
    return table


_LEDGER = """batch, kind, files, records, received, requeued, accepted, quarantined, duplicates, revised, filtered,
    reasons, missing, min_event_us, max_event_us, newest_us, late, lateness, max_lateness_us, schema_changes,
    repeated_files, lost, committed_at"""
