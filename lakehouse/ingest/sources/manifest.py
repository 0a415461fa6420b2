"""Manifests: what an ingest batch reads, written down for good before it is read.

They note how the columns of files change: a source may gain, lose or retype a column at any time. The stream goes on: a
column that is not declared is not read, a value that no longer fits is rejected row by row. The ledger row of the batch
names what changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

Partition = tuple[str, int]
# The names of a file's columns, None where its lines name their own.
Layout = tuple[str, ...] | None
# Kinds of batches that read nothing: the first was cut into batches behind it.
SPLIT, SET_ASIDE = "split", "set_aside"
# A batch makes one of these each; of other kinds are few, and they are never folded.
KINDS = ("files", "kafka")
Columns = dict[str, str]
NULL = "null"
# The type of a field of text; whatever its header has that is not plain to see comes behind it.
TEXT = "text"
# A record may have any number of columns.
_TOLD = 50
_KINDS = {bool: "boolean", int: "number", float: "number", str: "string", list: "list", type(None): NULL}


class Seen(NamedTuple):
    """Properties of a landed file before it is read: its bytes, and the time when it was written.

    ``digest`` is that of its content, empty where none is known. ``version`` is another one whenever anything of the
    file was changed; empty where it does not matter.
    """

    size: int
    mtime_ns: int
    digest: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class LandedFile:
    """One file of a batch; ``fields`` are the names or the count of its columns, None where lines have none.

    ``path`` is its name below the landing folder. ``columns`` are the columns it was seen to have, each with its type
    where the file tells: a sample, to see changes. ``digest`` and ``version``: as ``Seen``.
    ``known_lines``: so many of its first lines were read before; their rows are duplicates, unless it is read behind
    them only, as a file that grew is, from the byte ``begin`` on. ``constants``: what its head says of every record.
    """

    path: str
    size: int
    mtime_ns: int
    fields: tuple[str, ...] | None = None
    unreadable: str | None = None
    columns: Columns = field(default_factory=dict)
    digest: str = ""
    known_lines: int = 0
    version: str = ""
    begin: int = 0
    constants: Columns = field(default_factory=dict)

    @property
    def seen(self) -> Seen:
        """State of the file when its batch was fixed."""
        return Seen(self.size, self.mtime_ns, self.digest, self.version)


@dataclass(frozen=True)
class Repeat:
    """A file whose content was read under another name; both are names below the landing folder.

    Where rows have an identity it ``is_read``: its rows are duplicates. So it is if it has ``more`` bytes behind that
    content, as a log that was rotated after it had grown: rows of its first lines are duplicates then.
    """

    file: LandedFile
    read_as: str
    batch: int
    is_read: bool
    more: int = 0

    def __str__(self) -> str:
        if self.more:
            content = f"begins with the content of {self.read_as} read in batch {self.batch}"
            return f"{self.file.path} {content}; of it the {self.more:,} bytes behind that are taken in"
        does = "its rows are compared by identity" if self.is_read else "not read again"
        return f"{self.file.path} has the content of {self.read_as} read in batch {self.batch}; {does}"


@dataclass(frozen=True)
class OffsetRange:
    """Messages of one partition: offsets from ``start`` up to ``end``, which is not one of them.

    ``topic_id`` is the broker's own name of the topic: one made anew under the same name has another.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str

    @property
    def place(self) -> Partition:
        """Partition that it is of."""
        return self.topic, self.partition

    @property
    def count(self) -> int:
        """Number of offsets that it holds; there may be fewer messages: markers of transactions take offsets too."""
        return self.end - self.start

    def __str__(self) -> str:
        messages = "1 message" if self.count == 1 else f"{self.count:,} messages"
        return f"{self.topic}/{self.partition} offsets {self.start} to {self.end - 1} ({messages})"


@dataclass(frozen=True)
class Manifest:
    """Manifest of one ingest batch: new files, messages of topics, or records taken back out of quarantine.

    Of kind ``lost``, ``split`` and ``set_aside`` it reads nothing. The ranges of the first are messages that are gone,
    or its reasons those of rejected records that are given up; a split one is in two batches behind it; files and
    ranges that are set aside failed with an ``error``. What ``is_part`` of a split batch, or was set aside once, has
    one attempt.
    """

    batch: int
    kind: str
    files: tuple[LandedFile, ...] = ()
    reasons: tuple[str, ...] = field(default=())
    schema_changes: tuple[str, ...] = field(default=())
    ranges: tuple[OffsetRange, ...] = field(default=())
    error: str = ""
    is_part: bool = False
    repeats: tuple[Repeat, ...] = ()
    # When its files were listed, or its offsets fixed: by this machine's clock.
    listed_us: int = field(default_factory=lambda: time.time_ns() // 1000, compare=False)

    @property
    def closes_records(self) -> bool:
        """True if it closes rejected records: of its reasons, or for a requeue without any, of all."""
        return self.kind == "requeue" or (self.kind == "lost" and bool(self.reasons))

    def closes(self, reason: str) -> bool:
        """True if it closes records that were rejected for a reason."""
        return self.closes_records and (not self.reasons or reason in self.reasons)

    @staticmethod
    def from_fields(content: Mapping[str, Any]) -> Manifest:
        """Return a manifest of its fields as JSON has them."""
        files = tuple(_file(**each) for each in content["files"])
        reasons, changes = tuple(content["reasons"]), tuple(content["schema_changes"])
        ranges = tuple(OffsetRange(**each) for each in content["ranges"])
        repeats = tuple(Repeat(**each | {"file": _file(**each["file"])}) for each in content["repeats"])
        last = content["error"], content["is_part"], repeats, content["listed_us"]
        return Manifest(content["batch"], content["kind"], files, reasons, changes, ranges, *last)


def layouts_of(files: Iterable[LandedFile]) -> tuple[Layout, ...]:
    """Return the distinct headers of readable files, in the order met."""
    return tuple(dict.fromkeys(file.fields for file in files if file.unreadable is None))


def constants_of(files: Iterable[LandedFile]) -> Mapping[str, Columns]:
    """Return what heads say of every record of their files, of those that do."""
    return {file.path: file.constants for file in files if file.constants}


def halves(manifest: Manifest) -> tuple[Manifest, ...]:
    """Return the two halves of a manifest's files or messages, numbered when they are added; none of a single one."""
    part = replace(manifest, schema_changes=(), is_part=True, repeats=())
    files, ranges = manifest.files, [each for each in manifest.ranges if each.count]
    if len(files) > 1:
        middle = len(files) // 2
        return replace(part, files=files[:middle]), replace(part, files=files[middle:])
    if len(ranges) == 1 and ranges[0].count > 1:
        cut = ranges[0].start + ranges[0].count // 2
        low, high = [replace(ranges[0], end=cut)], [replace(ranges[0], start=cut)]
    else:
        low, high = ranges[: len(ranges) // 2], ranges[len(ranges) // 2 :]
    return (replace(part, ranges=tuple(low)), replace(part, ranges=tuple(high))) if low else ()


def ranges_of(manifests: Iterable[Manifest]) -> Iterator[OffsetRange]:
    """Yield the ranges of manifests, lost ones among them."""
    return (each for manifest in manifests for each in manifest.ranges)


def furthest(ranges: Iterable[OffsetRange]) -> dict[Partition, OffsetRange]:
    """Return of each partition the range that goes furthest: what was set aside may be read after later messages."""
    found: dict[Partition, OffsetRange] = {}
    for each in ranges:
        if each.place not in found or each.end >= found[each.place].end:
            found[each.place] = each
    return found


def known_files(manifest: Manifest) -> Iterator[LandedFile]:
    """Yield the files that are not new: those of a manifest, and those that repeat one that was read."""
    yield from manifest.files
    yield from (each.file for each in manifest.repeats)


def read_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the digest and name of each file that a batch reads."""
    if manifest.kind in KINDS:
        yield from ((f.digest, f.path) for f in manifest.files if f.digest and f.unreadable is None)


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


def json_columns(lines: Iterable[str]) -> Columns:
    """Return the columns of JSON records: name, dotted where nested -> boolean, number, string, list or null.

    Lines that hold no object, or one too deep, are passed over; null gives way to any other. For the first lines of a
    file: it parses each of them.
    """
    found: Columns = {}
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            _collect(record, "", found)
    return found


def schema_changes(
    name: str, before: Mapping[str, str], now: Mapping[str, str], seen: Iterable[str]
) -> list[str]:
    """Return what changed from the file before to this one, named ``name``, one text a column; of many the first.

    ``seen`` are the columns of all earlier files: one that comes back is no gain, and those of the first file are none.
    A name that the header does not have, or not so, is told when it is first met.
    """
    known = set(seen)
    new = [column for column in now if column not in known]
    changes = [f"{name}: {column} is {now[column]}" for column in new if now[column].startswith(f"{TEXT}, ")]
    if not known:
        return _few(name, changes)
    changes += [f"{name}: gained {column}" for column in new]
    changes += [f"{name}: lost {column}" for column in before if column not in now]
    changes += [
        f"{name}: {column} was {before[column]}, is {kind}"
        for column, kind in now.items()
        if before.get(column, kind) != kind and NULL not in (before[column], kind)
    ]
    return _few(name, changes)


def _few(name: str, changes: list[str]) -> list[str]:
    more = len(changes) - _TOLD
    return changes if more <= 0 else [*changes[:_TOLD], f"{name}: {more} more columns changed"]


def _collect(record: dict[str, object], prefix: str, found: Columns) -> None:
    for key, value in record.items():
        if isinstance(value, dict):
            _collect(value, f"{prefix}{key}.", found)
        elif found.get(f"{prefix}{key}", NULL) == NULL:
            found[f"{prefix}{key}"] = _KINDS[type(value)]
