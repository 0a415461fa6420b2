"""Which files a source names, how they are cut into batches, and what the first lines of each say of its columns."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from stat import S_ISREG

import pyarrow.parquet

from lakehouse.declare.stream import Source
from lakehouse.home.envelope import Message
from lakehouse.streams.sources.drift import Columns, json_columns
from lakehouse.streams.sources.file_names import on_disk, told
from lakehouse.streams.sources.manifest import LandedFile
from lakehouse.streams.sources.nfdump import field_names

_SAMPLE_LINES = 100
# A longer line is looked at in pieces, so that no line fills the memory.
_SAMPLE_BYTES = 1024 * 1024
# Spark prepares for each of them.
_MOST_FIELDS = 5_000
_ZEEK_MARKS = {"#separator": "\\x09", "#unset_field": "-", "#empty_field": "(empty)"}
HIDDEN = (".", "_")
UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", ".crdownload")

Found = tuple[str, os.stat_result]


def matching(source: Source) -> Iterator[Found]:
    """Return the files that a source names, by path, without those whose names say that they are unfinished.

    A name that is not UTF-8 is escaped, so that tables can hold it.
    """
    for path in sorted(glob.glob(source.path, recursive=True)):
        name = os.path.basename(path)
        if name.startswith(HIDDEN) or name.endswith(UNFINISHED):
            continue
        if (found := _regular(path)) is not None:
            yield told(os.path.abspath(path)), found


def _regular(path: str) -> os.stat_result | None:
    """Return what is known of a file; None of what is none, or has gone since it was listed."""
    with suppress(OSError):
        found = os.stat(path)
        return found if S_ISREG(found.st_mode) else None
    return None


def groups(found: Iterable[Found], source: Source) -> Iterator[list[Found]]:
    """Cut files, in the order given, into groups within the source's batch limits."""
    group: list[Found] = []
    size = 0
    for path, stat in found:
        if group and (size + stat.st_size > source.batch_bytes or len(group) >= source.batch_files):
            yield group
            group, size = [], 0
        group.append((path, stat))
        size += stat.st_size
    if group:
        yield group


def landed(path: str, stat: os.stat_result, source: Source) -> LandedFile:
    """Return a file as a manifest holds it; one that cannot be read is marked so instead of raising."""
    fields, unreadable = None, None
    columns: Columns = {}
    try:
        if not source.follow_links:
            _require_inside(path, source)
        fields, columns = _fields(path, source)
    except Exception as error:
        # Whatever a look at its beginning meets, a file stops no stream.
        unreadable = f"{type(error).__name__}: {error}"
    return LandedFile(path, stat.st_size, stat.st_mtime_ns, fields, unreadable, columns)


def _require_inside(path: str, source: Source) -> None:
    """Refuse a link to elsewhere: whoever may land files could have any file of this machine read."""
    before_pattern = re.split(r"[*?\[]", source.path)[0]
    folder = os.path.realpath(os.path.dirname(before_pattern))
    real = os.path.realpath(on_disk(path))
    if os.path.commonpath((folder, real)) != folder:
        raise ValueError(
            f"it is a link to {real}, which is not below {folder}; follow_links = true allows that"
        )


def _fields(path: str, source: Source) -> tuple[tuple[str, ...] | None, Columns]:
    if source.format == "ndjson":
        return None, json_columns(_payloads(path) if source.kind == "mqtt" else _sample(path))
    if source.format == "parquet":
        if on_disk(path) != path:
            raise ValueError("Spark reads no Parquet file whose name is not UTF-8; rename it")
        schema = pyarrow.parquet.read_schema(path)
        return tuple(schema.names), {column.name: str(column.type) for column in schema}
    if source.format == "zeek":
        return _zeek_fields(path)
    if source.format == "pcap":
        # What compiles loads slowly: only those who have captures wait for it.
        from lakehouse.streams.sources.packets import packet_fields

        return packet_fields(path), {}
    line = next(_head(path), "")
    fields = next(csv.reader([line], delimiter=source.separator, quotechar=source.quote), [])
    _require_few(fields)
    if source.format == "nfdump":
        names = field_names(fields)
        return names, dict.fromkeys(names, "text")
    if source.header == "names":
        names = tuple(name.strip() for name in fields)
        return names, dict.fromkeys(names, "text")
    places = tuple(str(position) for position in range(len(fields)))
    return places, {f"field {place}": "text" for place in places}


def _require_few(fields: Sequence[str]) -> None:
    """Refuse a header of more fields than a table should have."""
    if len(fields) > _MOST_FIELDS:
        raise ValueError(f"its header has {len(fields)} fields; expected at most {_MOST_FIELDS}")


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
            _require_few(fields)
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
    name = on_disk(path)
    with gzip.open(name, "rb") if path.endswith(".gz") else open(name, "rb") as file:
        lines = iter(partial(file.readline, _SAMPLE_BYTES), b"")
        for number, line in enumerate(lines):
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            yield text.removeprefix("\ufeff") if number == 0 else text
