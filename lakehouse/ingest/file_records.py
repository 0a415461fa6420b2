"""The records of a batch of files, as tasks read them: a run of files each, in path order, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Source, Stream
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.parser.verdicts import FILTERED, READ_BEFORE
from lakehouse.ingest.sources.compressed import is_compressed
from lakehouse.ingest.sources.lines import parsed_file
from lakehouse.ingest.sources.manifest import LandedFile
from lakehouse.ingest.sources.numbered import faulty_line

# Work for about half a second; a task costs some tens of milliseconds.
ITEM_BYTES = 32 * 1024 * 1024
# Compressed files are larger than they look, and rows of wide lines larger than these.
_INFLATED, _DECODED, _WIDE = 10, 5, 5


@dataclass(frozen=True)
class FileRecords:
    """The records of files, which are in path order; a file is never cut."""

    files: tuple[LandedFile, ...]
    parser: Parser

    @staticmethod
    def of(files: tuple[LandedFile, ...], stream: Stream) -> FileRecords:
        """Return the records of some files of a stream."""
        ordered = tuple(sorted(files, key=lambda file: file.path))
        return FileRecords(ordered, Parser.of_files(stream, files))

    @property
    def items(self) -> pa.Table:
        """The work of tasks: runs of files, from ``first`` up to ``end``."""
        ends, size = [0], 0
        for number, file in enumerate(self.files):
            more = bytes_of(file, self.parser.stream.source)
            if size and size + more > ITEM_BYTES:
                ends, size = [*ends, number], 0
            size += more
        ends = [*ends, len(self.files)] if self.files else ends
        numbers = pa.array(range(len(ends) - 1), pa.int64())
        return pa.table({"item": numbers, "first": ends[:-1], "end": ends[1:]})

    @property
    def bytes(self) -> int:
        """About how many bytes of lines there are."""
        return sum(bytes_of(file, self.parser.stream.source) for file in self.files)

    def parsed(self, item: dict[str, Any]) -> Iterator[pa.Table]:
        """Yield the rows of an item's files, as the parser has them, in order."""
        for file in self.files[item["first"] : item["end"]]:
            yield from self._of(file, self.parser)

    def again(self, item: dict[str, Any], path: str, lines: pa.Array) -> Iterator[pa.Table]:
        """Yield the rows of some lines of one of an item's files once more, all with their records."""
        file = next(file for file in self.files if file.path == path)
        yield from self._of(file, replace(self.parser, keeps_records=True), lines)

    @staticmethod
    def _of(file: LandedFile, parser: Parser, only: pa.Array | None = None) -> Iterator[pa.Table]:
        if file.unreadable is not None:
            yield parser.parse(faulty_line(file.path, f"unreadable_file: {file.unreadable}"))
            return
        for rows in parsed_file(file, parser.layouts.index(file.fields), parser, only):
            yield _without_known(rows, file) if file.known_lines else rows


def _without_known(rows: pa.Table, file: LandedFile) -> pa.Table:
    """Return rows of a file with the verdict on those of its first lines that they were read before."""
    is_own = pc.fill_null(pc.not_equal(rows["reason"], FILTERED), True)
    is_known = pc.and_(pc.less_equal(rows["source_line"], file.known_lines), is_own)
    number = rows.column_names.index("reason")
    return rows.set_column(number, "reason", pc.if_else(is_known, READ_BEFORE, rows["reason"]))


def bytes_of(file: LandedFile, source: Source) -> int:
    """Return about how many bytes of lines a file has."""
    factor = _DECODED if source.format == "parquet" else _WIDE if source.unpivot else 1
    return (file.size - file.begin) * factor * (_INFLATED if is_compressed(file.path) else 1)
