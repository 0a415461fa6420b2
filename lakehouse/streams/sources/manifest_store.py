"""Which files or messages make up which ingest batch, fixed for good by manifests.

A manifest is written once, atomically, before its batch is read; a batch replayed after a crash therefore reads
the same files, however many have landed since. Numbers run 1, 2, 3, ...; they are the batch numbers in every table.

    manifests/<stream>/00000123.json    the manifest of batch 123
    manifests/<stream>/folded.sqlite    those of long finished batches: files, by path; each partition's last range
    manifests/<stream>/listed.position  how far a store was listed (listing.py)

One file for each batch would be millions in a year. The folded file tells what is asked of old manifests: which files
were read, how large they were, and what columns they had; how far each partition was read. A question costs a look into
an index, and nothing is held in memory.
"""

from __future__ import annotations

import json
import os
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lakehouse.declare.stream import Source
from lakehouse.home.atomic_files import read_once
from lakehouse.home.control.copies import drop
from lakehouse.home.crashpoint import crash_point
from lakehouse.home.damaged import naming
from lakehouse.home.folded_file import RECENT, FoldedFile
from lakehouse.home.seal import is_shared, write_sealed
from lakehouse.streams.sources.files import Found, all_landed, groups, landed
from lakehouse.streams.sources.landed_content import seen
from lakehouse.streams.sources.listing import Look
from lakehouse.streams.sources.manifest import (
    SET_ASIDE,
    Columns,
    LandedFile,
    Manifest,
    ManifestOlder,
    OffsetRange,
    Partition,
    furthest,
    manifest_file,
    ranges_of,
    schema_changes,
)

_LISTINGS = 3
# A batch makes one of these each; of other kinds are few, and they stay as they are.
_KINDS = ("files", "kafka")
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


class ManifestStore:
    """The manifests of one stream, and the files that are in none of them yet.

    ``manifests`` are those that are not folded. ``changed_files`` are files that no longer have the size of when their
    batch was fixed, as the last look for new files saw them: their new content is not read. Adding, giving up and
    folding are for the one who holds the lease of the stream's raw table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folded = _FoldedManifests(folder)
        self._look: Look | None = None
        self.changed_files: list[str] = []
        self._load()

    def _load(self) -> None:
        # Files are listed first: a manifest that is folded meanwhile is then found twice rather than never.
        found = _manifests(self.folder)
        self._through = self.folded.through()
        self.manifests = [manifest for manifest in found if not self._is_folded(manifest)]
        self._left = [manifest for manifest in found if self._is_folded(manifest)]
        self._files = {file.path: file for manifest in self.manifests for file in manifest.files}

    @property
    def last_batch(self) -> int:
        """The highest batch number handed out, 0 for none."""
        return max(self._through, self.manifests[-1].batch if self.manifests else 0)

    @property
    def missing(self) -> int | None:
        """The first batch without its manifest, None where all have theirs."""
        numbers = [manifest.batch for manifest in self.behind(self._through)]
        expected = range(self._through + 1, self.last_batch + 1)
        return next((batch for batch, found in zip(expected, numbers, strict=False) if batch != found), None)

    def behind(self, batch: int) -> list[Manifest]:
        """Return the manifests behind that of a finished batch."""
        return self.manifests[bisect_right(self.manifests, batch, key=lambda manifest: manifest.batch) :]

    def files_of(self, paths: Iterable[str]) -> list[LandedFile]:
        """Return the files of these paths that manifests hold."""
        asked = list(paths)
        return self.folded.files(asked) + [self._files[path] for path in asked if path in self._files]

    def read_until(self) -> dict[Partition, OffsetRange]:
        """Return the furthest range of each partition, lost ones among them."""
        return furthest([*self.folded.ranges().values(), *ranges_of(self.manifests)])

    def new_files(self, source: Source) -> list[Found]:
        """Return complete files matching the source that no manifest holds, by path."""
        newest = time.time_ns() - source.settle * 1000
        new: list[Found] = []
        self._look, self.changed_files = Look(self.folder, source), []
        for found in self._look.pieces():
            known = self._sizes(found)
            new += [(path, file) for path, file in found if path not in known and file.mtime_ns <= newest]
            self.changed_files += _changed(found, known)
        return new

    def read_as_they_are(self, found: Iterable[Found], finished: int) -> set[str]:
        """Return those of these files that finished batches have read, and that nobody has touched since."""
        known = dict(found)
        unread = (*self.behind(finished), *self.set_aside)
        waiting = {file.path for manifest in unread for file in manifest.files}
        read = {file.path for file in self.files_of(known) if known[file.path] == (file.size, file.mtime_ns)}
        return read - waiting

    def add_files(self, source: Source) -> int:
        """Write manifests for all new files, cut at the source's batch limits; return how many files."""
        found, count = self.new_files(source), 0
        for group in groups(found, source):
            if files := all_landed(group, source):
                self._add(Manifest(self.last_batch + 1, "files", files, (), self._changes(files)))
            count += len(files)
        if self._look:
            self._look.note()
        return count

    def add_requeue(self, reasons: tuple[str, ...]) -> Manifest:
        """Write the manifest of a batch that takes quarantined records of these reasons through again."""
        manifest = Manifest(self.last_batch + 1, "requeue", (), reasons)
        self._add(manifest)
        return manifest

    def add_ranges(self, batches: Iterable[tuple[OffsetRange, ...]]) -> None:
        """Write a manifest for each batch of messages."""
        for ranges in batches:
            self._add(Manifest(self.last_batch + 1, "kafka", ranges=ranges))

    def give_up(self, ranges: tuple[OffsetRange, ...], batch: int) -> None:
        """Write the manifest of messages that are lost as this batch, in place of those from it on.

        Killed in the midst of it, fewer manifests are left: what they held is unread again.
        """
        self._withdraw(batch)
        self._add(Manifest(batch, "lost", ranges=ranges), is_new=False)

    def put_in_place(self, manifest: Manifest, *parts: Manifest) -> None:
        """Write a manifest in place of that of its batch, and behind it parts of that one; later ones come after them.

        Killed in the midst of it, fewer manifests are left: what they held is unread again.
        """
        later = self.behind(manifest.batch)
        self._withdraw(manifest.batch)
        crash_point("split.withdrawn")
        self._add(manifest, is_new=False)
        for each in (*parts, *later):
            self._add(replace(each, batch=self.last_batch + 1))

    @property
    def set_aside(self) -> list[Manifest]:
        """The manifests of what is set aside and in no later one."""
        return [each for each in self.manifests if each.kind == SET_ASIDE and _holds_some(each)]

    def add_set_aside(self, source: Source) -> int:
        """Write a manifest for each file or message that is set aside, as it is now; return how many."""
        for found in self.set_aside:
            if found.ranges:
                again = Manifest(0, "kafka", ranges=found.ranges)
            else:
                again = Manifest(0, "files", tuple(_as_it_is(file, source) for file in found.files))
            self._add(replace(again, batch=self.last_batch + 1, is_part=True))
        return len(self.set_aside)

    def close_set_aside(self, finished: int) -> None:
        """Empty the manifests of what was set aside and that a later finished batch holds."""
        for found in self.set_aside:
            later = [each for each in self.behind(found.batch) if each.batch <= finished]
            if any(_holds(each, found) for each in later):
                emptied = replace(found, files=(), ranges=())
                self._write(emptied)
                self.manifests[self.manifests.index(found)] = emptied

    def _withdraw(self, batch: int) -> None:
        """Delete the manifests behind that of a batch, the last one first, and forget that one."""
        while self.last_batch > batch:
            drop(manifest_file(self.folder, self.manifests.pop().batch))
        self.manifests = [manifest for manifest in self.manifests if manifest.batch < batch]
        self._files = {file.path: file for manifest in self.manifests for file in manifest.files}

    def fold(self, finished: int) -> int:
        """Fold the manifests of finished batches but for recent ones; return how many.

        None while one is ``missing``. Killed in the midst of it, some are left that are folded already: they count for
        nothing, and go the next time.
        """
        if self.missing is not None:
            return 0
        old = [manifest for manifest in self.behind(self._through) if manifest.batch <= finished - RECENT]
        if old:
            self.folded.take(old)
            crash_point("maintain.manifests-folded")
            self._load()
        for manifest in self._left:
            manifest_file(self.folder, manifest.batch).unlink(missing_ok=True)
        self._left = []
        return sum(self._is_folded(manifest) for manifest in old)

    def _is_folded(self, manifest: Manifest) -> bool:
        return manifest.batch <= self._through and manifest.kind in _KINDS

    def _sizes(self, found: Iterable[Found]) -> dict[str, int]:
        """Return how large files were when their batch was fixed, of those of which it was."""
        paths = [path for path, _ in found]
        own = {path: self._files[path].size for path in paths if path in self._files}
        return self.folded.sizes(path for path in paths if path not in own) | own

    def _changes(self, files: tuple[LandedFile, ...]) -> tuple[str, ...]:
        """What columns the files gained, lost or retyped, each against the file before it."""
        changes: list[str] = []
        before, seen = self.folded.columns()
        earlier = [file.columns for file in self._files.values() if file.columns]
        before, seen = earlier[-1] if earlier else before, seen.union(*earlier)
        for file in files:
            if file.columns:
                changes += schema_changes(os.path.basename(file.path), before, file.columns, seen)
                seen |= set(file.columns)
                before = file.columns
        return tuple(changes)

    def _add(self, manifest: Manifest, *, is_new: bool = True) -> None:
        # A writer that was paused must not put its manifest in place of one that its successor wrote meanwhile.
        self._write(manifest, is_new=is_new and is_shared(self.folder))
        self.manifests.append(manifest)
        self._files |= {file.path: file for file in manifest.files}
        crash_point("ingest.manifest-written")

    def _write(self, manifest: Manifest, *, is_new: bool = False) -> None:
        write_sealed(manifest_file(self.folder, manifest.batch), manifest.to_json(), is_new=is_new)


def _changed(found: Iterable[Found], known: Mapping[str, int]) -> list[str]:
    return [path for path, file in found if known.get(path, file.size) != file.size]


def _as_it_is(file: LandedFile, source: Source) -> LandedFile:
    """Return a file as it is now, as it was where it is gone: it is found to be so when it is read."""
    try:
        return landed(file.path, seen(file.path, source.endpoint), source)
    except FileNotFoundError:
        return file


def _holds_some(manifest: Manifest) -> bool:
    return bool(manifest.files) or any(each.count for each in manifest.ranges)


def _holds(manifest: Manifest, found: Manifest) -> bool:
    """Whether a manifest holds the file or the message that was set aside."""
    paths = {file.path for file in found.files}
    if any(file.path in paths for file in manifest.files):
        return True
    return any(
        each.place == own.place and each.start <= own.start < each.end
        for each in manifest.ranges
        for own in found.ranges
    )


def _manifests(folder: Path) -> list[Manifest]:
    """Return the manifests in a folder, in order; the folder is listed again when one is folded meanwhile."""
    for _ in range(_LISTINGS):
        try:
            return [_manifest(path) for path in sorted(folder.glob("*.json"))]
        except FileNotFoundError as error:
            failure = error
    raise failure


@read_once(50_000)
def _manifest(path: Path) -> Manifest:
    """Return a manifest, read once a process: what stands under a name changes only when messages are given up."""
    with naming(path):
        try:
            return Manifest.from_json(path.read_text("utf-8"))
        except ManifestOlder as error:
            raise ManifestOlder(f"{path}: {error}") from None


class _FoldedManifests:
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
