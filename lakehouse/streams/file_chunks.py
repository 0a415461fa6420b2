"""The files of a batch, read on the driver chunk by chunk: their rows, and the rejected ones.

Chunks are held in memory up to ``HELD_BYTES`` of rows; those behind are spilled to a temporary file without a name,
which is mapped when they are read. Files are read side by side.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.lines import FileParser, records_of
from lakehouse.streams.sources.manifest import LandedFile, layouts_of
from lakehouse.streams.sources.numbered import faulty_line
from lakehouse.streams.sources.parquet_rows import fault_of, numbered_rows, parsed_values
from lakehouse.streams.sources.parser import Parser

# Those of 128 MB of usual lines, six times their bytes, and the lines, where compared; of fewer where one is many rows.
HELD_BYTES = 896 * 1024 * 1024
# Of rejected records, which are held as they are.
REJECTED_BYTES = 64 * 1024 * 1024
REJECTED = pa.schema(
    {
        **dict.fromkeys(("reason", "detail"), pa.string()),
        "record": pa.binary(),
        **{"source_file": pa.string(), "source_line": pa.int64(), "source_item": pa.int32()},
    }
)
_OF_REJECTED = ("reason", "detail", "record", "message")
# The function that returns a table: one in memory, or one that it reads back.
Kept = Callable[[], pa.Table]
_Keep = Callable[[pa.Table], Kept]
# The number of objects of a store that are read at the same time.
_WAITING = 8
_ALIGNED = 64


class TooMuch(Exception):
    """A batch has more lines, or more that are rejected, than are judged on the driver."""


@dataclass(frozen=True)
class Chunk:
    """Some lines of one file that follow each other: the rows that are accepted, in order, and the rejected ones.

    ``said``: all lines by number, or of Parquet all rows, where rows are compared.
    """

    path: str
    count: int
    rows: Kept
    rejected: pa.Table
    said: Kept | None = None


@dataclass(frozen=True)
class FileChunks:
    """Reads files of a stream: up to ``most_bytes`` of lines."""

    files: tuple[LandedFile, ...]
    stream: Stream
    most_bytes: int

    def read(self) -> list[Chunk]:
        """Return the chunks of the files, in processing order; one that cannot be read has a rejected record.

        Raises:
            TooMuch: if there are more lines, or more that are rejected.
        """
        room, parser = _Room(self.most_bytes), Parser.of(self.stream, layouts_of(self.files))

        def read(file: LandedFile) -> list[Chunk]:
            if file.unreadable is not None:
                line = faulty_line(file.path, f"unreadable_file: {file.unreadable}")
                return [self._chunk(file, parser.parse(line), None, room.take(0, 0))]
            if self.stream.source.format == "parquet":
                return self._of_rows(file, parser, room)
            return list(self._of_lines(file, parser, room))

        # Arrow and numpy release the interpreter's lock while they work, and so does a wait for a store.
        workers = _WAITING if is_remote(self.stream.source.path) else os.cpu_count()
        with ThreadPoolExecutor(workers) as pool:
            files = sorted(self.files, key=lambda file: file.path)
            return [chunk for chunks in pool.map(read, files) for chunk in chunks]

    def _of_lines(self, file: LandedFile, parser: Parser, room: _Room) -> Iterator[Chunk]:
        of_file = FileParser(parser, file.path, parser.layouts.index(file.fields))
        for lines in records_of(file.path, self.stream.source):
            if lines.num_rows:
                rows = of_file.parse(lines)
                keep = room.take(_bytes(lines.column("record")), _bytes(rows["record"]))
                yield self._chunk(file, rows, pa.table(lines), keep)

    def _of_rows(self, file: LandedFile, parser: Parser, room: _Room) -> list[Chunk]:
        """Return the chunks of a Parquet file; one faulty line if it cannot be read to its end."""
        found, read = list[Chunk](), numbered_rows(file.path, self.stream.source)
        while True:
            try:
                numbers, values = next(read, (None, None))
            except Exception as error:
                line = faulty_line(file.path, fault_of(error))
                return [self._chunk(file, parser.parse(line), None, room.take(0, 0))]
            if values is None:
                return found
            # Outside, as a full disk is not the file's fault.
            rows = parsed_values(values, numbers, parser, file.path)
            said = pa.table({"source_line": numbers, "row": values.to_struct_array()})
            found.append(self._chunk(file, rows, said, room.take(values.nbytes, _bytes(rows["record"]))))

    def _chunk(self, file: LandedFile, rows: pa.Table, said: pa.Table | None, keep: _Keep) -> Chunk:
        is_good = rows["reason"].is_null()
        good = rows.filter(is_good).select(no_rows(self.stream).column_names)
        kept = keep(said) if self.stream.identity and said is not None else None
        rejected = rows.filter(pc.invert(is_good)).select(REJECTED.names)
        return Chunk(file.path, good.num_rows, keep(good), rejected, kept)


def no_rows(stream: Stream) -> pa.Table:
    """Return the accepted rows of no line, with all columns of those of a chunk."""
    names = [name for name in Parser.of(stream, ()).schema.names if name not in _OF_REJECTED]
    return Parser.of(stream, ()).schema.empty_table().select(names)


class _Room:
    """How many bytes of lines, and of rejected records, threads may still read, and of rows still hold."""

    def __init__(self, most_bytes: int) -> None:
        self._lock = threading.Lock()
        self._lines, self._held, self._rejected = most_bytes, HELD_BYTES, REJECTED_BYTES

    @cached_property
    def _spill(self) -> Spill:
        return Spill()

    def take(self, lines: int, rejected: int) -> _Keep:
        """Use some of the room; return the function that keeps a table of these lines."""
        with self._lock:
            self._lines -= lines
            self._rejected -= rejected
            if min(self._lines, self._rejected) < 0:
                raise TooMuch
        return self._keep

    def _keep(self, table: pa.Table) -> Kept:
        with self._lock:
            self._held -= table.nbytes
            put = None if self._held >= 0 else self._spill.put
        return put(table) if put else lambda: table


def _bytes(texts: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(texts)).as_py() or 0


class Spill:
    """A file of tables. Any thread writes or reads them; all are written before the first is read.

    Disk: the bytes of the tables, until this object and the tables read from it are freed, or the process ends.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="tidemark-")  # noqa: SIM115
        self._lock = threading.Lock()
        self._mapped: pa.Buffer | None = None

    def put(self, table: pa.Table) -> Kept:
        """Write a table; return what reads it back, without a copy."""
        with self._lock:
            start = -(-self._file.tell() // _ALIGNED) * _ALIGNED
            self._file.seek(start)
            with pa.ipc.new_stream(self._file, table.schema) as writer:
                writer.write_table(table)
            size = self._file.tell() - start
        return lambda: pa.ipc.open_stream(self._bytes().slice(start, size)).read_all()

    def _bytes(self) -> pa.Buffer:
        # One thread maps the file; ``cached_property`` lets each do so that comes before the first has done it.
        with self._lock:
            if self._mapped is None:
                self._file.flush()
                self._mapped = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
                self._file.close()
            return self._mapped
