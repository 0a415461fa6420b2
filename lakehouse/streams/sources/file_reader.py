"""What tasks of Spark read files with, whole files in path order, each in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField

from lakehouse.declare.stream import Stream
from lakehouse.streams.sources.fields import typed_type
from lakehouse.streams.sources.plain_lines import can_be_plain


@dataclass(frozen=True)
class FileReader:
    """How a file becomes lines: ``read`` takes its path and which kind of file it is, and yields tables.

    ``columns``: theirs, which may lack one that is null. ``computed``: those that Spark makes of them.
    """

    read: Callable[[str, int], Iterator[pa.Table]]
    columns: pa.Schema
    stream: Stream
    computed: Mapping[str, Column] = field(default_factory=dict)

    def lines(self, paths: DataFrame) -> DataFrame:
        """Return the lines of files, given as number, path and kind, with the file's number."""
        columns = pa.schema([pa.field("file", pa.int32()), *self.columns])
        told = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        if can_be_plain(self.stream):
            typed = typed_type(self.stream)
            columns = columns.append(pa.field("typed", pa.struct(list(to_arrow_schema(typed)))))
            told = told.add(StructField("typed", typed))
        return self._whole(paths.mapInArrow(_by_file(self.read, columns), told))

    def lines_of(self, rows: pa.Table, spark: SparkSession) -> DataFrame:
        """Return the lines that some rows are, as ``read`` yields them, without ``typed``, of a ``source_file``."""
        columns = pa.schema([pa.field("source_file", pa.string()), *self.columns])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, columns) as writer:
            writer.write_table(_whole(rows, columns))
        # By a task, as lines of files are: what Spark makes of Arrow's types is the same then.
        content = spark.createDataFrame([(bytearray(sink.getvalue().to_pybytes()),)], "content binary")
        told = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        return self._whole(content.mapInArrow(_unpacked, told))

    def _whole(self, lines: DataFrame) -> DataFrame:
        """Return lines with what Spark makes of their rows, without these."""
        found = lines.withColumns(dict(self.computed))
        return found.drop(*(name for name in self.columns.names if name.startswith("row")))


def _by_file(
    read: Callable[[str, int], Iterator[pa.Table]], columns: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, path, kind in zip(*batch.to_pydict().values(), strict=True):
                for lines in read(path, kind):
                    number = pa.repeat(pa.scalar(file, pa.int32()), lines.num_rows)
                    yield from _whole(lines.append_column("file", number), columns).to_batches()

    return by_file


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for content in batch.column(0):
            yield from pa.ipc.open_stream(content.as_buffer()).read_all().to_batches()


def _whole(lines: pa.Table, columns: pa.Schema) -> pa.Table:
    for column in columns:
        if column.name not in lines.column_names:
            lines = lines.append_column(column, pa.nulls(lines.num_rows, column.type))
    return lines.select(columns.names).cast(columns)
