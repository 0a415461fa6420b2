"""The parts of the previous version that a new one may share, from that version's tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from lakehouse.serving.literals import text
from lakehouse.serving.segments.segments import attach, of_nodes, of_rows
from lakehouse.serving.segments.shared_rows import RowsBefore
from lakehouse.serving.versions.versions import database_path, segments_of


@dataclass(frozen=True)
class PublishedStream:
    """A stream of a version: its number, the basis of its nodes, its last batch and correction, its count of series."""

    number: int
    basis: str
    batch: int
    rebuilt: int
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
        f"SELECT stream, stream_id, basis, batch, rebuilt, series_count FROM {schema}streams"
    ).fetchall()
    return {stream: PublishedStream(*rest) for stream, *rest in rows}
