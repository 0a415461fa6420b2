"""The manifests of one stream in the control store, and rows of their files, by name and by content.

With each manifest stands what is known after it: the columns that files had, and how far each partition was read. So a
question about all that was read is one to the last manifest, or a look into an index, however many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakehouse.ingest.sources.manifest import (
    Columns,
    LandedFile,
    Manifest,
    OffsetRange,
    Partition,
    furthest,
    known_files,
    read_files,
)
from lakehouse.storage.control.local import Change
from lakehouse.storage.control.manifests import LAST, Manifests, Row
from lakehouse.storage.damaged import RESTORE
from lakehouse.storage.layout import Part

_BY_CONTENT = (
    "SELECT {columns} FROM asked JOIN tidemark_files AS f "
    "ON home = :home AND part = :part AND digest = asked.value"
)
# A file that grows has a row for each batch that read of it; the last one is found by a look into the index.
_BY_NAME = (
    "SELECT {columns} FROM asked JOIN tidemark_files AS f ON home = :home AND part = :part AND path = asked.value "
    "AND batch = (SELECT max(o.batch) FROM tidemark_files AS o "
    "WHERE o.home = :home AND o.part = :part AND o.path = asked.value)"
)
_ADD_FILE = (
    "INSERT INTO tidemark_files VALUES (:home, :part, :path, :batch, :size, :mtime_ns, :digest, :is_read)"
)
_DROP_FILE = (
    "DELETE FROM tidemark_files WHERE home = :home AND part = :part AND path = :path AND batch = :batch"
)
# So many values of one question, which every database allows.
_ASKED = 1_000


@dataclass(frozen=True)
class Known:
    """State of a stream's source after a manifest: columns of the last file that had some, names of all, and ranges."""

    columns: Columns = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    until: Mapping[Partition, OffsetRange] = field(default_factory=dict)

    def after(self, manifest: Manifest) -> Known:
        """Return what is known after the next manifest."""
        with_columns = [file.columns for file in known_files(manifest) if file.columns]
        seen = tuple(dict.fromkeys([*self.seen, *(name for each in with_columns for name in each)]))
        until = furthest([*self.until.values(), *manifest.ranges])
        return Known(with_columns[-1] if with_columns else self.columns, seen, until)


class ManifestRows:
    """Manifests of a stream. Whoever changes them holds the lease of raw."""

    def __init__(self, part: Part) -> None:
        self._rows = Manifests(part, do=f"{RESTORE}; without it files would be read twice")

    def last(self) -> tuple[int, Known]:
        """Return the highest batch number handed out, 0 for none, and what is known after it."""
        number = self._rows.last()
        return number, self.known_after(number)

    def known_after(self, batch: int) -> Known:
        """Return what is known after the manifest of a batch."""
        row = self._rows.read(batch) if batch else None
        return _read(row)[1] if row else Known()

    def behind(self, batch: int, through: int = LAST) -> list[Manifest]:
        """Return the manifests behind that of a batch, up to and with another."""
        return [_read(row)[0] for row in self._rows.between(batch, through)]

    def of_few_kinds(self) -> list[Manifest]:
        """Return the manifests of requeues and losses, and of what was split or set aside."""
        return [_read(row)[0] for row in self._rows.of_few_kinds()]

    def seen(self, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the size and time of files when their batch was fixed, of those of these paths of which it was."""
        found = self._ask(_BY_NAME, "batch, path, size, mtime_ns", paths)
        return {path: (size, mtime_ns) for _, path, size, mtime_ns in sorted(found)}

    def files(self, paths: Iterable[str]) -> list[LandedFile]:
        """Return the files of these paths that manifests hold. Cost: a look for each manifest that holds some."""
        batches = {path: batch for batch, path in sorted(self._ask(_BY_NAME, "batch, path", paths))}
        found = list[LandedFile]()
        for batch in sorted(set(batches.values())):
            for manifest in self.behind(batch - 1, batch):
                own = {file.path: file for file in known_files(manifest)}
                found += (file for path, file in own.items() if batches.get(path) == batch)
        return found

    def read_as(self, digests: Iterable[str]) -> dict[str, list[tuple[str, int]]]:
        """Return under which names, and in which batches, contents of these digests were read, of those that were."""
        read = dict[str, list[tuple[str, int]]]()
        found = self._ask(_BY_CONTENT, "batch, path, digest, is_read", filter(None, digests))
        for batch, path, digest, is_read in sorted(found):
            if is_read:
                read.setdefault(digest, []).append((path, batch))
        return read

    def add(self, manifest: Manifest, known: Known) -> None:
        """Write a new manifest, and what is known after it.

        Raises FileExistsError when another machine has written one of its number; LeaseLost when another process has
        taken the lease of raw meanwhile.
        """
        self._rows.add(_row(manifest, known), [(_ADD_FILE, list(self._files_of(manifest)))])

    def replace(self, before: Sequence[Manifest], *rows: tuple[Manifest, Known]) -> None:
        """Write manifests in place of the last ones, all or none of them."""
        old, new = (
            [row for each in some for row in self._files_of(each)]
            for some in (before, [manifest for manifest, _ in rows])
        )
        gone = self._rows.dropping(before[0].batch - 1 if before else LAST)
        changes: list[Change] = [gone, (_DROP_FILE, [_key(row) for row in old]), (_ADD_FILE, new)]
        self._rows.put(*(_row(*each) for each in rows), beside=changes)

    def empty(self, manifest: Manifest) -> None:
        """Take the files and ranges out of a manifest."""
        gone = [_key(row) for row in self._files_of(manifest)]
        emptied = replace(manifest, files=(), ranges=())
        self._rows.put(_row(emptied, self.known_after(manifest.batch)), beside=[(_DROP_FILE, gone)])

    def _ask(self, statement: str, columns: str, values: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        asked = list(dict.fromkeys(values))
        for begin in range(0, len(asked), _ASKED):
            named = {f"v{number}": value for number, value in enumerate(asked[begin : begin + _ASKED])}
            names = ", ".join(f"(:{name})" for name in named)
            question = f"WITH asked (value) AS (VALUES {names}) {statement.format(columns=columns)}"
            yield from self._rows.store.rows(question, part=self._rows.part, **named)

    def _files_of(self, manifest: Manifest) -> Iterator[dict[str, Any]]:
        read = {path for _, path in read_files(manifest)}
        for path, file in {file.path: file for file in known_files(manifest)}.items():
            yield {
                **{"part": self._rows.part, "path": path, "batch": manifest.batch, "digest": file.digest},
                **{"size": file.size, "mtime_ns": file.mtime_ns, "is_read": int(path in read)},
            }


def _key(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("part", "path", "batch")}


def _row(manifest: Manifest, known: Known) -> Row:
    note = [known.columns, known.seen, [asdict(each) for each in known.until.values()]]
    body = json.dumps({"known": note, "manifest": asdict(manifest)}, ensure_ascii=False)
    return Row(manifest.batch, manifest.kind, body)


def _read(row: Row) -> tuple[Manifest, Known]:
    content = json.loads(row.body)
    columns, seen, ranges = content["known"]
    until = furthest(OffsetRange(**each) for each in ranges)
    return Manifest.from_fields(content["manifest"]), Known(columns, tuple(seen), until)
