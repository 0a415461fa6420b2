"""Heads of files that loggers write: titles, comments and units around the line of names; encodings; JSON documents.

A line counts where it is neither blank nor a comment. Bytes become UTF-8 before they are cut into lines, so what is
rejected is kept as UTF-8.
"""

import codecs
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.formats import DOCUMENTS
from lakehouse.config.lines import Encoding
from lakehouse.config.stream import Source
from lakehouse.ingest.parser.texts import BLANKS


def _control(error: UnicodeError) -> tuple[str, int]:
    """Return the control character that a byte is which cp1252 leaves open, as browsers read it."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("tidemark-control", _control)


def as_utf8(
    blocks: Iterable[tuple[bytes, str | None]], encoding: Encoding
) -> Iterator[tuple[bytes, str | None]]:
    """Yield the blocks of a file as UTF-8, with their faults; what is no character of UTF-16 becomes U+FFFD."""
    if encoding == "utf-8":
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)(
        "replace" if encoding == "utf-16" else "tidemark-control"
    )
    for block, fault in blocks:
        yield decoder.decode(block).encode(), fault
    if rest := decoder.decode(b"", final=True).encode():
        yield rest, None


def as_lines(
    blocks: Iterable[tuple[bytes, str | None]], source: Source
) -> Iterator[tuple[bytes, str | None]]:
    """Yield a document as blocks of a file of one object a line; a fault says that it has none, or ends too early.

    Blocks of any other format pass as they are.
    """
    if source.format not in DOCUMENTS:
        yield from blocks
        return
    lines, close = _document(source)
    damaged = False
    for number, (block, fault) in enumerate(blocks):
        yield lines(block if number else block.removeprefix(BOM_UTF8)), fault
        damaged = damaged or fault is not None
    if not damaged and (fault := close()):
        yield b"", fault


def _document(source: Source) -> tuple[Callable[[bytes], bytes], Callable[[], str]]:
    """Return what makes lines of a document's blocks, and what says of its end if it is wrong."""
    path = source.record_path
    keys = tuple(path.split(".")) if path else ()
    if source.format == "xml":
        from lakehouse.ingest.forms.xml_records import XmlRecords

        elements = XmlRecords(keys, source.max_record_bytes)
        return elements.lines, elements.close
    # What compiles loads slowly: only those who have documents wait for it.
    from lakehouse.algorithms.ingest.json_records import JsonRecords

    records = JsonRecords(keys)

    def close() -> str:
        if records.is_open:
            return "truncated_file: the JSON document ends inside a record or list"
        if records.lacks_records:
            return f"malformed: the JSON document has no object or list of them under {path!r} (record_path)"
        return ""

    return records.lines, close


def whole(blocks: Iterable[tuple[bytes, str | None]], longest: int) -> tuple[bytes, str | None]:
    """Return a file that is one record, and its fault; of one that is too long little more than it may have."""
    content = bytearray()
    for block, fault in blocks:
        content += block
        if fault is not None:
            return bytes(content), fault
        if len(content) > longest:
            return bytes(content), f"too_long: expected at most {longest} bytes (max_record_bytes)"
    return bytes(content), None


@dataclass
class Head:
    """Head of a file: its line of names, or one as wide as all, its line of units, and its constants."""

    names: str = ""
    units: str = ""
    constants: dict[str, str] = field(default_factory=dict)


def head_of(lines: Iterable[str], source: Source) -> Head:
    """Return the head of a file by its first lines; what is not there is empty."""
    found, units = Head(), source.head.units
    for number, line in enumerate(_counted(_looked_at(lines, source, found.constants), source), 1):
        if number == source.head.line:
            found.names = line
        if number == (units or source.head.line):
            found.units = line if units else ""
            break
    return found


def _looked_at(lines: Iterable[str], source: Source, constants: dict[str, str]) -> Iterator[str]:
    """Pass on lines, and note the constants that are found in them first."""
    for line in lines:
        for name, pattern in source.constants.items():
            if name not in constants and (match := re.search(pattern, line, re.ASCII)) and match[1]:
                constants[name] = match[1].strip()
        yield line


def _counted(lines: Iterable[str], source: Source) -> Iterator[str]:
    """Yield the lines that count in a head."""
    head, pattern = source.head, source.head.skip_until
    begun = lines if pattern is None else dropwhile(lambda line: not re.search(pattern, line), lines)
    mark = source.comment
    if source.skip and head.first_of_data == 1:
        # Nothing but the first line of data says how many fields there are.
        begun = (line for line in begun if not re.search(source.skip, line))
    yield from (line for line in begun if line.strip(BLANKS) and not (mark and line.startswith(mark)))


def without_head(
    batches: Iterable[pa.RecordBatch], source: Source, is_passed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Pass on numbered records: neither comments nor lines to skip, from where data begin, which may be passed already.

    A line with a fault is passed on, whatever is left of it.
    """
    left, pattern = (0, None) if is_passed else (source.head.first_of_data - 1, source.head.skip_until)
    for batch in batches:
        if pattern is not None:
            first = pc.index(pc.match_substring_regex(batch.column(1), pattern), True).as_py()
            pattern, batch = (
                (pattern, batch.slice(batch.num_rows)) if first < 0 else (None, batch.slice(first))
            )
        if source.comment:
            batch = _without(batch, pc.starts_with(batch.column(1), source.comment.encode()))
        data = batch.slice(min(left, batch.num_rows))
        left -= min(left, batch.num_rows)
        yield _without(data, pc.match_substring_regex(data.column(1), source.skip)) if source.skip else data


def without_comments(batches: Iterable[pa.RecordBatch], mark: str) -> Iterator[pa.RecordBatch]:
    """Pass on numbered records but those that begin with a mark."""
    return (_without(batch, pc.starts_with(batch.column(1), mark.encode())) for batch in batches)


def _without(batch: pa.RecordBatch, is_out: pa.Array) -> pa.RecordBatch:
    return batch.filter(pc.or_(pc.invert(is_out), pc.is_valid(batch.column(2))))
