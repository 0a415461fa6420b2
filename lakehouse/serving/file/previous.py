"""What a new version may share with the one before, as that one's tables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.serving.file.segments import attach
from lakehouse.serving.file.versions import database_path, segments_of
from lakehouse.serving.literals import text

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class PublishedStream:
    """A stream of a version: its number, what its nodes depend on, its last batch, and how many series it has."""

    number: int
    basis: str
    batch: int
    series: int


@dataclass(frozen=True)
class Previous:
    """A version whose nodes a new one may share: its segments, oldest first, and its streams."""

    segments: tuple[str, ...]
    streams: Mapping[str, PublishedStream]


def attach_previous(connection: duckdb.DuckDBPyConnection, folder: Path, version: int) -> Previous:
    """Attach a version as ``previous``, for reading, with its segments."""
    path = database_path(folder, version)
    segments = tuple(segments_of(path))
    attach(connection, folder, segments)
    connection.execute(f"ATTACH {text(str(path))} AS previous (READ_ONLY)")
    return Previous(segments, published_streams(connection, "previous."))


def published_streams(
    connection: duckdb.DuckDBPyConnection, schema: str = ""
) -> Mapping[str, PublishedStream]:
    """Return the streams of a version by name; none where its tables are of an earlier form."""
    described = connection.execute(f"DESCRIBE {schema}streams").fetchall()
    if "basis" not in {row[0] for row in described}:
        return {}
    rows = connection.execute(
        f"SELECT stream, stream_id, basis, batch, series_count FROM {schema}streams"
    ).fetchall()
    return {stream: PublishedStream(*rest) for stream, *rest in rows}
