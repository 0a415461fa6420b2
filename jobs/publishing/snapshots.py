"""The input of a publisher: a snapshot of each stream, with all of its nodes, one row each, and of each query."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lakehouse.config.stream import Stream
from lakehouse.queries.kind import Query
from lakehouse.queries.runtime.batch_metrics import Facts
from lakehouse.queries.runtime.published_rows import snapshot_of as query_snapshot
from lakehouse.serving.publish.query_snapshot import QuerySnapshot
from lakehouse.serving.publish.snapshot import StreamSnapshot, measures_of, ranges_through, totals_of
from lakehouse.settings import Settings
from lakehouse.storage.corrections import published_facts, read_corrections
from lakehouse.storage.doubtful import AMBIGUOUS, REPEAT
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.query_meaning import is_of
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.rollup_table import read_level_counts, read_marker
from lakehouse.storage.tables.table_log import newest_version, read_parts


def snapshot_of(settings: Settings, stream: Stream) -> StreamSnapshot:
    """Return what a publisher knows of a stream, without its nodes."""
    from lakehouse.ingest import quarantine
    from lakehouse.rollup import rollup

    layout = settings.layout
    contained = read_marker(layout.rollup(stream.name))
    rejected = quarantine.rejected_records(layout, stream.name, contained.batch) if contained.batch else {}
    extent = read_extent(layout, stream.name, contained.batch)
    schema = rollup.require_current(layout, stream)
    return StreamSnapshot(
        name=stream.name,
        definition=stream.definition(),
        groupings=stream.groupings,
        measures=measures_of(stream),
        levels=stream.levels,
        horizons=schema.horizons(contained.newest_us),
        newest_us=extent.newest_us,
        confirmed_us=contained.newest_us,
        batch=contained.batch,
        latest_us=stream.latest,
        raw_path=str(layout.raw(stream.name).relative_to(layout.tables)),
        earliest_us=extent.earliest_us,
        quarantine={reason: records.open for reason, records in rejected.items()},
        closed={reason: records.closed for reason, records in rejected.items()},
        entered=read_level_counts(layout.rollup(stream.name), len(stream.levels)) if contained.batch else (),
        since=schema.since,
        unchecked=ranges_through(layout.unchecked(stream.name), contained.batch, REPEAT),
        ambiguous=ranges_through(layout.unchecked(stream.name), contained.batch, AMBIGUOUS),
        timezone=stream.event_time.timezone,
        **published_facts(read_corrections(layout, stream.name)),
    )


def with_nodes(settings: Settings, one: StreamSnapshot, folder: Path) -> StreamSnapshot:
    """Write the stream's folded nodes and its ledger as parquet, and add the nodes up independently of DuckDB.

    Of a stream whose changes are known, only the nodes that were built again.
    """
    layout, stream, changed = settings.layout, settings.stream(one.name), one.changed
    if changed is not None and changed.ranges:
        folder.mkdir(parents=True)
        _write_nodes(layout, stream, one.horizons, folder, changed.ranges)
        return replace(one, changed=replace(changed, again=sorted(folder.glob("*.parquet"))))
    if changed is not None or not one.batch:
        return one
    for name in ("nodes", "ledger"):
        (folder / name).mkdir(parents=True)
    totals = _write_nodes(layout, stream, one.horizons, folder / "nodes")
    _write_ledger(layout.ledger(stream.name), one.batch, folder / "ledger")
    added = [total for row in totals for total in totals_of(row, one.measures)]
    return replace(one, nodes=folder / "nodes", ledger=folder / "ledger", totals=added)


def queries_to_publish(
    layout: Home,
    registered: Mapping[str, Query],
    streams: Mapping[str, Stream],
    published_us: int | None,
    before: Mapping[str, Facts] | None = None,
) -> tuple[list[QuerySnapshot], list[str]]:
    """Return a snapshot of every query with tables, and the names of those whose tables are of another meaning.

    ``published_us``: how far back from its newest time a query is published, None for all of it. ``before``: the rows
    of queries in the version before; for a query without one, all metrics are read.
    """
    made = [query for query in registered.values() if newest_version(layout.queries(query.name)) is not None]
    changed = [
        query.name for query in made if not is_of(layout.batch_manifests(query.name), query.definition())
    ]
    snapshots = [
        query_snapshot(layout, query, streams, published_us, (before or {}).get(query.name))
        for query in made
        if query.name not in changed
    ]
    return snapshots, changed


def _write_nodes(
    layout: Home,
    stream: Stream,
    horizons: Sequence[int],
    folder: Path,
    ranges: Sequence[tuple[int, int]] | None = None,
) -> list[dict[str, Any]]:
    """Write one row per node, of some ranges of time or all, and return their totals."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lakehouse.rollup import rollup

    totals = []
    for number, nodes in enumerate(rollup.folded_nodes(layout, stream, horizons, ranges)):
        pq.write_table(nodes, folder / f"{number:05d}.parquet")
        totals.append(rollup.totals(nodes, stream))
    added: list[dict[str, Any]] = (
        rollup.totals(pa.concat_tables(totals), stream).to_pylist() if totals else []
    )
    return added


def _write_ledger(ledger: Location, batch: int, folder: Location) -> None:
    """Write the rows of the ledger up to a batch; columns that it lacks are null."""
    import pyarrow.parquet as pq

    from lakehouse.spark.tables import declared_columns
    from lakehouse.storage.tables.table_commits import fitted

    columns = declared_columns("ledger")
    with pq.ParquetWriter(folder / "ledger.parquet", columns) as writer:
        for part in read_parts(ledger, columns.names, ("batch", 0, batch)):
            writer.write_table(fitted(part, columns))
