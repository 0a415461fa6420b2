"""The parts of the previous version that a new one may share, from that version's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.serving.file.segments import attach, of_nodes, of_rows
from lakehouse.serving.file.shared_rows import RowsBefore
from lakehouse.serving.file.versions import current_version, database_path, hold_current, segments_of
from lakehouse.serving.literals import text
from lakehouse.serving.sandbox.locked import connect_locked
from lakehouse.storage.layout import Home

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class PublishedStream:
    """A stream of a version: its number, the basis of its nodes, its last batch, and its number of series."""

    number: int
    basis: str
    batch: int
    series: int


@dataclass(frozen=True)
class Previous:
    """A version that a new one may share with: its streams and segments of nodes, oldest first; the same of rows.

    ``is_shared`` is False if all is written anew, but for streams that are withheld.
    """

    segments: tuple[str, ...]
    streams: Mapping[str, PublishedStream]
    row_segments: tuple[str, ...]
    rows: Mapping[str, RowsBefore]
    is_shared: bool = True


def attach_previous(connection: duckdb.DuckDBPyConnection, folder: Path, version: int) -> Previous:
    """Attach a version as ``previous``, for reading, with its segments."""
    path = database_path(folder, version)
    segments = segments_of(path)
    attach(connection, folder, segments)
    connection.execute(f"ATTACH {text(str(path))} AS previous (READ_ONLY)")
    streams, rows = published_streams(connection, "previous."), published_rows(connection, "previous")
    return Previous(of_nodes(segments), streams, of_rows(segments), rows)


def published_rows(connection: duckdb.DuckDBPyConnection, database: str) -> Mapping[str, RowsBefore]:
    """Return the tables of rows of an attached version by name."""
    columns = "name, basis, batches, repairs, from_us, shown, log_version"
    rows = connection.execute(f"SELECT {columns} FROM {database}.row_tables").fetchall()
    return {found[0]: RowsBefore(*found) for found in rows}


def published_streams(
    connection: duckdb.DuckDBPyConnection, schema: str = ""
) -> Mapping[str, PublishedStream]:
    """Return the streams of a version by name."""
    rows = connection.execute(
        f"SELECT stream, stream_id, basis, batch, series_count FROM {schema}streams"
    ).fetchall()
    return {stream: PublishedStream(*rest) for stream, *rest in rows}


@contextmanager
def kept_open(home: Home) -> Iterator[None]:
    """Keep the current version open; opening it costs a question 20 ms of processor time otherwise."""
    with ExitStack() as opened:
        if current_version(home.serving) is not None:
            # Connections to one file share an instance of DuckDB. It does not keep the file from being deleted.
            with hold_current(home.serving) as held:
                opened.enter_context(connect_locked(held.path))
        yield


def published_queries(home: Home) -> Mapping[str, dict[str, Any]]:
    """Return the rows of ``queries`` of the current version by name, without the columns that are lists."""
    if current_version(home.serving) is None:
        return {}
    with hold_current(home.serving) as held, connect_locked(held.path) as connection:
        found = connection.execute('SELECT * EXCLUDE ("groups") FROM queries')
        columns = [column[0] for column in found.description]
        rows = [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
    return {row["query"]: row for row in rows}
