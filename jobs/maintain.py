"""Keep a stream small: delete old data, fold partial nodes, merge small files, vacuum.

The declaration says how long landed files, raw rows and nodes are kept. Only answers that need deleted raw rows
change. No row is ingested meanwhile; merging files of raw takes long and is a job of its own, ``merge_raw``. Safe to
run at any time, again, and to kill anywhere.
"""

import logging
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.running.command import run_for
from lakehouse.corrections import corrections, retention
from lakehouse.engine import engine_of
from lakehouse.ingest import profile_parts
from lakehouse.ingest.identities import unchecked
from lakehouse.queries.kind import kind_of
from lakehouse.queries.runtime.batch_manifest import is_behind
from lakehouse.rollup import rollup
from lakehouse.settings import Settings
from lakehouse.spark import tables
from lakehouse.storage.atomic_files import discard_drafts
from lakehouse.storage.tables import table_maintenance

log = logging.getLogger(__name__)


def run(settings: Settings, spark: SparkSession, stream: str) -> dict[str, Any]:
    """Maintain the stream's tables; return what was deleted, folded and merged, and which files are left.

    Raises LeaseHeld if another process maintains them now, or writes raw or rollup for longer than ``WAIT_S``;
    RollupOutdated if the stream's declaration
    differs from what its rollups were built for.
    """
    layout, history_us, figures = settings.layout, settings.tables.history, Counter[str]()
    raw, built = layout.raw(stream), layout.rollup(stream)
    places = (layout.quarantine, layout.ledger, layout.remembered, layout.unchecked)
    by_ingest = [table(stream) for table in (*places, layout.corrections, layout.retracted, layout.revised)]
    with tables.turn(layout, raw, "maintain"), tables.lease(layout, built, tables.WAIT_S):
        if tables.exists(built):
            figures.update(_dropped(settings, spark, stream))
            figures.update(rollup.compact(spark, layout, settings.stream(stream)))
        declared, streams = settings.stream(stream), settings.streams.values()
        figures["landed_files_deleted"] = retention.drop_old_files(
            engine_of(spark), layout, declared, streams
        )
        unchecked.join_ranges(layout, declared)
        figures.update(profile_parts.fold(engine_of(spark), layout, stream))
        for path in filter(tables.exists, by_ingest):
            figures.update(table_maintenance.compact_and_vacuum(path, history_us))
        if tables.exists(built):
            # A fold leaves files of a good size; another merge would mix nodes of all levels again.
            figures.update({**table_maintenance.clear(built, history_us), **table_maintenance.left(built)})
        if tables.exists(layout.profile(stream)):
            figures.update(table_maintenance.clear(layout.profile(stream), history_us))
        if tables.exists(raw):
            # Only while no process is about to append a file that looks unused.
            figures.update(table_maintenance.clear(raw, history_us))
    of_stream = (layout.manifests(stream).folder, layout.identities(stream))
    for folder in (
        *of_stream,
        layout.attempts(stream).parent,
        layout.heartbeats,
        layout.checked(stream).parent,
    ):
        discard_drafts(folder)
    if tables.exists(layout.quality):
        # One table for all streams: the second process leaves it to the first.
        with suppress(tables.LeaseHeld), tables.lease(layout, layout.quality):
            figures.update(table_maintenance.compact_and_vacuum(layout.quality, history_us))
    return dict(figures)


def _dropped(settings: Settings, spark: SparkSession, stream: str) -> dict[str, int]:
    """Delete raw rows that the stream no longer keeps, after finishing the deletion of an earlier run."""
    declared = settings.stream(stream)
    # A rebuild for a new declaration may need raw rows: they stay until it is done.
    rollup.require_current(settings.layout, declared)
    corrections.finish_open(spark, settings.layout, declared)
    # Queries that still need raw rows, for their next batch or their repair.
    waiting = [
        name
        for name, query in settings.registered.items()
        if declared.keep_raw and stream in query.streams
        if is_behind(settings.layout, name, query.streams, kind_of(query).has("repair"))
    ]
    if waiting:
        log.warning("stream %s: raw rows stay until %s have run and are repaired", stream, ", ".join(waiting))
        return {"raw_dropped": 0, "waits_for_queries": len(waiting)}
    return retention.drop_old_raw(spark, settings.layout, declared)


main = partial(run_for, "stream", run)


if __name__ == "__main__":
    raise SystemExit(main())
