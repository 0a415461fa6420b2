"""What a publish has to do: which nodes came since the current version, and whether all are to be made anew."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakehouse.home.layout import Home
from lakehouse.home.rollup_changes import nodes_since
from lakehouse.home.table_log import read_log
from lakehouse.serving.file.previous import published_streams
from lakehouse.serving.file.snapshot import ChangedNodes, StreamSnapshot
from lakehouse.serving.file.versions import current_version, hold_current
from lakehouse.serving.sandbox.locked import connect_locked

# How long versions share nodes before all are made anew, sorted, and compared with what was shared.
ANEW_S = 24 * 3600


def with_changes(home: Home, one: StreamSnapshot, shared: Mapping[str, int]) -> StreamSnapshot | None:
    """Add what came since the current version; None where that cannot share its nodes, or the log tells no more."""
    # A counter's nodes depend on the order of their rows, so they are folded together.
    if one.name not in shared or any(measure.is_counter for measure in one.measures):
        return None
    after = shared[one.name]
    if one.batch == after:
        return replace(one, changed=ChangedNodes(after, (), ()))
    nodes = nodes_since(home.rollup(one.name), one.name, after, one.batch)
    ledger = read_log(home.ledger(one.name))
    if nodes is None or ledger is None:
        return None
    return replace(one, changed=ChangedNodes(after, nodes, tuple(ledger.files)))


def is_due(home: Home, snapshots: Sequence[StreamSnapshot]) -> bool:
    """Return whether a version that shares nodes was made, and all were made anew longer ago than ``ANEW_S``."""
    made_us = _made_anew_us(home) if any(one.changed for one in snapshots) else None
    return made_us is not None and time.time() - made_us / 1e6 > ANEW_S


def _made_anew_us(home: Home) -> int | None:
    """Return when all nodes of the current version were last made anew, None where there is none of today's form."""
    if current_version(home.serving) is None:
        return None
    with hold_current(home.serving) as held, connect_locked(held.path) as connection:
        if not published_streams(connection):
            return None
        row = connection.execute("SELECT anew_us FROM publication").fetchone()
    return None if row is None else int(row[0])
