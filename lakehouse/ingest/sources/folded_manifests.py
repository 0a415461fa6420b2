"""The folded manifests of one stream: files by name and by content, and the last range of each partition."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakehouse.ingest.sources.manifest import (
    Columns,
    LandedFile,
    Manifest,
    OffsetRange,
    Partition,
    furthest,
    known_files,
    ranges_of,
    read_files,
)
from lakehouse.storage.folded_file import FoldedFile

_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, unreadable TEXT, shape INTEGER, digest TEXT, batch INTEGER,
    is_read INTEGER
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS files_by_digest ON files (digest);
CREATE TABLE IF NOT EXISTS shapes (shape INTEGER PRIMARY KEY, fields TEXT, columns TEXT, UNIQUE (fields, columns));
CREATE TABLE IF NOT EXISTS ranges (
    topic TEXT, partition INTEGER, first INTEGER, behind INTEGER, topic_id TEXT, PRIMARY KEY (topic, partition)
);
CREATE TABLE IF NOT EXISTS folded (only_row INTEGER PRIMARY KEY, through INTEGER, columns TEXT);
"""
_FILES = "FROM files NATURAL JOIN shapes WHERE path IN (SELECT value FROM json_each(?))"


class FoldedManifests:
    """The folded manifests of one stream; none where there is no such file."""

    def __init__(self, folder: Path) -> None:
        self._file = FoldedFile(folder, _TABLES, "without it files would be read twice")
        self._ask, self._opened = self._file.ask, self._file.opened

    def through(self) -> int:
        """Return up to which batch manifests are folded, 0 for none."""
        return max((batch for (batch,) in self._ask("SELECT through FROM folded")), default=0)

    def seen(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the size and time of files when they were read, of those of these paths that were."""
        found = self._ask(f"SELECT path, size, mtime_ns {_FILES}", json.dumps(list(paths)))
        return {path: (size, mtime_ns) for path, size, mtime_ns in found}

    def files(self, paths: Iterable[str]) -> list[LandedFile]:
        """Return the files of these paths that were read."""
        found = self._ask(
            f"SELECT path, size, mtime_ns, fields, unreadable, columns, digest {_FILES}",
            json.dumps(list(paths)),
        )
        return [
            LandedFile(path, size, mtime, _fields(fields), unreadable, json.loads(columns), digest)
            for path, size, mtime, fields, unreadable, columns, digest in found
        ]

    def read_as(self, digests: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
        """Return under which names, and in which batches, contents of these digests were read, of those that were."""
        rows = self._ask(
            "SELECT digest, path, batch FROM files WHERE is_read AND digest != '' "
            "AND digest IN (SELECT value FROM json_each(?))",
            json.dumps(list(digests)),
        )
        read = dict[str, list[tuple[str, int]]]()
        for digest, *one in rows:
            read.setdefault(digest, []).append((one[0], one[1]))
        return read

    def columns(self) -> tuple[Columns, set[str]]:
        """Return the columns of the last file that had some, and the names of all that any file had."""
        last: Columns = next((json.loads(text) for (text,) in self._ask("SELECT columns FROM folded")), {})
        seen = self._ask("SELECT DISTINCT key FROM shapes, json_each(shapes.columns)")
        return last, {name for (name,) in seen}

    def ranges(self) -> dict[Partition, OffsetRange]:
        """Return the furthest range of each partition."""
        found = self._ask("SELECT topic, partition, first, behind, topic_id FROM ranges")
        return {each.place: each for each in (OffsetRange(*row) for row in found)}

    def take(self, manifests: Sequence[Manifest]) -> None:
        """Take in the manifests that follow those taken before, whole or not at all."""
        numbered = [(file, each.batch) for each in manifests for file in known_files(each)]
        read = {path for each in manifests for _, path in read_files(each)}
        files = [file for file, _ in numbered]
        last = next((file.columns for file in reversed(files) if file.columns), self.columns()[0])
        with self._opened() as database, database:
            shapes = {_shape(file) for file in files}
            database.executemany("INSERT OR IGNORE INTO shapes (fields, columns) VALUES (?, ?)", shapes)
            database.executemany(
                "INSERT OR REPLACE INTO files SELECT ?, ?, ?, ?, shape, ?, ?, ? FROM shapes "
                "WHERE fields = ? AND columns = ?",
                (
                    (f.path, f.size, f.mtime_ns, f.unreadable, f.digest, batch, f.path in read, *_shape(f))
                    for f, batch in numbered
                ),
            )
            ranges = furthest([*self.ranges().values(), *ranges_of(manifests)]).values()
            database.executemany(
                "INSERT OR REPLACE INTO ranges VALUES (?, ?, ?, ?, ?)",
                ((r.topic, r.partition, r.start, r.end, r.topic_id) for r in ranges),
            )
            database.execute(
                "INSERT OR REPLACE INTO folded VALUES (1, ?, ?)", (manifests[-1].batch, json.dumps(last))
            )


def _shape(file: LandedFile) -> tuple[str, str]:
    return json.dumps(file.fields), json.dumps(file.columns)


def _fields(text: str) -> tuple[str, ...] | None:
    fields = json.loads(text)
    return None if fields is None else tuple(fields)
