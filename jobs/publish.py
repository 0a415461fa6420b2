"""Publish one immutable version for analysts: the rollups of all streams, and the results of all registered queries.

A version shares nodes with the one before and adds the new ones, read from the rollup's newest files without Spark.
If it cannot share, and once a day, all nodes are folded and added up, and the new file must have the same totals
before the pointer moves: a stream of which it has others is withheld, and the job fails. If nothing has changed since
the current version, nothing is written. Safe to run again, and to kill anywhere.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.publishing.passed_streams import damaged_streams
from jobs.publishing.versions import publish_sound
from jobs.running.command import run_for
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long a publish waits for rollups that are written now: as long as most builds take, since the streams that it
# holds meanwhile wait for it.
WAIT_S = 30.0


def run(
    settings: Settings, spark: SparkSession, *, unchecked: bool = False, in_full: bool = False
) -> dict[str, Any]:
    """Publish all streams and queries as one version; return its number, whether it is new, its nodes and bytes.

    A query whose file is wrong keeps the tables of the version before.
    ``withheld``: streams that have not passed the checks, whose totals in the new file differ from those of their
    rollups, or whose rollups cannot be read, with the reason; of these the last published state stays.
    ``queries_left_out`` are registered queries that mean something other than what their tables were made for.

    ``unchecked`` also publishes batches that the quality checks have not seen or not passed. ``in_full`` shares no
    nodes with the version before. Raises TotalsDiffer or DamagedFile of streams, when the others are published.
    Raises LeaseHeld: likewise, if another process writes a rollup for longer than ``WAIT_S``; or if one publishes now.
    """
    figures, fault = publish_streams(settings, unchecked=unchecked, in_full=in_full, wait_s=WAIT_S)
    if fault:
        raise fault
    return figures


def publish_streams(
    settings: Settings, *, unchecked: bool = False, in_full: bool = False, wait_s: float = 0
) -> tuple[dict[str, Any], Exception | None]:
    """Publish as ``run``; return the figures, and the fault of a stream for which ``run`` raises, if any.

    ``wait_s``: how long it waits for rollups that another process writes.
    """
    from lakehouse.serving.publish.publish import kept_open
    from lakehouse.serving.versions.downloads import download_current
    from lakehouse.spark import tables

    layout = settings.layout
    with ExitStack() as leases:
        leases.enter_context(tables.lease(layout, layout.serving))
        faults = _held_by_others(settings, leases, wait_s)
        if (store := layout.published) is not None:
            download_current(layout.serving, store)
        leases.enter_context(kept_open(layout))
        try:
            figures, differing = publish_sound(faults, settings, unchecked, in_full)
        except Exception:
            # Looked for where something failed: it costs a look at each file.
            damaged = damaged_streams(settings)
            if damaged.keys() <= faults.keys():
                raise
            faults = damaged | faults
            figures, differing = publish_sound(faults, settings, unchecked, in_full)
    return figures, differing or next(iter(faults.values()), None)


def _held_by_others(settings: Settings, leases: ExitStack, wait_s: float) -> dict[str, Exception]:
    """Take the leases of all rollups; return the streams whose rollup another process writes all the time.

    Snapshots and nodes must be of one moment: a build or a fold between them would move the horizons of nodes.
    """
    from lakehouse.spark import tables

    faults, end = dict[str, Exception](), time.monotonic() + wait_s
    for name in settings.streams:
        try:
            rollup, left_s = settings.layout.rollup(name), end - time.monotonic()
            leases.enter_context(tables.lease(settings.layout, rollup, left_s))
        except tables.LeaseHeld as held:
            faults[name] = held
    return faults


main = partial(run_for, None, run)


if __name__ == "__main__":
    raise SystemExit(main())
