"""Write one new version of everything that can be asked, check it, then let readers see it.

    draft (hidden name) -> tables, macros, views -> gate -> segment -> fsync, rename -> pointer -> collect

Wherever it is killed, the pointer names a complete version: the draft is hidden until it is complete and checked, and
the next publish deletes leftovers. Only the nodes that changed since the version before are written. If tables are on
an object store, the version is uploaded between gate and rename, and published there first (store_versions.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from lakehouse.serving.publish.build import drafted, write_tables
from lakehouse.serving.publish.gate import TotalsDiffer, reconcile
from lakehouse.serving.publish.query_snapshot import QuerySnapshot
from lakehouse.serving.publish.snapshot import StreamSnapshot, fingerprint
from lakehouse.serving.publish.withheld import Withheld, without_others
from lakehouse.serving.sandbox.locked import connect_locked
from lakehouse.serving.segments.merge import Stored
from lakehouse.serving.segments.previous import PublishedStream, attach_previous, published_streams
from lakehouse.serving.segments.row_store import RowStore
from lakehouse.serving.table_reader import named_rows
from lakehouse.serving.versions import versions
from lakehouse.serving.versions.downloads import downloading
from lakehouse.serving.versions.store_versions import drop, upload
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Home


@dataclass(frozen=True)
class Published:
    """The result of a publish; ``is_new`` is False if the current version already has the same content.

    ``anew_us``: when everything that it shares with earlier versions was last written anew.
    """

    version: int
    is_new: bool
    nodes: int
    bytes: int
    totals_compared: int
    anew_us: int
    removed: tuple[int, ...] = ()


def publish(
    home: Home,
    streams: Sequence[StreamSnapshot],
    keep_versions: int = 3,
    queries: Sequence[QuerySnapshot] = (),
    in_full: bool = False,
    withheld: Sequence[Withheld] = (),
) -> Published:
    """Publish all streams and queries as one version, unless the current one has the same content and not ``in_full``.

    ``withheld``: streams that are not among ``streams``, and keep the state that the current version has of them.
    Raises TotalsDiffer if a total differs from the rollup's; readers see no change.
    """
    folder = home.serving
    with versions.publisher(home):
        if not in_full and is_current(home, streams, queries, withheld):
            return _published(folder, versions.current_version(folder) or 0, is_new=False)
        version, store = versions.next_version(folder), home.published
        draft = versions.draft_path(folder, f"{version:08d}")
        try:
            # The version to share with, None for none, and whether only its withheld streams are shared.
            shared = (None if in_full and not withheld else versions.current_version(folder)), in_full
            nodes, rows, compared = _write(home, version, draft, (streams, queries, withheld), shared)
            if store is not None:
                upload(store, folder, version, draft, _parts(folder, nodes, rows))
            with downloading(folder) if store is not None else nullcontext():
                _place(folder, version, draft, nodes, rows)
                removed = versions.collect(folder, keep_versions)
        finally:
            versions.discard_drafts(folder)
        if store is not None:
            drop(store, keep_versions)
    return _published(folder, version, is_new=True, compared=compared, removed=removed)


def publish_agreeing(
    home: Home,
    streams: Sequence[StreamSnapshot],
    queries: Sequence[QuerySnapshot],
    withheld: Sequence[Withheld],
    keep_versions: int,
    readers: Callable[[str], tuple[str, ...]],
    in_full: bool = False,
) -> tuple[Published, TotalsDiffer | None, list[Withheld]]:
    """Publish the streams whose totals agree; return also those that differ, and all streams that are withheld.

    Of one whose totals differ the last published state stays. A difference is known when the new file is complete, so
    the file of those that agree is a second one. ``readers``: the registered queries that read a stream. Raises
    PublishRefused if nothing can be published.
    """
    try:
        return publish(home, streams, keep_versions, queries, in_full, withheld), None, list(withheld)
    except TotalsDiffer as found:
        differing = found
    agreeing = [one for one in streams if one.name not in differing.problems]
    because = {name: f"totals differ, {problem}" for name, problem in differing.problems.items()}
    both = [*withheld, *(Withheld(name, reason, readers(name)) for name, reason in because.items())]
    return publish(home, agreeing, keep_versions, queries, in_full, both), differing, both


def _parts(folder: Path, *stored: Stored | RowStore) -> dict[str, Path]:
    """Return where the segments of a version are now; new ones are drafts."""
    found = {segment: versions.segment_path(folder, segment) for one in stored for segment in one.segments}
    return found | {one.segments[-1]: one.written for one in stored if one.written}


def _place(folder: Path, version: int, draft: Path, *stored: Stored | RowStore) -> None:
    """Rename the written files to their final names, then move the pointer."""
    for one in stored:
        if one.written:
            versions.place_segment(folder, one.segments[-1], one.written)
        crash_point("publish.segment-written")
    versions.place(folder, version, draft, [segment for one in stored for segment in one.segments])
    crash_point("publish.file-written")
    versions.point_to(folder, version)
    crash_point("publish.pointer-moved")


def _write(
    home: Home,
    version: int,
    draft: Path,
    content: tuple[Sequence[StreamSnapshot], Sequence[QuerySnapshot], Sequence[Withheld]],
    shared: tuple[int | None, bool],
) -> tuple[Stored, RowStore, int]:
    """Write the file and its segments under hidden names; return where nodes and rows are, and the totals compared.

    ``shared`` is the version to share with, None for none, and whether that is withheld streams alone.
    """
    previous, (streams, queries, withheld), (before, only_withheld) = None, content, shared
    folder = home.serving
    (folder / "segments").mkdir(exist_ok=True)
    with drafted(draft, home.tables) as connection:
        if before is not None:
            previous = attach_previous(connection, folder, before)
            previous = without_others(previous, withheld) if only_withheld else previous
        nodes, rows = write_tables(connection, version, streams, queries, folder, previous, withheld)
        return nodes, rows, reconcile(connection, streams, nodes.newest)


def shared_streams(home: Home, streams: Sequence[StreamSnapshot]) -> dict[str, PublishedStream]:
    """Return the published state of the streams whose nodes stay valid, but for those that were built again since."""
    with _current(home) as connection:
        known = published_streams(connection) if connection else {}
    return {
        one.name: before
        for one in streams
        if (before := known.get(one.name)) is not None
        and (before.basis == one.basis() and before.batch <= one.batch)
        and one.rebuilt_since(before.rebuilt) is not None
    }


def is_current(
    home: Home,
    streams: Sequence[StreamSnapshot],
    queries: Sequence[QuerySnapshot] = (),
    withheld: Sequence[Withheld] = (),
) -> bool:
    """Return whether the current version was made from these streams, queries, batches, definitions and macros.

    It reads no nodes and no totals, so it can be called before they are made.
    """
    with _current(home) as connection:
        row = connection.execute("SELECT fingerprint FROM publication").fetchone() if connection else None
    return row is not None and row[0] == fingerprint(streams, queries, withheld)


def drift(home: Home, streams: Sequence[StreamSnapshot]) -> str | None:
    """Return where the current version's totals differ from those of the same batches of these streams, or None.

    Cost: one pass over all nodes.
    """
    with versions.hold_current(home.serving) as held, connect_locked(held.path) as connection:
        try:
            reconcile(connection, streams)
        except TotalsDiffer as found:
            return "; ".join(found.problems.values())
    return None


def _published(
    folder: Path, version: int, *, is_new: bool, compared: int = 0, removed: Sequence[int] = ()
) -> Published:
    with connect_locked(versions.database_path(folder, version)) as connection:
        counted = "(SELECT ifnull(sum(nodes), 0)::BIGINT FROM streams)"
        row = connection.execute(f"SELECT {counted}, anew_us FROM publication").fetchone()
    assert row is not None
    size = sum(path.stat().st_size for path in versions.files_of_version(folder, version))
    return Published(version, is_new, row[0], size, compared, row[1], tuple(removed))


@contextmanager
def kept_open(home: Home) -> Iterator[None]:
    """Keep the current version open; opening it costs a question 20 ms of processor time otherwise."""
    with ExitStack() as opened:
        if versions.current_version(home.serving) is not None:
            # Connections to one file share an instance of DuckDB. It does not keep the file from being deleted.
            with versions.hold_current(home.serving) as held:
                opened.enter_context(connect_locked(held.path))
        yield


def published_queries(home: Home) -> Mapping[str, dict[str, Any]]:
    """Return the rows of ``queries`` of the current version by name, without the columns that are lists."""
    with _current(home) as connection:
        asked = 'SELECT * EXCLUDE ("groups") FROM queries'
        return {row["query"]: row for row in named_rows(connection, asked)} if connection else {}


@contextmanager
def _current(home: Home) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """Open the current version; None before the first publish."""
    if versions.current_version(home.serving) is None:
        yield None
        return
    with versions.hold_current(home.serving) as held, connect_locked(held.path) as connection:
        yield connection
