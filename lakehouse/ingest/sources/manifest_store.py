"""Manifests, which fix for good the files or messages of each ingest batch.

A manifest is written once, atomically, before its batch is read; a batch replayed after a crash therefore reads
the same files, however many have landed since. Numbers run 1, 2, 3, ...; they are the batch numbers in every table.

They are rows of the control store (manifest_rows.py): which files were read, how large they were, what columns they
had and how far each partition was read are looks into an index, and nothing of what was read is held in memory.
"""

import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from lakehouse.config.landing import located
from lakehouse.config.stream import Source
from lakehouse.ingest.sources.appended import Rewritten, appended, grows, log_of, with_known_lines
from lakehouse.ingest.sources.compared_files import CHANGED, GROWN, SAME, ComparedFiles, sentence
from lakehouse.ingest.sources.files import Found, all_landed, groups, landed
from lakehouse.ingest.sources.landed_content import Changed, SourceChanged, landing_of, opened, seen
from lakehouse.ingest.sources.listing import Look
from lakehouse.ingest.sources.manifest import (
    SET_ASIDE,
    LandedFile,
    Manifest,
    OffsetRange,
    Partition,
    Repeat,
    Seen,
    schema_changes,
)
from lakehouse.ingest.sources.manifest_rows import ManifestRows
from lakehouse.storage.crashpoint import crash_point
from lakehouse.storage.layout import Part


class ManifestStore:
    """The manifests of one stream, and the files that are in none of them yet.

    ``last_batch`` is the highest batch number handed out, 0 for none. ``matched`` is how many files the last look for
    new ones saw, and ``changed_files`` are sentences about those of them that have other content than when they were
    read: it is not read. Adding and giving up are for the one who holds the lease of the stream's raw table.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self._rows = ManifestRows(part)
        self._look: Look | None = None
        self._compared = ComparedFiles(part.folder)
        self.matched = 0
        self.changed_files: list[str] = []
        self.last_batch, self._known = self._rows.last()
        # Those behind the finished batch that was asked for last.
        self._behind: tuple[int, list[Manifest]] | None = None

    def behind(self, batch: int) -> list[Manifest]:
        """Return the manifests behind that of a finished batch; they are read once."""
        if self._behind is None or batch < self._behind[0]:
            self._behind = batch, self._rows.behind(batch)
        manifests = self._behind[1]
        later = manifests[bisect_right(manifests, batch, key=lambda manifest: manifest.batch) :]
        self._behind = batch, later
        return list(later)

    def of_few_kinds(self) -> list[Manifest]:
        """Return the manifests of requeues and losses, and of what was split or set aside."""
        return self._rows.of_few_kinds()

    def files_of(self, paths: Iterable[str]) -> list[LandedFile]:
        """Return the files of these paths that manifests hold."""
        return self._rows.files(paths)

    def read_until(self) -> dict[Partition, OffsetRange]:
        """Return the furthest range of each partition, lost ones among them."""
        return dict(self._known.until)

    def new_files(self, source: Source) -> list[Found]:
        """Return complete files matching the source that no manifest holds, by path."""
        newest = time.time_ns() - source.settle * 1000
        new: list[Found] = []
        self._look, self.changed_files, self.matched = Look(self.part.folder, source), [], 0
        for found in self._look.pieces():
            known, self.matched = self._rows.seen(path for path, _ in found), self.matched + len(found)
            unknown = ((path, file) for path, file in found if path not in known)
            new += [each for each in unknown if each[1].mtime_ns <= newest or grows(each[0], source)]
            for file, now, state in self._touched(found, known, source):
                if state == GROWN and grows(file.path, source):
                    new.append((file.path, now))
                else:
                    self.changed_files.append(sentence(file, now, state))
        return new

    def read_as_they_are(self, found: Iterable[Found], finished: int) -> set[str]:
        """Return those of these files that finished batches have read, and that nobody has touched since."""
        known = dict(found)
        unread = (*self.behind(finished), *self.set_aside)
        waiting = {file.path for manifest in unread for file in manifest.files}
        read = self._rows.seen(known)
        return {path for path, was in read.items() if known[path][:2] == was} - waiting

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
        return all_landed(group, source, lambda name, now, of: self._grown(name, now, before.get(name), of))

    def _grown(self, name: str, now: Seen, before: LandedFile | None, source: Source) -> LandedFile | None:
        """Return what is new of a file; where nothing of it is to be read, no look asks for it again."""
        try:
            file = appended(name, now, before, source)
        except Rewritten:
            file, state = None, CHANGED
            if before:
                self.changed_files.append(sentence(before, now, state))
        else:
            state = SAME
        if before and file is None:
            self._compared.note(before, now, state)
        return file

    def _repeats(
        self,
        files: Sequence[LandedFile],
        source: Source,
        is_repeat: Callable[[Repeat], bool],
        is_compared: bool,
    ) -> tuple[Repeat, ...]:
        """Return those files whose content was read under another name, or is in a file before them."""
        before, repeats = self._rows.read_as(file.digest for file in files), list[Repeat]()
        own = dict[str, list[tuple[str, int]]]()
        for file in files:
            if not file.digest or not file.size or file.unreadable is not None:
                continue
            read = (each.get(file.digest, ()) for each in (before, own))
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
            read = self._rows.read_as([log.digest]).get(log.digest, ())
            batch = next((batch for name, batch in read if name == log.path), None)
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

        What those held is unread again.
        """
        self._replace(self.behind(batch - 1), Manifest(batch, "lost", ranges=ranges))

    def put_in_place(self, manifest: Manifest, *parts: Manifest) -> None:
        """Write a manifest in place of that of its batch, and behind it parts of that one; then come later ones."""
        before = self.behind(manifest.batch - 1)
        later = [each for each in before if each.batch > manifest.batch]
        moved = ((*parts, *later), range(manifest.batch + 1, manifest.batch + 1 + len(parts) + len(later)))
        self._replace(
            before, manifest, *(replace(each, batch=number) for each, number in zip(*moved, strict=True))
        )

    @property
    def set_aside(self) -> list[Manifest]:
        """The manifests of what is set aside and in no later one."""
        found = (each for each in self.of_few_kinds() if each.kind == SET_ASIDE)
        return [each for each in found if each.files or any(part.count for part in each.ranges)]

    def add_set_aside(self, source: Source) -> int:
        """Write a manifest for each file or message that is set aside, as it is now; return how many."""
        aside = self.set_aside
        for found in aside:
            if found.ranges:
                again = Manifest(0, "kafka", ranges=found.ranges)
            else:
                again = Manifest(0, "files", tuple(_as_it_is(file, source) for file in found.files))
            self._add(replace(again, batch=self.last_batch + 1, is_part=True))
        return len(aside)

    def close_set_aside(self, finished: int) -> None:
        """Empty the manifests of what was set aside and that a finished batch holds; it is called after each."""
        for found in self.set_aside:
            held = self._rows.behind(finished - 1, finished) if found.batch < finished else ()
            if any(_holds(each, found) for each in held):
                self._rows.empty(found)

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
        before, seen = self._known.columns, set(self._known.seen)
        for file in files:
            if file.columns:
                changes += schema_changes(os.path.basename(file.path), before, file.columns, seen)
                seen |= set(file.columns)
                before = file.columns
        return tuple(changes)

    def _add(self, manifest: Manifest) -> None:
        known = self._known.after(manifest)
        self._rows.add(manifest, known)
        self.last_batch, self._known = manifest.batch, known
        if self._behind:
            self._behind[1].append(manifest)
        crash_point("ingest.manifest-written")

    def _replace(self, before: list[Manifest], *manifests: Manifest) -> None:
        known, rows = self._rows.known_after(manifests[0].batch - 1), []
        for each in manifests:
            known = known.after(each)
            rows.append((each, known))
        self._rows.replace(before, *rows)
        self.last_batch, self._known, self._behind = manifests[-1].batch, known, None
        crash_point("ingest.manifest-written")


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
