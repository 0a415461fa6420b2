"""A manifest -> a DataFrame of numbered lines: source_file, source_line, layout, record, fault.

``layout`` says which of the batch's distinct headers a line belongs to. Files are dealt to partitions in path
order and never cut, so rows inside a partition stand in processing order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Source, Stream
from lakehouse.streams.sources.file_reader import FileReader
from lakehouse.streams.sources.manifest import LandedFile, Layout, layouts_of
from lakehouse.streams.sources.nfdump import without_remarks
from lakehouse.streams.sources.numbered import ALL, LINE_SCHEMA, LineSet, NumberedLines
from lakehouse.streams.sources.parquet_rows import parquet_reader
from lakehouse.streams.sources.plain_lines import typed_lines
from lakehouse.streams.sources.split import NUMBERED, numbered_lines
from lakehouse.streams.sources.zeek import without_headers

_UNKNOWN_LAYOUT = -1
_PLACES = "file int, path string, kind int"
_PARTITION_BYTES = 128 * 1024 * 1024


def read_lines(
    spark: SparkSession, files: tuple[LandedFile, ...], stream: Stream, without: Mapping[str, LineSet] = ALL
) -> NumberedLines:
    """Return the numbered lines of a batch of files; a file that cannot be read becomes one faulty line.

    Lines ``without`` some, by file.
    """
    layouts = layouts_of(files)
    readable = tuple(file for file in files if file.unreadable is None)
    unreadable = unreadable_lines(files)
    frame = (
        _lines_of(spark, readable, stream, without)
        if readable
        else spark.createDataFrame(LINE_SCHEMA.empty_table())
    )
    if unreadable.num_rows:
        frame = frame.unionByName(spark.createDataFrame(unreadable), allowMissingColumns=True)
    return NumberedLines(frame, layouts)


def unreadable_lines(files: tuple[LandedFile, ...]) -> pa.Table:
    """Return one faulty line for each file that cannot be read."""
    found = [
        (f.path, 0, _UNKNOWN_LAYOUT, b"", f"unreadable_file: {f.unreadable}") for f in files if f.unreadable
    ]
    return pa.Table.from_pylist(
        [dict(zip(LINE_SCHEMA.names, each, strict=True)) for each in found], LINE_SCHEMA
    )


def _lines_of(
    spark: SparkSession, files: tuple[LandedFile, ...], stream: Stream, without: Mapping[str, LineSet]
) -> DataFrame:
    cores, size = spark.sparkContext.defaultParallelism, sum(file.size for file in files)
    partitions = max(1, min(len(files), max(cores, -(-size // _PARTITION_BYTES))))
    if stream.source.format == "parquet":
        kinds, reader = parquet_reader(files, stream, without)
    else:
        layouts = layouts_of(files)
        kinds, reader = [layouts.index(file.fields) for file in files], _text_reader(layouts, stream, without)
    places = zip(range(len(files)), (file.path for file in files), kinds, strict=True)
    paths = spark.createDataFrame(spark.sparkContext.parallelize(list(places), partitions), _PLACES)
    # Lines carry their file's number; the path, much longer, is looked up in one constant.
    names = F.split(F.lit("\0".join(file.path for file in files)), "\0")
    return reader.lines(paths).withColumn("source_file", F.get(names, F.col("file"))).drop("file")


def _text_reader(layouts: tuple[Layout, ...], stream: Stream, without: Mapping[str, LineSet]) -> FileReader:
    def read(path: str, kind: int) -> Iterator[pa.Table]:
        for lines in records_of(path, stream.source):
            kept = lines if path not in without else lines.filter(without[path].lack(lines.column(0)))
            found = typed_lines(kept, layouts[kind], stream, path)
            yield found.append_column("layout", pa.repeat(pa.scalar(kind, pa.int32()), found.num_rows))

    return FileReader(
        read, pa.schema([field for field in LINE_SCHEMA if field.name != "source_file"]), stream
    )


def records_of(path: str, source: Source) -> Iterator[pa.RecordBatch]:
    """Yield the numbered records of a file of any format but Parquet, without header and remarks.

    Where the file cannot be read any further, as it is gone or its disk fails, one faulty record of number 0 says so.
    """
    try:
        yield from _records(path, source)
    except OSError as error:
        yield pa.record_batch([[0], [b""], [f"unreadable_file: {error}"]], schema=NUMBERED)


def _records(path: str, source: Source) -> Iterator[pa.RecordBatch]:
    longest, endpoint = source.max_record_bytes, source.endpoint
    if source.format == "pcap":
        from lakehouse.streams.sources.packets import numbered_packets

        return numbered_packets(path, endpoint)
    if source.format == "nfdump":
        return without_remarks(numbered_lines(path, True, longest, endpoint))
    if source.format == "zeek":
        return without_headers(numbered_lines(path, False, longest, endpoint))
    has_header = source.format == "csv" and source.header != "none"
    return numbered_lines(path, has_header, longest, endpoint)
