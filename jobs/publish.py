"""Publish one immutable version for analysts: the rollups of all streams, and what all registered queries found.

Spark folds the nodes and adds them up; the new file must show the same totals before the pointer moves. When nothing
has changed since the current version, nothing is made. Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.declare.settings import Settings, load_settings
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import published_facts, read_corrections
from lakehouse.home.ledger import read_extent
from lakehouse.home.marker import read_marker
from lakehouse.serving.file.snapshot import StreamSnapshot, measures_of, totals_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(settings: Settings, spark: SparkSession, *, unchecked: bool = False) -> dict[str, Any]:
    """Publish all streams and queries as one version; return its number, whether it is new, its nodes and bytes.

    ``queries_left_out`` are registered queries that mean something else than what their tables were made for.

    ``unchecked`` publishes also what the quality checks have not seen or not passed.

    Raises:
        PublishRefused: when a total of the new file is not Spark's, or a stream holds batches that have not passed
            the checks; readers keep the current version.
        LeaseHeld: when another process publishes, or builds or compacts one of the rollups, now.
    """
    from lakehouse.queries.runtime.publish import queries_to_publish
    from lakehouse.serving.file.publish import is_current, publish
    from lakehouse.spark import tables

    layout = settings.layout
    scratch = layout.serving / ".nodes"
    with ExitStack() as leases:
        # Snapshots and nodes must be of one time: a build or a fold between them would move horizons under nodes.
        for path in (layout.serving, *(layout.rollup(name) for name in settings.streams)):
            leases.enter_context(tables.lease(path))
        snapshots = [_snapshot_of(settings, spark, stream) for stream in settings.streams.values()]
        if not unchecked:
            _refuse_unchecked(settings, spark, snapshots)
        shutil.rmtree(scratch, ignore_errors=True)
        published_us = settings.queries.published
        queries, changed = queries_to_publish(layout, settings.registered, settings.streams, published_us)
        if not is_current(layout, snapshots, queries):
            snapshots = [_with_nodes(settings, spark, one, scratch / one.name) for one in snapshots]
        try:
            done = publish(layout, snapshots, settings.serving.keep_versions, queries)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    figures = ("version", "is_new", "nodes", "bytes", "totals_compared")
    shown = {name: getattr(done, name) for name in figures}
    return shown | {"queries": len(queries), "queries_left_out": changed}


def _snapshot_of(settings: Settings, spark: SparkSession, stream: Stream) -> StreamSnapshot:
    """Return what a publisher knows of a stream, without its nodes."""
    from lakehouse.streams import quarantine, schema_check
    from lakehouse.streams.level_counts import level_counts
    from lakehouse.streams.sources.manifest_store import ManifestStore

    layout = settings.layout
    contained = read_marker(layout.rollup(stream.name))
    waiting = {}
    if contained.batch:
        manifests = ManifestStore(layout.manifests(stream.name))
        rejected = quarantine.open_records(spark, layout, stream, manifests)
        waiting = {row["reason"]: row["count"] for row in rejected.groupBy("reason").count().collect()}
    schema = schema_check.require_current(spark, layout, stream)
    return StreamSnapshot(
        name=stream.name,
        definition=stream.definition(),
        groupings=stream.groupings,
        measures=measures_of(stream),
        levels=stream.levels,
        horizons=schema.horizons(contained.newest_us),
        newest_us=contained.newest_us,
        batch=contained.batch,
        latest_us=stream.latest,
        raw_path=str(layout.raw(stream.name).relative_to(layout.root)),
        earliest_us=read_extent(layout, stream.name, contained.batch).earliest_us,
        quarantine=waiting,
        entered=level_counts(layout, stream) if contained.batch else (),
        since=schema.since,
        **published_facts(read_corrections(layout, stream.name)),
    )


def _refuse_unchecked(settings: Settings, spark: SparkSession, snapshots: Sequence[StreamSnapshot]) -> None:
    from lakehouse.serving.file.gate import PublishRefused
    from quality.history import verified_through

    for one in snapshots:
        passed = verified_through(spark, settings.layout.quality, one.name)
        if one.batch > max(passed, 0):
            raise PublishRefused(
                f"stream {one.name}: its rollups hold batches up to {one.batch}, the checks have passed those up to "
                f"{max(passed, 0)}; run the checks (`tidemark run`), nothing is published before"
            )


def _with_nodes(settings: Settings, spark: SparkSession, one: StreamSnapshot, folder: Path) -> StreamSnapshot:
    """Write the stream's folded nodes and its ledger as parquet, and add the nodes up independently."""
    from lakehouse.spark import tables
    from lakehouse.streams import rollup

    if not one.batch:
        return one
    layout, stream = settings.layout, settings.stream(one.name)
    nodes = rollup.folded_nodes(spark, layout, stream)
    nodes.write.parquet(str(folder / "nodes"))
    totals = rollup.totals(nodes, stream).collect()
    ledger = tables.as_declared(tables.read(spark, layout.ledger(stream.name)), "ledger")
    ledger = ledger.where(f"batch <= {one.batch}")
    ledger.write.parquet(str(folder / "ledger"))
    added = [total for row in totals for total in totals_of(row.asDict(), one.measures)]
    return replace(one, nodes=folder / "nodes", ledger=folder / "ledger", totals=added)


def main(argv: Sequence[str] | None = None) -> int:
    """Publish all streams of the configuration that the command line names, and print the figures."""
    parser = ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", type=Path, help="tidemark.toml (default: ./tidemark.toml)")
    parser.add_argument("--home", type=Path, help="where everything is written (default: what the file says)")
    asked = parser.parse_args(argv)
    settings = load_settings(asked.config, asked.home)
    from jobs.outcome import ALL_STREAMS, recorded
    from lakehouse.spark.session import build_session

    work = partial(run, settings, build_session(settings))
    print(json.dumps(recorded("publish", settings, ALL_STREAMS, work)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
