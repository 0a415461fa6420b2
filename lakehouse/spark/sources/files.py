"""Which files are new and complete, and manifests that fix for good which files make up an ingest batch.

A manifest is written once, atomically, before its batch is read; a batch replayed after a crash therefore reads
the same files, however many have landed since. Numbers run 1, 2, 3, ...; they are the batch numbers in every table.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from lakehouse.catalog.crashpoint import crash_point
from lakehouse.catalog.envelope import Message
from lakehouse.catalog.stream import Source
from lakehouse.spark.sources.drift import Columns, json_columns, schema_changes
from lakehouse.spark.sources.nfdump import field_names
from lakehouse.spark.sources.offsets import OffsetRange

_SAMPLE_LINES = 100
_ZEEK_MARKS = {"#separator": "\\x09", "#unset_field": "-", "#empty_field": "(empty)"}
HIDDEN = (".", "_")
UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", ".crdownload")


@dataclass(frozen=True, slots=True)
class LandedFile:
    """One file of a batch; ``fields`` are the names or the count of its columns, None where lines have none.

    ``columns`` are the columns it was seen to have, each with its type where the file tells: a sample, to see changes.
    """

    path: str
    size: int
    mtime_ns: int
    fields: tuple[str, ...] | None = None
    unreadable: str | None = None
    columns: Columns = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """What one ingest batch reads: new files, messages of topics, or records taken back out of quarantine.

    Of kind ``lost`` it reads nothing: its ranges are messages that are gone.
    """

    batch: int
    kind: str
    files: tuple[LandedFile, ...] = ()
    reasons: tuple[str, ...] = field(default=())
    schema_changes: tuple[str, ...] = field(default=())
    ranges: tuple[OffsetRange, ...] = field(default=())

    def to_json(self) -> str:
        """Return the manifest as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read a manifest back."""
        content = json.loads(text)
        files = tuple(_file(**each) for each in content["files"])
        reasons, changes = tuple(content["reasons"]), tuple(content.get("schema_changes", ()))
        ranges = tuple(OffsetRange(**each) for each in content.get("ranges", ()))
        return Manifest(content["batch"], content["kind"], files, reasons, changes, ranges)


def _file(fields: Sequence[str] | None, columns: Columns | None = None, **known: Any) -> LandedFile:
    """Return a file of a manifest; what thousands of files have in common is held once."""
    names = None if fields is None else _same(tuple(fields))
    return LandedFile(fields=names, columns=_columns(tuple((columns or {}).items())), **known)


@cache
def _same(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


@cache
def _columns(items: tuple[tuple[str, str], ...]) -> Columns:
    return dict(items)


class Landing:
    """The manifests of one stream, and the files that are in none of them yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifests = [_manifest(path, path.stat().st_ctime_ns) for path in sorted(folder.glob("*.json"))]
        self.files = {file.path: file for manifest in self.manifests for file in manifest.files}

    @property
    def last_batch(self) -> int:
        """The highest batch number handed out, 0 for none."""
        return self.manifests[-1].batch if self.manifests else 0

    def new_files(self, source: Source) -> list[tuple[str, os.stat_result]]:
        """Return complete files matching the source that no manifest holds, by path."""
        newest = time.time_ns() - source.settle * 1000
        return [
            (path, stat)
            for path, stat in matching(source)
            if path not in self.files and stat.st_mtime_ns <= newest
        ]

    def changed_files(self, source: Source) -> list[str]:
        """Return files that are not the size they were when their batch was fixed: their new content is not read."""
        return [p for p, stat in matching(source) if p in self.files and self.files[p].size != stat.st_size]

    def add_files(self, source: Source) -> int:
        """Write manifests for all new files, cut at the source's batch limits; return how many files."""
        found = self.new_files(source)
        for group in _groups(found, source):
            landed = tuple(_landed(path, stat, source) for path, stat in group)
            self._add(Manifest(self.last_batch + 1, "files", landed, (), self._changes(landed)))
        return len(found)

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
        while self.last_batch > batch:
            (self.folder / f"{self.last_batch:08d}.json").unlink()
            self.manifests.pop()
        del self.manifests[batch - 1 :]
        self._add(Manifest(batch, "lost", ranges=ranges))

    def _changes(self, landed: tuple[LandedFile, ...]) -> tuple[str, ...]:
        """What columns the files gained, lost or retyped, each against the file before it."""
        told: list[str] = []
        earlier = [file.columns for file in self.files.values() if file.columns]
        seen = set[str]().union(*earlier)
        before = earlier[-1] if earlier else {}
        for file in landed:
            if file.columns:
                if seen:
                    told += schema_changes(os.path.basename(file.path), before, file.columns, seen)
                seen |= set(file.columns)
                before = file.columns
        return tuple(told)

    def _add(self, manifest: Manifest) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self.folder / f"{manifest.batch:08d}.json"
        scratch = self.folder / f".{target.name}.tmp"
        with scratch.open("w", encoding="utf-8") as file:
            file.write(manifest.to_json())
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(target)
        self.manifests.append(manifest)
        self.files |= {file.path: file for file in manifest.files}
        crash_point("ingest.manifest-written")


@cache
def _manifest(path: Path, changed_ns: int) -> Manifest:
    """Return a manifest, read once a process: what stands under a name changes only when messages are given up."""
    return Manifest.from_json(path.read_text("utf-8"))


def matching(source: Source) -> Iterator[tuple[str, os.stat_result]]:
    """Return the files that a source names, by path, without those whose names say that they are unfinished."""
    for path in sorted(glob.glob(source.path, recursive=True)):
        name = os.path.basename(path)
        if name.startswith(HIDDEN) or name.endswith(UNFINISHED) or not os.path.isfile(path):
            continue
        yield os.path.abspath(path), os.stat(path)


def _groups(
    found: list[tuple[str, os.stat_result]], source: Source
) -> Iterator[list[tuple[str, os.stat_result]]]:
    group: list[tuple[str, os.stat_result]] = []
    size = 0
    for path, stat in found:
        if group and (size + stat.st_size > source.batch_bytes or len(group) >= source.batch_files):
            yield group
            group, size = [], 0
        group.append((path, stat))
        size += stat.st_size
    if group:
        yield group


def _landed(path: str, stat: os.stat_result, source: Source) -> LandedFile:
    fields, unreadable = None, None
    columns: Columns = {}
    try:
        fields, columns = _fields(path, source)
    except (OSError, EOFError, ValueError, pa.ArrowException) as error:
        unreadable = f"{type(error).__name__}: {error}"
    return LandedFile(path, stat.st_size, stat.st_mtime_ns, fields, unreadable, columns)


def _fields(path: str, source: Source) -> tuple[tuple[str, ...] | None, Columns]:
    if source.format == "ndjson":
        return None, json_columns(_payloads(path) if source.kind == "mqtt" else _sample(path))
    if source.format == "parquet":
        schema = pyarrow.parquet.read_schema(path)
        return tuple(schema.names), {column.name: str(column.type) for column in schema}
    if source.format == "zeek":
        return _zeek_fields(path)
    if source.format == "pcap":
        # What compiles loads slowly: only those who have captures wait for it.
        from lakehouse.spark.sources.packets import packet_fields

        return packet_fields(path), {}
    line = next(_head(path), "")
    fields = next(csv.reader([line], delimiter=source.separator, quotechar=source.quote), [])
    if source.format == "nfdump":
        names = field_names(fields)
        return names, dict.fromkeys(names, "text")
    if source.header == "names":
        names = tuple(name.strip() for name in fields)
        return names, dict.fromkeys(names, "text")
    places = tuple(str(position) for position in range(len(fields)))
    return places, {f"field {place}": "text" for place in places}


def _zeek_fields(path: str) -> tuple[tuple[str, ...] | None, Columns]:
    fields: tuple[str, ...] | None = None
    for line in _head(path):
        if line.startswith("{"):
            return None, json_columns(_sample(path))
        if not line.startswith("#"):
            break
        _require_usual(line)
        if line.startswith("#fields"):
            fields = tuple(line.split("\t")[1:])
        if line.startswith("#types") and fields:
            return fields, dict(zip(fields, line.split("\t")[1:], strict=False))
    return fields, dict.fromkeys(fields or (), "text")


def _require_usual(line: str) -> None:
    """Refuse a Zeek log written with marks that would be read as something else."""
    for directive, usual in _ZEEK_MARKS.items():
        if line.startswith(directive) and line.removeprefix(directive).strip() != usual:
            raise ValueError(
                f"expected {directive} {usual}, as Zeek writes unless told otherwise; found {line!r}"
            )


def _payloads(path: str) -> Iterator[str]:
    """The payloads of the first messages: a stream's columns are inside them."""
    for line in _sample(path):
        with suppress(ValueError):
            yield Message.from_line(line).payload.decode("utf-8", "replace")


def _sample(path: str) -> Iterator[str]:
    """The first lines; where the file breaks off, what could be read."""
    with suppress(OSError, EOFError):
        yield from islice(_head(path), _SAMPLE_LINES)


def _head(path: str) -> Iterator[str]:
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        for number, line in enumerate(file):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            yield text.removeprefix("\ufeff") if number == 0 else text
