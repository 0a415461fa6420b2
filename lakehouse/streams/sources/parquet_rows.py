"""Parquet files -> typed rows, and JSON records of the rows whose values do not fit, as Spark's own reader has them.

A task decodes a file once to see that it is whole, and types the rows that are plain; Spark makes records of the
others. An object is fetched to the task's own disk first. Disk: one object for each task at work.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.declare.landing import located
from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Source, Stream
from lakehouse.home.store_client import ObjectUnread, StoreUnavailable
from lakehouse.streams.sources.file_reader import FileReader
from lakehouse.streams.sources.landed_content import landing_of, opened, opened_head
from lakehouse.streams.sources.manifest import LandedFile
from lakehouse.streams.sources.numbered import LineSet
from lakehouse.streams.sources.plain_lines import typed_values

_ROWS = 20_000
# Where rows are not sent to Spark. Texts that a file holds once may be long in each row.
_ROWS_AT_ONCE, _BYTES_AT_ONCE = 100_000, 64 * 1024 * 1024
# Of the disk that an object is fetched to.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# How Spark reads what it has no such type for.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.null(): pa.int32(),
}


def parquet_reader(
    files: Sequence[LandedFile], stream: Stream, without: Mapping[str, LineSet]
) -> tuple[list[int], FileReader]:
    """Return which kind each file is, files of the same columns being of one, and what reads them in tasks.

    A line is a row's number; a file that is gone or damaged by now is one faulty line.
    """
    kinds, schemas = kinds_of(files, stream.source)
    return kinds, reader_of(schemas, stream, without)


def reader_of(schemas: Sequence[pa.Schema], stream: Stream, without: Mapping[str, LineSet]) -> FileReader:
    """Return what reads files of kinds that have these columns."""
    rows = [pa.field(row_name(kind), pa.struct(list(schema))) for kind, schema in enumerate(schemas)]
    record = F.when(F.col("fault").isNotNull(), F.lit(""))
    computed = {
        "layout": F.when(F.col("fault").isNull(), F.lit(0)).otherwise(F.lit(-1)),
        "record": F.coalesce(record, *(_as_json(F.col(row.name)) for row in rows)).cast("binary"),
    }
    columns = pa.schema([("source_line", pa.int64()), ("fault", pa.string()), *rows])
    read = _reader(schemas, stream, without)
    return FileReader(read, columns, stream, computed)


def kinds_of(files: Sequence[LandedFile], source: Source) -> tuple[list[int], list[pa.Schema]]:
    """Return which kind each file is, and the columns of each kind, as Spark reads them."""
    alike: dict[tuple[tuple[str, str], ...], list[LandedFile]] = {}
    for file in files:
        alike.setdefault(tuple(sorted(file.columns.items())), []).append(file)
    kinds = {file.path: kind for kind, same in enumerate(alike.values()) for file in same}
    return [kinds[file.path] for file in files], [_schema(same, source) for same in alike.values()]


def row_name(kind: int) -> str:
    """Return the column that holds the rows of files of a kind."""
    return f"row{kind}"


def numbered_rows(path: str, schema: pa.Schema, source: Source) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
    """Yield numbers and rows of a file as they are decoded, in the columns of a schema.

    Raises:
        StoreUnavailable, ObjectUnread: when a store does not answer.
        Exception: any other where the file is gone, or damaged behind what came; ``fault_of`` says it.
    """
    with ExitStack() as kept:
        number = 1
        decoded = _decoded(_content(kept, path, source), schema, min(_ROWS, _ROWS_AT_ONCE))
        for rows in _gathered(decoded):
            yield pa.array(np.arange(number, number + rows.num_rows)), rows
            number += rows.num_rows


def _gathered(decoded: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put rows together to about as many as are typed at once: fewer of wide ones."""
    held, count, size = list[pa.RecordBatch](), 0, 0
    for rows in decoded:
        held, count, size = [*held, rows], count + rows.num_rows, size + rows.nbytes
        if count >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, count, size = [], 0, 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def fault_of(error: Exception) -> str:
    """Return the fault of the line that a file is which cannot be read.

    Raises:
        StoreUnavailable, ObjectUnread, OSError: where this is not the file's, but the store's or this disk's.
    """
    is_of_disk = isinstance(error, OSError) and error.errno in _NO_ROOM
    if is_of_disk or isinstance(error, StoreUnavailable | ObjectUnread):
        raise error
    return f"unreadable_file: {type(error).__name__}: {error}"


def _as_json(row: Column) -> Column:
    micros = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
    return F.to_json(row, micros)


def _schema(files: Sequence[LandedFile], source: Source) -> pa.Schema:
    """Return the columns that files have alike, as Spark reads them, from the first that can be read."""
    for file in files:
        path = located(source.path, file.path)
        with suppress(OSError, pa.ArrowException), opened_head(path, landing_of(source)) as content:
            return _as_spark_reads(pq.ParquetFile(content))
    # None of them will be read, either.
    return pa.schema([("none", pa.int32())])


def _reader(
    schemas: Sequence[pa.Schema], stream: Stream, without: Mapping[str, LineSet]
) -> Callable[[str, int], Iterator[pa.Table]]:
    def read(path: str, kind: int) -> Iterator[pa.Table]:
        for numbers, rows in _rows(path, schemas[kind], stream.source):
            if isinstance(rows, str):
                yield pa.table({"source_line": numbers, "fault": pa.array([rows])})
                continue
            if path in without:
                is_in = without[path].lack(numbers)
                numbers, rows = numbers.filter(is_in), rows.filter(is_in)
            found = typed_values(numbers, rows, stream, path)
            names = {"row": row_name(kind)}
            yield found.rename_columns([names.get(name, name) for name in found.column_names])

    return read


def _rows(path: str, schema: pa.Schema, source: Source) -> Iterator[tuple[pa.Array, pa.StructArray | str]]:
    """Yield numbers and rows, or of a file that cannot be read number 0 and why."""
    with ExitStack() as kept:
        try:
            content = _content(kept, path, source)
            for _ in _decoded(content, schema, _ROWS):
                pass
        except Exception as error:
            yield pa.array([0]), fault_of(error)
            return
        number = 1
        for rows in _decoded(content, schema, _ROWS):
            yield pa.array(np.arange(number, number + rows.num_rows)), rows.to_struct_array()
            number += rows.num_rows


def _content(kept: ExitStack, name: str, source: Source) -> IO[bytes]:
    path = located(source.path, name)
    content = kept.enter_context(opened(path, landing_of(source)))
    if not is_remote(path):
        return content
    fetched = kept.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    shutil.copyfileobj(content, fetched, 1024 * 1024)
    return fetched


def _decoded(content: IO[bytes], schema: pa.Schema, count: int) -> Iterator[pa.RecordBatch]:
    content.seek(0)
    for batch in pq.ParquetFile(content, coerce_int96_timestamp_unit="us").iter_batches(count):
        table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        yield from table.combine_chunks().to_batches()


def _as_spark_reads(file: pq.ParquetFile) -> pa.Schema:
    stored = [file.schema.column(place) for place in range(len(file.schema))]
    moments = {column.path for column in stored if column.physical_type == "INT96"}
    return pa.schema(
        [
            pa.field(
                field.name, pa.timestamp("us", "UTC") if field.name in moments else _as_spark(field.type)
            )
            for field in file.schema_arrow
        ]
    )


def _as_spark(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _as_spark(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _as_spark(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_as_spark(kind.value_type))
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    return _WIDER.get(kind, kind)
