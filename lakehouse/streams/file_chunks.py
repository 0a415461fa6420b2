"""The files of a batch, read on the driver chunk by chunk: rows of plain lines in Arrow, and the other lines.

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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.lines import NUMBERED, records_of
from lakehouse.streams.sources.manifest import LandedFile, layouts_of
from lakehouse.streams.sources.numbered import LINE_SCHEMA
from lakehouse.streams.sources.parquet_rows import fault_of, kinds_of, numbered_rows, reader_of, row_name
from lakehouse.streams.sources.plain_lines import PlainLines, read_plain, read_plain_rows

# Those of 128 MB of usual lines, six times their bytes, and the lines, where compared; of fewer where one is many rows.
HELD_BYTES = 896 * 1024 * 1024
# Lines that are not plain are read one by one, or by one core of Spark; with more of them Spark should read all lines.
OTHER_BYTES = 4 * 1024 * 1024
# The function that returns a table: one in memory, or one that it reads back.
Kept = Callable[[], pa.Table]
_Keep = Callable[[pa.Table], Kept]
# The number of objects of a store that are read at the same time.
_WAITING = 8
_ALIGNED = 64


class TooMuch(Exception):
    """A batch has more lines, or more that are not plain, than are judged on the driver."""


@dataclass(frozen=True)
class Chunk:
    """Some lines of one file that follow each other: the rows of those that are plain, in order, and the others.

    ``first``: the number of its first line. ``others`` are as ``LINE_SCHEMA`` has them. Of Parquet, whose lines are
    rows, ``other_rows`` are those that do not fit. ``said``: all lines or rows by number, where rows are compared.
    """

    path: str
    first: int
    count: int
    rows: Kept
    others: pa.Table
    other_rows: pa.Table | None = None
    said: Kept | None = None


@dataclass(frozen=True)
class FileChunks:
    """Reads files of a stream: up to ``most_bytes`` of lines."""

    files: tuple[LandedFile, ...]
    stream: Stream
    most_bytes: int

    def read(self) -> list[Chunk]:
        """Return the chunks of the files that can be read, in processing order.

        Raises:
            TooMuch: if there are more lines, or more that are not plain.
        """
        files, (kinds, schemas), room = self._readable, self._kinds, _Room(self.most_bytes)

        def read(file: LandedFile, kind: int) -> list[Chunk]:
            if self._is_parquet:
                return self._of_rows(file, kind, schemas[kind], room)
            return list(self._of_lines(file, room))

        # Arrow and numpy release the interpreter's lock while they work, and so does a wait for a store.
        workers = _WAITING if is_remote(self.stream.source.path) else os.cpu_count()
        with ThreadPoolExecutor(workers) as pool:
            return [chunk for chunks in pool.map(read, files, kinds) for chunk in chunks]

    def lines_of(self, rows: pa.Table, spark: SparkSession) -> DataFrame:
        """Return the lines that some rows of Parquet files are, as tasks make them, with their ``source_file``."""
        # Started, if it is not yet: columns cannot be named before.
        _ = spark.sparkContext
        # The columns are those that were read: a file may be another by now.
        return reader_of(self._kinds[1], self.stream, {}).lines_of(rows, spark)

    @cached_property
    def _readable(self) -> list[LandedFile]:
        return sorted((f for f in self.files if f.unreadable is None), key=lambda file: file.path)

    @cached_property
    def _kinds(self) -> tuple[list[int], list[pa.Schema]]:
        """Which kind each readable file is, and the columns of each kind; lines are of one kind, without any."""
        if self._is_parquet:
            return kinds_of(self._readable, self.stream.source)
        return [0] * len(self._readable), []

    @property
    def _is_parquet(self) -> bool:
        return self.stream.source.format == "parquet"

    def _of_lines(self, file: LandedFile, room: _Room) -> Iterator[Chunk]:
        stream, layout = self.stream, layouts_of(self.files).index(file.fields)
        for lines in records_of(file.path, stream.source):
            if not lines.num_rows:
                continue
            found = read_plain(lines, file.fields, stream, file.path)
            others = _located(lines.filter(pa.array(~found.is_plain)), file, layout)
            keep = room.take(_bytes(lines.column("record")), _bytes(others["record"]))
            said = keep(pa.table(lines)) if stream.identity else None
            numbers = lines.column("source_line")
            yield Chunk(
                file.path, numbers[0].as_py(), found.rows.num_rows, keep(_ordered(found)), others, None, said
            )

    def _of_rows(self, file: LandedFile, kind: int, schema: pa.Schema, room: _Room) -> list[Chunk]:
        """Return the chunks of a Parquet file; one faulty line if it cannot be read to its end."""
        found, read = list[Chunk](), numbered_rows(file.path, schema, self.stream.source)
        while True:
            try:
                numbers, rows = next(read, (None, None))
            except Exception as error:
                fault = pa.table([[file.path], [0], [-1], [b""], [fault_of(error)]], schema=LINE_SCHEMA)
                return [Chunk(file.path, 0, 0, lambda: no_rows(self.stream), fault)]
            if rows is None:
                return found
            # Outside, as a full disk is not the file's fault.
            found.append(self._of_some_rows(file, kind, numbers, rows, room))

    def _of_some_rows(
        self, file: LandedFile, kind: int, numbers: pa.Array, rows: pa.RecordBatch, room: _Room
    ) -> Chunk:
        found = read_plain_rows(rows, numbers, self.stream, file.path)
        every = pa.table({"source_line": numbers, row_name(kind): rows.to_struct_array()})
        others = every.filter(pa.array(~found.is_plain))
        keep = room.take(rows.nbytes, others.nbytes)
        said = keep(every) if self.stream.identity else None
        none = LINE_SCHEMA.empty_table()
        first = numbers[0].as_py()
        return Chunk(
            file.path,
            first,
            found.rows.num_rows,
            keep(found.rows),
            none,
            others if len(others) else None,
            said,
        )


def no_rows(stream: Stream) -> pa.Table:
    """Return the rows of no line, with all columns of those of a chunk."""
    return read_plain(pa.record_batch([[], [], []], schema=NUMBERED), stream.source.fields, stream).rows


class _Room:
    """How many bytes of lines, and of lines that are not plain, threads may still read, and of rows still hold."""

    def __init__(self, most_bytes: int) -> None:
        self._lock = threading.Lock()
        self._lines, self._held, self._others = most_bytes, HELD_BYTES, OTHER_BYTES

    @cached_property
    def _spill(self) -> Spill:
        return Spill()

    def take(self, lines: int, others: int) -> _Keep:
        """Use some of the room; return the function that keeps a table of these lines."""
        with self._lock:
            self._lines -= lines
            self._others -= others
            if min(self._lines, self._others) < 0:
                raise TooMuch
        return self._keep

    def _keep(self, table: pa.Table) -> Kept:
        with self._lock:
            self._held -= table.nbytes
            put = None if self._held >= 0 else self._spill.put
        return put(table) if put else lambda: table


def _ordered(found: PlainLines) -> pa.Table:
    """Return the rows of plain lines in order: those of JSON come shape by shape."""
    lines = found.rows["source_line"].to_numpy()
    if np.all(np.diff(lines) >= 0):
        return found.rows
    return found.rows.take(pa.array(np.lexsort((found.rows["source_item"].to_numpy(), lines))))


def _bytes(texts: pa.Array | pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(texts)).as_py() or 0


def _located(lines: pa.RecordBatch, file: LandedFile, layout: int) -> pa.Table:
    paths, layouts = (
        pa.repeat(file.path, lines.num_rows),
        pa.repeat(pa.scalar(layout, pa.int32()), lines.num_rows),
    )
    columns = [paths, lines.column(0), layouts, lines.column(1), lines.column(2)]
    return pa.table(columns, schema=LINE_SCHEMA)


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
