"""Files of a source, their division into batches, and the columns by the first lines of each."""

import csv
import glob
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from stat import S_ISREG
from typing import IO, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from lakehouse.config.formats import SPELT, WHOLE
from lakehouse.config.landing import landing_folder, located
from lakehouse.config.store_address import is_remote
from lakehouse.config.stream import Source
from lakehouse.ingest.forms.line_objects import objects_of
from lakehouse.ingest.parser.record_texts import cut_plainly
from lakehouse.ingest.sources import landed_content, object_store
from lakehouse.ingest.sources.compressed import inflated, is_compressed
from lakehouse.ingest.sources.heads import as_lines, as_utf8, head_of, whole
from lakehouse.ingest.sources.manifest import TEXT, Columns, LandedFile, Seen, json_columns
from lakehouse.ingest.sources.nfdump import field_names
from lakehouse.storage.envelope import Message
from lakehouse.storage.stores.store_access import ObjectUnread, StoreUnavailable

log = logging.getLogger(__name__)

_SAMPLE_LINES = 100
# A longer line is looked at in pieces, so that no line fills the memory.
_SAMPLE_BYTES = 1024 * 1024
# Spark prepares for each of them.
_MOST_FIELDS = 5_000
# Lines among which the one that names the fields is looked for.
_MOST_HEAD_LINES = 20_000
_ZEEK_MARKS = {"#separator": "\\x09", "#unset_field": "-", "#empty_field": "(empty)"}
# How bytes of a header that are not UTF-8 are written.
_ESCAPED = re.compile(r"\\x[0-9a-f]{2}")
_HIDDEN = (".", "_")
_UNFINISHED = (".tmp", ".part", ".partial", ".inprogress", ".crdownload")

# How many objects of a store are looked at together.
_LOOKS = 16

Found = tuple[str, Seen]


class Look(NamedTuple):
    """Findings at the beginning of a file: fields, None where lines name their own, columns and constants."""

    fields: tuple[str, ...] | None = None
    columns: Columns = {}  # noqa: RUF012
    constants: Columns = {}  # noqa: RUF012


def matching(source: Source, after: str = "") -> Iterator[Found]:
    """Return the files that a source names, by path, without those whose names say that they are unfinished.

    Files are named as below the landing folder; a name that is not UTF-8 is escaped, so that tables can hold it.
    ``after``: of a store, only keys behind this one. Raises StoreUnavailable when files are on a store that does not
    answer, or refuses.
    """
    if is_remote(source.path):
        objects = object_store.listed(source.path, source.endpoint, after)
        size = len(landing_folder(source.path))
        yield from ((url[size:], known) for url, known in objects if _is_finished(url))
        return
    # Files may stay where they landed, so that each look meets them all: what is the same for a folder is done once.
    folders, landing_in = dict[str, str](), landing_folder(source.path)
    for path in sorted(glob.glob(source.path, recursive=True)):
        folder, _, name = path.rpartition("/")
        if _is_finished(path) and (found := _regular(path)) is not None:
            if folder not in folders:
                folders[folder] = os.path.join(os.path.abspath(path[: len(path) - len(name)]), "")
            yield landed_content.told(folders[folder] + name).removeprefix(landing_in), found


def _is_finished(path: str) -> bool:
    name = path.rpartition("/")[2]
    return bool(name) and not name.startswith(_HIDDEN) and not name.endswith(_UNFINISHED)


def _regular(path: str) -> Seen | None:
    """Return what is known of a file; None of what is none, or has gone since it was listed."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return landed_content.seen_of(found) if S_ISREG(found.st_mode) else None


def groups(found: Iterable[Found], source: Source) -> Iterator[list[Found]]:
    """Cut files, in the order given, into groups within the source's batch limits."""
    group: list[Found] = []
    size = 0
    for path, known in found:
        if group and (size + known.size > source.batch_bytes or len(group) >= source.batch_files):
            yield group
            group, size = [], 0
        group.append((path, known))
        size += known.size
    if group:
        yield group


def landed(name: str, known: Seen, source: Source, begin: int = 0, known_lines: int = 0) -> LandedFile:
    """Return a file as a manifest holds it; one that cannot be read is marked so instead of raising.

    A file of this machine is read once for its digest where it is not known; stores tell theirs. Raises Changed when
    it is another one already: whoever writes it is not done; StoreUnavailable or ObjectUnread when a store does not
    answer, or does not give it now: that says nothing of it.
    """
    found, unreadable = Look(), None
    path, content = located(source.path, name), known.digest
    try:
        found = _look(path, source)
        content = content or landed_content.digest(path, landed_content.landing_of(source, known))
    except (StoreUnavailable, ObjectUnread, landed_content.Changed, landed_content.SourceChanged):
        raise
    except Exception as error:
        # Whatever a look at its beginning meets, a file stops no stream.
        unreadable = f"{type(error).__name__}: {error}"
    own = (known.size, known.mtime_ns, found.fields, unreadable, found.columns, content)
    return LandedFile(name, *own, known_lines, known.version, begin, found.constants)


def headed_now(file: LandedFile, source: Source) -> LandedFile:
    """Return a file that was read, with its header as the declaration cuts it now; as it was where it is no more so."""
    if source.format != "csv" or file.unreadable is not None:
        return file
    path, landing = located(source.path, file.path), landed_content.landing_of(source)
    try:
        now = landed_content.seen(path, landing)
        is_same = now.size == file.size and (
            now.mtime_ns == file.mtime_ns
            or (now.digest or landed_content.digest(path, landing)) == file.digest
        )
        found = _look(path, source) if is_same else None
        return replace(file, fields=found.fields, constants=found.constants) if found else file
    except (OSError, ValueError, StoreUnavailable, ObjectUnread):
        return file


def all_landed(
    group: Sequence[Found],
    source: Source,
    look: Callable[[str, Seen, Source], LandedFile | None] = landed,
) -> tuple[LandedFile, ...]:
    """Return files as a manifest holds them, without those that wait: their store does not give them, or they change.

    ``look``: the look at one file, None where nothing of it is to be read. Raises StoreUnavailable when the store
    does not answer, or gives none of them.
    """

    def looked(each: Found) -> LandedFile | Exception | None:
        try:
            return look(*each, source)
        except (ObjectUnread, landed_content.Changed, landed_content.SourceChanged) as error:
            return error

    with ThreadPoolExecutor(_LOOKS if is_remote(source.path) else 1) as pool:
        found = list(pool.map(looked, group))
    unread = [each for each in found if isinstance(each, ObjectUnread)]
    if unread and len(unread) == len(found):
        raise StoreUnavailable(f"none of {len(found)} new objects can be read: {unread[0]}")
    for (name, _), one in zip(group, found, strict=True):
        if isinstance(one, Exception):
            log.warning("%s: %s; it is looked at again the next time", name, one)
    return tuple(each for each in found if isinstance(each, LandedFile))


def _look(path: str, source: Source) -> Look:
    if source.is_json:
        lines = _payloads(path, source) if source.kind == "mqtt" else _sample(path, source)
        return Look(None, json_columns(lines))
    if source.format == "parquet":
        with landed_content.opened(
            path, landed_content.landing_of(source), object_store.HEAD_BYTES
        ) as content:
            schema = pyarrow.parquet.read_schema(content)
        return Look(tuple(schema.names), {column.name: str(column.type) for column in schema})
    if source.format == "zeek":
        return _zeek_look(path, source)
    if source.format == "pcap":
        # What compiles loads slowly: only those who have captures wait for it.
        from lakehouse.ingest.sources.packets import packet_fields

        return Look(packet_fields(path, landed_content.landing_of(source)))
    head = head_of(islice(_head(path, source), _MOST_HEAD_LINES), source)
    fields = _cut(head.names, source)
    _require_few(fields)
    if source.format == "nfdump":
        return Look(*_named(field_names(fields)))
    if source.has_names:
        names = [name.strip() for name in fields]
        return Look(*_named(names, _cut(head.units, source)), head.constants)
    places = tuple(str(position) for position in range(len(fields)))
    return Look(places, {f"field {place}": "text" for place in places}, head.constants)


def _cut(line: str, source: Source) -> list[str]:
    if not line:
        return []
    fields = cut_plainly(line, source) or next(
        csv.reader([line], delimiter=source.separator, quotechar=source.quote), []
    )
    # Where widths say how many fields there are, no line does.
    return fields[: len(source.widths)] if source.widths else fields


def _named(given: Sequence[str], units: Sequence[str] = ()) -> tuple[tuple[str, ...], Columns]:
    """Return the fields of a header, and its columns: their units, and of a name what is not plain to see."""
    names = distinct_names(given)
    columns = dict.fromkeys(names, TEXT)
    columns |= {
        name: f"{TEXT} in {unit.strip()}" for name, unit in zip(names, units, strict=False) if unit.strip()
    }
    for name, own in zip(names, given, strict=True):
        if name != own:
            columns[name] += f", another field named {own!r}"
        elif _ESCAPED.search(name):
            columns[name] += ", a name with bytes that are not UTF-8"
    return names, columns


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Number the repeats of names, as other readers do; no number makes a name that the header has already.

    >>> distinct_names(["at", "Temp", "Temp", "Temp_1", "Temp"])
    ('at', 'Temp', 'Temp_2', 'Temp_1', 'Temp_3')
    """
    given = list(names)
    own, used, repeats = set(given), set[str](), Counter[str]()
    distinct = list[str]()
    for name in given:
        chosen = name
        while chosen in used or (chosen != name and chosen in own):
            repeats[name] += 1
            chosen = f"{name}_{repeats[name]}"
        used.add(chosen)
        distinct.append(chosen)
    return tuple(distinct)


def _require_few(fields: Sequence[str]) -> None:
    """Refuse a header of more fields than a table should have."""
    if len(fields) > _MOST_FIELDS:
        raise ValueError(f"its header has {len(fields)} fields; expected at most {_MOST_FIELDS}")


def _zeek_look(path: str, source: Source) -> Look:
    fields: tuple[str, ...] | None = None
    for line in _head(path, source):
        if line.startswith("{"):
            return Look(None, json_columns(_sample(path, source)))
        if not line.startswith("#"):
            break
        _require_usual(line)
        if line.startswith("#fields"):
            fields = distinct_names(line.split("\t")[1:])
            _require_few(fields)
        if line.startswith("#types") and fields:
            return Look(fields, dict(zip(fields, line.split("\t")[1:], strict=False)))
    return Look(fields, dict.fromkeys(fields or (), "text"))


def _require_usual(line: str) -> None:
    """Refuse a Zeek log written with marks that would be read as something else."""
    for directive, usual in _ZEEK_MARKS.items():
        if line.startswith(directive) and line.removeprefix(directive).strip() != usual:
            raise ValueError(
                f"expected {directive} {usual}, as Zeek writes unless told otherwise; found {line!r}"
            )


def _payloads(path: str, source: Source) -> Iterator[str]:
    """The payloads of the first messages: a stream's columns are inside them."""
    for line in _sample(path, source):
        with suppress(ValueError):
            yield Message.from_line(line).payload.decode("utf-8", "replace")


def _sample(path: str, source: Source) -> list[str]:
    """The first lines, or the objects that they are read as; where the file breaks off, what could be read."""
    if source.format in WHOLE:
        record, _ = whole(
            landed_content.blocks(path, landed_content.landing_of(source)), source.max_record_bytes
        )
        found = objects_of(pa.array([record], pa.binary()), source.format)
        return [each.decode() for each in found.drop_null().to_pylist()]
    lines = list[str]()
    with suppress(OSError, EOFError):
        lines.extend(islice(_head(path, source), _SAMPLE_LINES))
    if source.format not in SPELT:
        return lines
    found = objects_of(pa.array([line.encode() for line in lines], pa.binary()), source.format)
    return [line.decode() for line in found.drop_null().to_pylist()]


def _head(path: str, source: Source) -> Iterator[str]:
    """Yield the lines of a file, each up to some length. Raises EOFError where the file is damaged."""
    rest, mark = b"", "\ufeff"
    landing = landed_content.landing_of(source)
    with landed_content.opened(path, landing, object_store.HEAD_BYTES) as content:
        pieces = inflated(content, path, 1, landing.members) if is_compressed(path) else _pieces(content)
        for block, fault in as_lines(as_utf8(pieces, source.encoding), source):
            *lines, rest = (rest + block).split(b"\n")
            for line in [*lines, rest] if fault else lines:
                # What is no UTF-8 is escaped, so that two names that differ stay two.
                text = line[:_SAMPLE_BYTES].decode("utf-8", "backslashreplace")
                yield text.rstrip("\r").removeprefix(mark)
                mark = ""
            if fault:
                raise EOFError(fault.removeprefix("truncated_file: "))
            rest = rest[:_SAMPLE_BYTES]
    if rest:
        yield rest.decode("utf-8", "backslashreplace").rstrip("\r").removeprefix(mark)


def _pieces(content: IO[bytes]) -> Iterator[tuple[bytes, str | None]]:
    while piece := content.read(object_store.HEAD_BYTES):
        yield piece, None
