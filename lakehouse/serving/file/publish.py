"""Write one new version of everything that can be asked, check it, then let readers see it.

    draft (hidden name) -> tables, macros, views -> gate -> fsync, rename -> pointer -> collect

Killed anywhere, the pointer names a whole version: the draft is hidden until it is complete and checked, and the
next publish removes what was left.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lakehouse.home.crashpoint import crash_point
from lakehouse.home.layout import Home
from lakehouse.serving.file.build import drafted, write_tables
from lakehouse.serving.file.gate import reconcile
from lakehouse.serving.file.query_snapshot import QuerySnapshot
from lakehouse.serving.file.snapshot import StreamSnapshot, fingerprint
from lakehouse.serving.file.versions import (
    collect,
    current_version,
    database_path,
    hold_current,
    next_version,
    place,
    point_to,
    publisher,
)
from lakehouse.serving.sandbox.locked import connect_locked


@dataclass(frozen=True)
class Published:
    """What a publish did; ``is_new`` is False when the current version already said the same."""

    version: int
    is_new: bool
    nodes: int
    bytes: int
    totals_compared: int
    removed: tuple[int, ...] = ()


def publish(
    home: Home,
    streams: Sequence[StreamSnapshot],
    keep_versions: int = 3,
    queries: Sequence[QuerySnapshot] = (),
) -> Published:
    """Publish all streams and queries as one version, unless the current one was made from the same.

    Raises:
        PublishRefused: when a total differs from Spark's; nothing a reader sees has changed.
    """
    folder = home.serving
    with publisher(folder):
        if is_current(home, streams, queries):
            return _published(folder, current_version(folder) or 0, is_new=False)
        version = next_version(folder)
        draft = folder / f".draft-{version:08d}-{os.getpid()}.duckdb"
        try:
            with drafted(draft) as connection:
                write_tables(connection, version, streams, queries)
                compared = reconcile(connection, streams)
            place(folder, version, draft)
            crash_point("publish.file-written")
        finally:
            _discard(draft)
        point_to(folder, version)
        crash_point("publish.pointer-moved")
        removed = collect(folder, keep_versions)
    return _published(folder, version, is_new=True, compared=compared, removed=removed)


def is_current(home: Home, streams: Sequence[StreamSnapshot], queries: Sequence[QuerySnapshot] = ()) -> bool:
    """Return whether the current version was made from these streams, queries, batches, definitions and macros.

    Looks at no nodes and no totals, so it can be asked before they are made.
    """
    folder = home.serving
    if current_version(folder) is None:
        return False
    with hold_current(folder) as held, connect_locked(held.path) as connection:
        row = connection.execute("SELECT fingerprint FROM publication").fetchone()
    return row is not None and row[0] == fingerprint(streams, queries)


def _discard(draft: Path) -> None:
    for path in (draft, draft.with_name(draft.name + ".wal")):
        path.unlink(missing_ok=True)


def _published(
    folder: Path, version: int, *, is_new: bool, compared: int = 0, removed: Sequence[int] = ()
) -> Published:
    path = database_path(folder, version)
    with connect_locked(path) as connection:
        row = connection.execute("SELECT count(*) FROM nodes").fetchone()
    return Published(version, is_new, row[0] if row else 0, path.stat().st_size, compared, tuple(removed))
