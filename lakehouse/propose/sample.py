"""Some lines of a delimited file or of JSON, and how they are cut: from its beginning, its middle and its end."""

import csv
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_high
from typing import IO, Any

from lakehouse.config.lines import WHITESPACE
from lakehouse.ingest.forms.remote_write import samples_of
from lakehouse.ingest.sources.compressed import Members, inflated, is_compressed
from lakehouse.ingest.sources.files import distinct_names
from lakehouse.propose.forms import document_of_xml, is_timed, lines_of_form

_PIECE_BYTES, _MOST_BYTES = 64 * 1024, 16 * 1024 * 1024
_MOST_HEAD_LINES = 50
# Where several cut lines alike, commas are decimal marks.
_SEPARATORS = (";", "\t", "|", ",")
_COMMENTS = ("#", "%", "//")
_NUMBER = re.compile(r"[+-]?(?:\d[\d.,' ]*)?\d(?:[eE][+-]?\d+)?%?")
# Of JSON: keys, other texts, and what opens and closes objects and lists; a list of objects opens both.
_TEXT = r'"(?:[^"\\]|\\.)*"'
_TOKENS = re.compile(rf"(?P<key>{_TEXT})(?=\s*:)|{_TEXT}|(?P<open>\[\s*\{{|[{{\[])|(?P<close>[}}\]])")
_FEW_ROWS, _OF_BLANKS, _NEXT = 2, 0.4, 5


class NothingToRead(ValueError):
    """A file holds no records that a declaration could be made of."""


@dataclass
class Sample:
    """Rows of a file by name; ``source``: keys of ``source`` that cut it so, ``doubts``: what is not sure."""

    path: Path
    format: str
    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    source: dict[str, Any] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)

    def column(self, name: str) -> list[str]:
        """Return the texts of a column that are there."""
        at = self.names.index(name)
        return [text for row in self.rows if (text := row[at].strip())]


def sample_of(path: Path) -> Sample:
    """Return a sample of a file.

    Raises NothingToRead when it is empty, or of a kind that has presets or types of its own; OSError when it cannot
    be read.
    """
    members = _members(path) if path.suffix == ".zip" else ""
    content = b"".join(_pieces(path, members))
    if content[:4] == b"PAR1":
        return _parquet(path)
    if content[257:262] == b"ustar":
        raise NothingToRead(f"{path}: an archive of files (tar); unpack it, and give the folder")
    if content[:4] in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x0a\x0d\x0d\x0a"):
        raise NothingToRead(f'{path}: a capture; declare it by preset = "pcap"')
    if _is_remote_write(path, content):
        raise NothingToRead(
            f'{path}: a body of Prometheus\' remote write; declare it by preset = "prometheus-remote-write"'
        )
    encoding, text = _decoded(content)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise NothingToRead(f"{path}: the file is empty")
    if filled[0].startswith("ts,te,td,sa,da,"):
        raise NothingToRead(f'{path}: an export of nfdump; declare it by preset = "nfdump"')
    if filled[0].startswith("#separator"):
        raise NothingToRead(
            f'{path}: a log of Zeek; declare it by preset = "zeek-conn", or with format = "zeek"'
        )
    form = document_of_xml(content) if filled[0].lstrip().startswith("<") else lines_of_form(filled)
    if form is not None:
        name, records, source, doubts = form
        found = _of_records(path, records)
        found = replace(found, format=name, source=source, doubts=[*doubts, *found.doubts])
    elif filled[0].lstrip()[0] in "{[":
        found = _json(path, filled) if _is_object(filled[0]) and len(filled) > 1 else _document(path, text)
    else:
        found = _delimited(path, filled)
    if members:
        found.source["members"] = members
        found.doubts.append("of the archive, the largest file and those of like names are read, as one file")
    if encoding != "utf-8":
        found.source["encoding"] = encoding
        found.doubts.append(f"bytes that are not UTF-8 are read as {encoding}")
    return found


def _is_remote_write(path: Path, content: bytes) -> bool:
    with suppress(ValueError, OSError):
        is_whole = len(content) < _PIECE_BYTES or path.stat().st_size > _MOST_BYTES
        return bool(samples_of(content if is_whole else path.read_bytes()))
    return False


def _members(path: Path) -> str:
    """Return an expression for names like that of an archive's largest file, empty where there is one file."""
    try:
        with zipfile.ZipFile(path) as archive:
            files = {each.filename: each.file_size for each in archive.infolist() if not each.is_dir()}
    except (OSError, zipfile.BadZipFile, ValueError):
        return ""
    largest = max(files, key=files.__getitem__, default="").rpartition("/")[2]
    return f"(^|/){re.escape(re.split(r'[0-9.]', largest)[0] or largest)}" if len(files) > 1 else ""


def _pieces(path: Path, members: str) -> Iterator[bytes]:
    """Yield whole lines from the beginning, the middle and the end of a file; of a compressed one its beginning."""
    with path.open("rb") as file:
        first = _first_bytes(file, path.name, members)
        yield first if len(first) < _PIECE_BYTES else first[: first.rfind(b"\n") + 1] or first
        size = 0 if is_compressed(path.name) else path.stat().st_size
        for start in (size // 2, size - _PIECE_BYTES // 4) if size > 4 * _PIECE_BYTES else ():
            file.seek(start)
            piece = file.read(_PIECE_BYTES // 4)
            begin, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
            yield piece[begin:end]


def _first_bytes(file: IO[bytes], name: str, members: str) -> bytes:
    if not is_compressed(name):
        return file.read(_PIECE_BYTES)
    block, fault = next(inflated(file, name, None, Members(members, 1)), (b"", None))
    if fault and not block:
        raise NothingToRead(f"{name}: {fault}")
    return block[:_PIECE_BYTES]


def _decoded(content: bytes) -> tuple[str, str]:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", content.decode("utf-16", "replace")
    try:
        return "utf-8", content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start >= len(content) - 4:
            return "utf-8", content.decode("utf-8-sig", "ignore")
    return "cp1252", content.decode("cp1252", "replace")


def _document(path: Path, text: str) -> Sample:
    """Return a sample of a JSON document, by the first list of objects in it."""
    from lakehouse.algorithms.ingest.json_records import JsonRecords

    def objects(way: tuple[str, ...]) -> list[dict[str, Any]]:
        lines = JsonRecords(way).lines(text.encode()).decode().splitlines()
        return [json.loads(line) for line in lines if _is_object(line)]

    keys = _way_to_list(text)
    # A document may be one record, in which lists are beside its time.
    if keys and not is_timed(objects(keys)) and is_timed(objects(())):
        keys = ()
    found = _of_records(path, objects(keys))
    if keys:
        found.source["record_path"] = ".".join(keys)
        found.doubts.append(f"rows are the items of {'.'.join(keys)}, the first list of objects")
    found.format = "json"
    return found


def _way_to_list(text: str) -> tuple[str, ...]:
    """Return the keys that lead to the first list of objects in a document; none where it is one, or has none."""
    # The keys that open objects and lists stand behind; None for the document, and for what is in a list.
    opened: list[str | None] = []
    key: str | None = None
    for token in _TOKENS.finditer(text):
        if token["key"]:
            key = json.loads(token["key"])
        elif token["open"]:
            way = [*opened[1:], key]
            if len(token["open"]) > 1 and opened and all(way):
                return tuple(str(name) for name in way)
            opened += [key if token["open"] == "{" else None] + [None] * (len(token["open"]) > 1)
            key = None
        elif token["close"] and opened:
            opened.pop()
    return ()


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _json(path: Path, lines: Sequence[str]) -> Sample:
    return _of_records(path, [json.loads(line) for line in lines if _is_object(line)])


def _of_records(path: Path, objects: Sequence[Mapping[str, Any]]) -> Sample:
    records = [dict(_flat(record)) for record in objects]
    if not records:
        raise NothingToRead(f"{path}: no JSON object; expected one a line, or a document with a list of them")
    names = tuple(dict.fromkeys(name for record in records for name in record))
    rows = [tuple(record.get(name, "") for name in names) for record in records]
    lists = sorted({name for record in objects for name in _lists_in(record)})
    doubts = [f"lists are left out: {', '.join(lists)[:200]}; explode makes rows of their items"]
    return Sample(path, "ndjson", names, rows, doubts=doubts if lists else [])


def _lists_in(record: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lists_in(value, f"{before}{name}.")
        elif isinstance(value, list) and value:
            yield before + name


def _flat(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif value is not None and not isinstance(value, list):
            yield before + name, value if isinstance(value, str) else json.dumps(value)


def _parquet(path: Path) -> Sample:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        rows = next(file.iter_batches(1000), None)
    if rows is None:
        raise NothingToRead(f"{path}: the file has no rows")
    columns = [[_text(value) for value in column.to_pylist()] for column in rows.columns]
    return Sample(path, "parquet", tuple(rows.schema.names), list(zip(*columns, strict=True)))


def _text(value: Any) -> str:
    return "" if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)


def _delimited(path: Path, lines: Sequence[str]) -> Sample:
    comment = next((mark for mark in _COMMENTS if any(line.startswith(mark) for line in lines[:2])), None)
    kept = [line for line in lines if comment is None or not line.startswith(comment)]
    if len(kept) < _FEW_ROWS:
        raise NothingToRead(f"{path}: found {len(kept)} lines; expected a header and rows")
    separator, cut = _cut(kept)
    width = Counter(len(fields) for fields in cut).most_common(1)[0][0]
    names_at, data_at = _head_of(cut, width)
    found = Sample(path, "csv", (), [])
    if separator != ",":
        found.source["separator"] = separator
    if comment is not None:
        found.source["comment"] = comment
    if names_at is None:
        found.source["header"] = "none"
        names: list[str] = [str(number) for number in range(width)]
        found.doubts.append("no line of names: columns are named by their places")
    else:
        names = [name.strip() for name in cut[names_at]]
        if names_at or data_at != 1:
            more = {} if data_at == names_at + 1 else {"data": data_at + 1}
            found.source["header"] = {"line": names_at + 1} | more
    while names and not names[-1]:
        names.pop()
    rows = cut[data_at:]
    # Values beyond the names in most rows.
    over = sum(any(field.strip() for field in row[len(names) :]) for row in rows)
    if names_at is not None and 2 * over > len(rows):
        found.doubts.append(
            f"the line of names has {len(names)} fields, rows have {width}: columns are named by place"
        )
        found.source["header"], names = "skip", [str(number) for number in range(width)]
    if any(len(row) != len(cut[names_at] if names_at is not None else names) for row in rows):
        found.source["ragged"] = True
    found.names = distinct_names(names)
    found.rows = [tuple((row + [""] * len(names))[: len(names)]) for row in rows]
    return found


def _cut(lines: Sequence[str]) -> tuple[str, list[list[str]]]:
    """Return the separator that cuts most lines into the same number of fields, and the fields."""
    best: tuple[float, int, str, list[list[str]]] | None = None
    for separator in (*_SEPARATORS, WHITESPACE):
        fields = (
            [line.split() for line in lines] if separator == WHITESPACE else list(_read(lines, separator))
        )
        width, count = Counter(map(len, fields)).most_common(1)[0]
        # Runs of blanks cut texts, too: others are preferred where they cut at all.
        share = count / len(fields) * (_OF_BLANKS if separator == WHITESPACE else 1)
        if width > 1 and (best is None or (share, width) > best[:2]):
            best = (share, width, separator, fields)
    if best is None:
        return ",", [[line] for line in lines]
    return best[2], best[3]


def _read(lines: Sequence[str], separator: str) -> Iterator[list[str]]:
    for line in lines:
        try:
            yield next(csv.reader([line], delimiter=separator), [])
        except csv.Error:
            yield [line]


def _head_of(cut: Sequence[Sequence[str]], width: int) -> tuple[int | None, int]:
    """Return the line of names, None where there is none, and the first of data, from 0."""
    numbers = [_numbers(fields) for fields in cut[:_MOST_HEAD_LINES]]
    usual = median_high(numbers[len(numbers) // 2 :])
    least = max(usual * 0.5, 0.01)
    is_data = [share >= least and len(cut[at]) >= width - 1 for at, share in enumerate(numbers)]
    # A line of serial numbers in a head looks like data, too, but those behind it do not.
    data_at = next(
        (
            at
            for at, one in enumerate(is_data)
            if one and 2 * sum(is_data[at:][:_NEXT]) > len(is_data[at:][:_NEXT])
        ),
        0,
    )
    if usual == 0:
        return 0, 1
    # Of several lines before the data, the first that is as wide has the names; others have units.
    wide = [
        at
        for at in range(data_at)
        if abs(len(cut[at]) - width) <= 1 and any(field.strip() for field in cut[at])
    ]
    if not wide:
        return None, data_at

    def rank(at: int) -> tuple[bool, int, int]:
        # The line without numbers and of most different, filled fields; the first of equal ones.
        return not _numbers(cut[at]), len({field.strip() for field in cut[at] if field.strip()}), -at

    return max(wide, key=rank), data_at


def _numbers(fields: Sequence[str]) -> float:
    """Return the share of fields that begin with a digit, as numbers and times do."""
    there = [field.strip() for field in fields if field.strip()]
    return sum(bool(_NUMBER.match(text)) for text in there) / len(there) if there else 0.0
