"""A new version of the published file: its streams and queries as they are now, as far as nothing speaks against them.

Whoever calls holds the leases of the published file and of the rollups.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.publishing.passed_streams import readers_of, snapshots_to_publish
from jobs.publishing.snapshots import queries_to_publish, with_nodes
from lakehouse.queries.registered import as_published
from lakehouse.serving.publish.query_snapshot import QuerySnapshot
from lakehouse.serving.publish.snapshot import StreamSnapshot
from lakehouse.serving.publish.withheld import Withheld
from lakehouse.settings import Settings
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    from lakehouse.serving.publish.gate import TotalsDiffer
    from lakehouse.serving.publish.publish import Published

log = logging.getLogger(__name__)


def publish_sound(
    faults: Mapping[str, Exception], settings: Settings, unchecked: bool, in_full: bool
) -> tuple[dict[str, Any], TotalsDiffer | None]:
    """Publish the streams whose tables have no faults; return the figures, and totals that differ."""
    from lakehouse.serving.publish.appended_nodes import is_due, with_changes
    from lakehouse.serving.publish.publish import (
        is_current,
        publish_agreeing,
        published_queries,
        shared_streams,
    )

    layout = settings.layout
    scratch = layout.serving / ".nodes"
    snapshots, withheld = snapshots_to_publish(settings, unchecked, faults)
    shutil.rmtree(scratch, ignore_errors=True)
    before = published_queries(layout)
    registered = {**settings.registered, **as_published(settings.faulty, before, settings.streams)}
    asked = (layout, registered, settings.streams, settings.queries.published)
    queries, changed = queries_to_publish(*asked, before)
    kept = (settings.serving.keep_versions, partial(readers_of, settings))
    try:
        if not is_current(layout, snapshots, queries, withheld):
            shared = shared_streams(layout, snapshots)
            changes = {one.name: with_changes(layout, one, shared) for one in snapshots}
            snapshots = [
                with_nodes(settings, changes[one.name] or one, scratch / one.name) for one in snapshots
            ]
        done, differing, held = publish_agreeing(layout, snapshots, queries, withheld, *kept)
        if in_full or is_due(done):
            whole = [
                one
                if one.nodes
                else with_nodes(settings, replace(one, changed=None), scratch / f"{one.name}-anew")
                for one in snapshots
            ]
            queries, changed = queries_to_publish(*asked)
            done, differing, held = _made_in_full(layout, whole, (queries, withheld), kept, done.version)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    shown = ("version", "is_new", "nodes", "bytes", "totals_compared")
    figures: dict[str, Any] = {name: getattr(done, name) for name in shown}
    figures["withheld"] = {one.stream: one.because for one in held}
    return figures | {"queries": len(queries), "queries_left_out": changed}, differing


def _made_in_full(
    layout: Home,
    whole: Sequence[StreamSnapshot],
    rest: tuple[Sequence[QuerySnapshot], Sequence[Withheld]],
    kept: tuple[int, Callable[[str], tuple[str, ...]]],
    version: int,
) -> tuple[Published, TotalsDiffer | None, list[Withheld]]:
    """Publish without sharing; report where the current version differs from the new one, which replaces it."""
    from lakehouse.serving.publish.drift import rows_drift
    from lakehouse.serving.publish.publish import drift, publish_agreeing
    from lakehouse.serving.versions.versions import hold_version

    differs = drift(layout, whole)
    with hold_version(layout.serving, version):
        made = publish_agreeing(layout, whole, *rest, *kept, in_full=True)
        differs = differs or rows_drift(layout, version, made[0].version)
    if differs:
        log.error("version %s was made anew as %s: %s", version, made[0].version, differs)
    return made
