"""Manifests, which fix for good the files or messages of each ingest batch.

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

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from lakehouse.config.landing import located
from lakehouse.config.stream import Source
from lakehouse.ingest.sources.appended import appended, grows, log_of, with_known_lines
from lakehouse.ingest.sources.compared_files import GROWN, SAME, ComparedFiles, sentence
from lakehouse.ingest.sources.files import Found, all_landed, groups, landed
from lakehouse.ingest.sources.folded_manifests import FoldedManifests
from lakehouse.ingest.sources.landed_content import Changed, SourceChanged, landing_of, opened, seen
from lakehouse.ingest.sources.listing import Look
from lakehouse.ingest.sources.manifest import (
    KINDS,
    SET_ASIDE,
    LandedFile,
    Manifest,
    ManifestOlder,
    OffsetRange,
    Partition,
    Repeat,
    Seen,
    furthest,
    known_files,
    manifest_file,
    ranges_of,
    read_files,
    schema_changes,
)
from lakehouse.storage.atomic_files import read_once
from lakehouse.storage.control.copies import drop
from lakehouse.storage.control.seal import is_shared, write_sealed
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.damaged import naming
from lakehouse.storage.folded_file import RECENT

_LISTINGS = 3


class ManifestStore:
    """The manifests of one stream, and the files that are in none of them yet.

    ``manifests`` are those that are not folded. ``matched`` is how many files the last look for new ones saw, and
    ``changed_files`` are sentences about those of them that have other content than when they were read: it is not
    read. Adding, giving up and folding are for the one who holds the lease of the stream's raw table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folded = FoldedManifests(folder)
        self._look: Look | None = None
        self._compared = ComparedFiles(folder)
        self.matched = 0
        self.changed_files: list[str] = []
        self._load()

    def _load(self) -> None:
        # Files are listed first: a manifest that is folded meanwhile is then found twice rather than never.
        found = _manifests(self.folder)
        self._through = self.folded.through()
        self.manifests = [manifest for manifest in found if not self._is_folded(manifest)]
        self._left = [manifest for manifest in found if self._is_folded(manifest)]
        self._note_files()

    def _note_files(self) -> None:
        self._files = {file.path: file for manifest in self.manifests for file in known_files(manifest)}
        self._by_digest = dict[str, list[tuple[str, int]]]()
        for manifest in self.manifests:
            self._note_read(manifest)

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
        self._look, self.changed_files, self.matched = Look(self.folder, source), [], 0
        for found in self._look.pieces():
            known, self.matched = self._seen(found), self.matched + len(found)
            unknown = ((path, file) for path, file in found if path not in known)
            new += [each for each in unknown if each[1].mtime_ns <= newest or grows(each[0], source)]
            touched = self._touched(found, known, source)
            grown = [each for each in touched if each[2] == GROWN and grows(each[0].path, source)]
            new += [(file.path, now) for file, now, _ in grown]
            self.changed_files += [sentence(*each) for each in touched if each not in grown]
        return new

    def read_as_they_are(self, found: Iterable[Found], finished: int) -> set[str]:
        """Return those of these files that finished batches have read, and that nobody has touched since."""
        known = dict(found)
        unread = (*self.behind(finished), *self.set_aside)
        waiting = {file.path for manifest in unread for file in manifest.files}
        read = {file.path for file in self.files_of(known) if known[file.path][:2] == _size_and_time(file)}
        return read - waiting

    def add_files(
        self, source: Source, is_repeat: Callable[[Repeat], bool] | None = None, is_compared: bool = False
    ) -> int:
        """Write manifests for all new files, cut at the source's batch limits; return how many are to be read.

        A file with the content of one that was read is not read where ``is_repeat`` says that it would give the same
        rows, and that these are kept. Where rows are compared by identity it is read, and told of all the same.
        """
        found, count = self.new_files(source), 0
        for group in groups(found, source):
            if not (files := self._landed(group, source)):
                continue
            repeats = self._repeats(files, source, is_repeat, is_compared) if is_repeat else ()
            known = {each.file.path: each for each in repeats}
            read = (known[file.path].file if file.path in known else file for file in files)
            new = tuple(file for file in read if file.path not in known or known[file.path].is_read)
            self._add(Manifest(self.last_batch + 1, "files", new, (), self._changes(new), repeats=repeats))
            count += len(new)
        if self._look:
            self._look.note()
        return count

    def _landed(self, group: Sequence[Found], source: Source) -> tuple[LandedFile, ...]:
        if not source.append:
            return all_landed(group, source)
        before = {file.path: file for file in self.files_of(path for path, _ in group)}
        return all_landed(group, source, lambda name, now, of: appended(name, now, before.get(name), of))

    def _repeats(
        self,
        files: Sequence[LandedFile],
        source: Source,
        is_repeat: Callable[[Repeat], bool],
        is_compared: bool,
    ) -> tuple[Repeat, ...]:
        """Return those files whose content was read under another name, or is in a file before them."""
        folded, repeats = self.folded.read_as(file.digest for file in files), list[Repeat]()
        own = dict[str, list[tuple[str, int]]]()
        for file in files:
            if not file.digest or not file.size or file.unreadable is not None:
                continue
            read = (each.get(file.digest, ()) for each in (self._by_digest, folded, own))
            same = (Repeat(file, *one, is_compared) for one in chain(*read))
            begun = self._begun(file, source)
            repeat = next(filter(is_repeat, chain(same, begun)), None)
            if repeat:
                repeats.append(repeat)
            if not repeat or repeat.more:
                own.setdefault(file.digest, []).append((file.path, self.last_batch + 1))
        return tuple(repeats)

    def _begun(self, file: LandedFile, source: Source) -> Iterator[Repeat]:
        """Yield what a file is that a log was rotated to after it had grown: one that begins with what was read."""
        for log in self.files_of(log_of(file.path, source)):
            read = (each.get(log.digest, ()) for each in (self._by_digest, self.folded.read_as([log.digest])))
            batch = next((batch for name, batch in chain(*read) if name == log.path), None)
            if batch is not None and (known := with_known_lines(file, log, source)):
                yield Repeat(known, log.path, batch, True, file.size - log.size)

    def is_as_listed(self, name: str, source: Source) -> bool:
        """True if a file of this name that waits in a manifest can still be read as that lists it."""
        for file in self.files_of([name]):
            try:
                with opened(located(source.path, name), landing_of(source, file.seen)):
                    pass
            except (OSError, SourceChanged):
                return False
        return True

    def add_requeue(self, reasons: tuple[str, ...]) -> Manifest:
        """Write the manifest of a batch that takes quarantined records of these reasons through again."""
        manifest = Manifest(self.last_batch + 1, "requeue", (), reasons)
        self._add(manifest)
        return manifest

    def add_loss(self, reasons: tuple[str, ...]) -> None:
        """Write the manifest of a batch that gives up quarantined records of these reasons."""
        self._add(Manifest(self.last_batch + 1, "lost", (), reasons))

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
        found = (each for each in self.manifests if each.kind == SET_ASIDE)
        return [each for each in found if each.files or any(part.count for part in each.ranges)]

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
        self._note_files()

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
        return manifest.batch <= self._through and manifest.kind in KINDS

    def _seen(self, found: Iterable[Found]) -> dict[str, tuple[int, int]]:
        """Return the size and time of files when their batch was fixed, of those of which it was."""
        paths = [path for path, _ in found]
        own = {path: _size_and_time(self._files[path]) for path in paths if path in self._files}
        return self.folded.seen(path for path in paths if path not in own) | own

    def _touched(
        self, found: Iterable[Found], known: Mapping[str, tuple[int, int]], source: Source
    ) -> list[tuple[LandedFile, Seen, str]]:
        """Return the files that have other content than when their batch was fixed, and in which way."""
        now = {path: file for path, file in found if known.get(path, file[:2]) != file[:2]}
        read = sorted(self.files_of(now), key=lambda file: file.path)
        touched = [(file, now[file.path]) for file in read]
        states = self._compared.states(touched, source)
        return [(*each, state) for each, state in zip(touched, states, strict=True) if state != SAME]

    def _changes(self, files: tuple[LandedFile, ...]) -> tuple[str, ...]:
        """Columns that the files gained, lost or retyped, each against the file before it."""
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
        self._files |= {file.path: file for file in known_files(manifest)}
        self._note_read(manifest)
        crash_point("ingest.manifest-written")

    def _note_read(self, manifest: Manifest) -> None:
        for content, path in read_files(manifest):
            self._by_digest.setdefault(content, []).append((path, manifest.batch))

    def _write(self, manifest: Manifest, *, is_new: bool = False) -> None:
        write_sealed(manifest_file(self.folder, manifest.batch), manifest.to_json(), is_new=is_new)


def _size_and_time(file: LandedFile) -> tuple[int, int]:
    return file.size, file.mtime_ns


def _as_it_is(file: LandedFile, source: Source) -> LandedFile:
    """Return a file as it is now, as it was where it is gone or changes: that is found when it is read."""
    if source.append:
        return file
    try:
        now = landed(file.path, seen(located(source.path, file.path), landing_of(source)), source)
        return replace(now, known_lines=file.known_lines if now.digest == file.digest else 0)
    except (FileNotFoundError, Changed, SourceChanged):
        return file


def _holds(manifest: Manifest, found: Manifest) -> bool:
    """True if a manifest holds the file or the message that was set aside."""
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
