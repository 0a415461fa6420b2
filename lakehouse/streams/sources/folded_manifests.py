"""Manifests of finished batches, folded into one SQLite file: one file for each batch would be millions in a year.

    manifests/<stream>/folded.sqlite    files, by path; each partition's last range; up to which batch

It tells what is asked of old manifests: which files were read, how large they were, and what columns they had; how
far each partition was read. A question costs a look into an index, and nothing is held in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakehouse.home.folded_file import FoldedDamaged as FoldedDamaged
from lakehouse.home.folded_file import FoldedFile
from lakehouse.streams.sources.drift import Columns
from lakehouse.streams.sources.manifest import LandedFile, Manifest, OffsetRange, Partition
from lakehouse.streams.sources.offsets import furthest, ranges_of

# A batch makes one of these each; of other kinds are few, and they stay as they are.
KINDS = ("files", "kafka")
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
    path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, unreadable TEXT, shape INTEGER
) WITHOUT ROWID;
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

    def sizes(self, paths: Iterable[str]) -> dict[str, int]:
        """Return how large files were when they were read, of those of these paths that were."""
        return dict(self._ask(f"SELECT path, size {_FILES}", json.dumps(list(paths))))

    def files(self, paths: Iterable[str]) -> list[LandedFile]:
        """Return the files of these paths that were read."""
        found = self._ask(
            f"SELECT path, size, mtime_ns, fields, unreadable, columns {_FILES}", json.dumps(list(paths))
        )
        return [
            LandedFile(path, size, mtime, _fields(fields), unreadable, json.loads(columns))
            for path, size, mtime, fields, unreadable, columns in found
        ]

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
        files = [file for manifest in manifests for file in manifest.files]
        last = next((file.columns for file in reversed(files) if file.columns), self.columns()[0])
        with self._opened() as database, database:
            shapes = {_shape(file) for file in files}
            database.executemany("INSERT OR IGNORE INTO shapes (fields, columns) VALUES (?, ?)", shapes)
            database.executemany(
                "INSERT OR REPLACE INTO files SELECT ?, ?, ?, ?, shape FROM shapes WHERE fields = ? AND columns = ?",
                ((f.path, f.size, f.mtime_ns, f.unreadable, *_shape(f)) for f in files),
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
