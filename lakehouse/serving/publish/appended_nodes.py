"""Work of a publish: the nodes that are new since the current version, or all of them.

New nodes are appends to the rollup table, each marked with its stream and last batch, as Delta records its writers.
Other commits fold or move existing nodes, or are corrections, of which it is known which nodes they build again.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lakehouse.serving.publish.publish import Published
from lakehouse.serving.publish.snapshot import ChangedNodes, StreamSnapshot
from lakehouse.serving.segments.previous import PublishedStream
from lakehouse.storage.layout import Home
from lakehouse.storage.stores.store_path import Location
from lakehouse.storage.tables.table_log import (
    added_files,
    commit_actions,
    commit_at,
    files_between,
    newest_version,
)

Actions = list[dict[str, Any]]
# How long versions share nodes and rows before all are written anew, sorted, and compared with the shared ones.
ANEW_S = 24 * 3600


def with_changes(
    home: Home, one: StreamSnapshot, shared: Mapping[str, PublishedStream]
) -> StreamSnapshot | None:
    """Add the changes since the current version; None if that cannot share its nodes, or the log lacks commits.

    Nodes that were built again are not read: the caller adds their files.
    """
    if (before := shared.get(one.name)) is None:
        return None
    after, again = before.batch, one.rebuilt_since(before.rebuilt) or ()
    nodes = nodes_since(home.rollup(one.name), one.name, after, one.batch) if one.batch > after else ()
    if nodes is None:
        return None
    is_corrected = before.rebuilt != one.rebuilt
    changed = ChangedNodes(after, nodes, (), before.rebuilt, again, is_corrected=is_corrected)
    ledger = files_between(home.ledger(one.name), ("batch", changed.counted + 1, one.batch))
    # Each batch of the rollup has a ledger row, so if no file can hold one, the ledger is missing.
    if one.batch > changed.counted and not ledger:
        return None
    return replace(one, changed=replace(changed, ledger=ledger))


def is_due(done: Published) -> bool:
    """Return whether a new version would share nodes that were written anew longer ago than ``ANEW_S``."""
    return done.is_new and time.time() - done.anew_us / 1e6 > ANEW_S


def nodes_since(table: Location, stream: str, after: int, through: int) -> list[Location] | None:
    """Return the files of partial nodes of the batches after one, up to and with another, oldest commit first.

    None if the log lacks commits, or a file is missing. Cost: the commits since, newest first.
    """
    found: list[Location] = []
    last, oldest = after, -1
    for number, actions in _backwards(table):
        oldest = number
        batch = _appended(actions, f"tidemark-rollup-{stream}")
        if batch is None:
            continue
        if batch <= after:
            break
        if any("remove" in action for action in actions):
            return None
        last = max(last, batch)
        found = added_files(table, actions) + found
    else:
        if oldest != 0:
            return None
    return found if last == through and all(path.exists() for path in found) else None


def _appended(actions: Actions, writer: str) -> int | None:
    """Return the last batch that a commit of this writer appended, None for any other commit."""
    marks = (action["txn"] for action in actions if "txn" in action)
    return next((int(mark["version"]) for mark in marks if mark["appId"] == writer), None)


def _backwards(table: Location) -> Iterator[tuple[int, Actions]]:
    """Yield each commit's number and actions, newest first, as far back as the log has all of them."""
    newest = newest_version(table)
    number = -1 if newest is None else newest
    with suppress(FileNotFoundError):
        while number >= 0:
            yield number, commit_actions(commit_at(table, number))
            number -= 1
