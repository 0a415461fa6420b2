"""Publish one immutable version for analysts: the rollups of all streams, and the results of all registered queries.

A version shares nodes with the one before and adds the new ones, read from the rollup's newest files without Spark.
If it cannot share, and once a day, all nodes are folded and added up, and the new file must have the same totals
before the pointer moves: a stream of which it has others is withheld, and the job fails. If nothing has changed since
the current version, nothing is written. Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.command import arguments_of
from jobs.passed_streams import readers_of, snapshots_to_publish
from jobs.snapshots import queries_to_publish, with_nodes
from lakehouse.declare.settings import Settings, load_settings
from lakehouse.queries.registered import as_published

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.home.layout import Home
    from lakehouse.serving.file.gate import TotalsDiffer
    from lakehouse.serving.file.publish import Published
    from lakehouse.serving.file.query_snapshot import QuerySnapshot
    from lakehouse.serving.file.snapshot import StreamSnapshot
    from lakehouse.serving.file.withheld import Withheld

log = logging.getLogger(__name__)


def run(
    settings: Settings, spark: SparkSession, *, unchecked: bool = False, anew: bool = False
) -> dict[str, Any]:
    """Publish all streams and queries as one version; return its number, whether it is new, its nodes and bytes.

    A query whose file is wrong keeps the tables of the version before.
    ``withheld``: streams that have not passed the checks, or whose totals in the new file differ from those of their
    rollups, with the reason; of these the last published state stays.
    ``queries_left_out`` are registered queries that mean something other than what their tables were made for.

    ``unchecked`` also publishes batches that the quality checks have not seen or not passed. ``anew`` shares no nodes
    with the version before.

    Raises:
        TotalsDiffer: if totals of streams differ; the other streams are published, and its ``figures`` are of that.
        PublishRefused: if a withheld stream's last state cannot be copied; readers keep the current version.
        LeaseHeld: if another process publishes, or builds or compacts one of the rollups, now.
    """
    from lakehouse.serving.file.agreeing import publish_agreeing
    from lakehouse.serving.file.brought import bring_current
    from lakehouse.serving.file.gate import TotalsDiffer
    from lakehouse.serving.file.news import is_due, with_changes
    from lakehouse.serving.file.previous import kept_open, published_queries
    from lakehouse.serving.file.publish import is_current, shared_batches
    from lakehouse.serving.file.versions import store_of
    from lakehouse.spark import tables

    layout = settings.layout
    scratch = layout.serving / ".nodes"
    with ExitStack() as leases:
        # Snapshots and nodes must be of one moment: a build or a fold between them would move the horizons of nodes.
        for path in (layout.serving, *(layout.rollup(name) for name in settings.streams)):
            leases.enter_context(tables.lease(path))
        if (store := store_of(layout.serving)) is not None:
            bring_current(layout.serving, store)
        leases.enter_context(kept_open(layout))
        snapshots, withheld = snapshots_to_publish(settings, unchecked)
        shutil.rmtree(scratch, ignore_errors=True)
        published_us = settings.queries.published
        before = published_queries(layout)
        registered = {**settings.registered, **as_published(settings.faulty, before, settings.streams)}
        asked = (layout, registered, settings.streams, published_us)
        queries, changed = queries_to_publish(*asked, before)
        kept = (settings.serving.keep_versions, partial(readers_of, settings))
        try:
            if not is_current(layout, snapshots, queries, withheld):
                shared = shared_batches(layout, snapshots)
                snapshots = [
                    with_changes(layout, one, shared) or with_nodes(settings, one, scratch / one.name)
                    for one in snapshots
                ]
            done, differing, held = publish_agreeing(layout, snapshots, queries, withheld, *kept)
            if anew or is_due(done):
                whole = [
                    one if one.nodes else with_nodes(settings, one, scratch / f"{one.name}-anew")
                    for one in snapshots
                ]
                queries, changed = queries_to_publish(*asked)
                done, differing, held = _made_anew(layout, whole, (queries, withheld), kept, done.version)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    figures = _figures(done, held) | {"queries": len(queries), "queries_left_out": changed}
    if differing:
        raise TotalsDiffer(differing.problems, figures)
    return figures


def _figures(done: Published, withheld: Sequence[Withheld]) -> dict[str, Any]:
    shown = ("version", "is_new", "nodes", "bytes", "totals_compared")
    figures = {name: getattr(done, name) for name in shown}
    return figures | {"withheld": {one.stream: one.because for one in withheld}}


def _made_anew(
    layout: Home,
    whole: Sequence[StreamSnapshot],
    rest: tuple[Sequence[QuerySnapshot], Sequence[Withheld]],
    kept: tuple[int, Callable[[str], tuple[str, ...]]],
    version: int,
) -> tuple[Published, TotalsDiffer | None, list[Withheld]]:
    """Publish without sharing; report where the current version differs from the new one, which replaces it."""
    from lakehouse.serving.file.agreeing import publish_agreeing
    from lakehouse.serving.file.publish import drift
    from lakehouse.serving.file.rows_drift import rows_drift
    from lakehouse.serving.file.versions import hold_version

    differs = drift(layout, whole)
    with hold_version(layout.serving, version):
        made = publish_agreeing(layout, whole, *rest, *kept, anew=True)
        differs = differs or rows_drift(layout, version, made[0].version)
    if differs:
        log.error("version %s was made anew as %s: %s", version, made[0].version, differs)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Publish all streams of the configuration that the command line names, and print the figures."""
    asked = arguments_of(run, argv)
    settings = load_settings(asked.config, asked.home)
    from jobs.outcome import ALL_STREAMS, recorded
    from lakehouse.spark.session import build_session

    work = partial(run, settings, build_session(settings))
    print(json.dumps(recorded("publish", settings, ALL_STREAMS, work)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
