"""JSON documents as lines: the records of a list, wherever it is in the document, one a line."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator

from lakehouse.config.stream import Source


def as_lines(
    blocks: Iterable[tuple[bytes, str | None]], source: Source
) -> Iterator[tuple[bytes, str | None]]:
    """Yield a document as blocks of a file of one object a line; a fault says that it has none, or ends too early.

    Blocks of any other format pass as they are.
    """
    if source.format != "json":
        yield from blocks
        return
    # What compiles loads slowly: only those who have documents wait for it.
    from lakehouse.algorithms.ingest.json_records import JsonRecords

    path, damaged = source.record_path, False
    records = JsonRecords(tuple(path.split(".")) if path else ())
    for number, (block, fault) in enumerate(blocks):
        yield records.lines(block if number else block.removeprefix(BOM_UTF8)), fault
        damaged = damaged or fault is not None
    if damaged:
        return
    if records.is_open:
        yield b"", "truncated_file: the JSON document ends inside a record or list"
    elif records.lacks_records:
        yield b"", f"malformed: the JSON document has no object or list of them under {path!r} (record_path)"
