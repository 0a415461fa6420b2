"""The parser in tasks of Spark: files, or numbered lines that a frame has, as a frame of typed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.streams.sources.lines import parsed_file
from lakehouse.streams.sources.manifest import LandedFile, layouts_of
from lakehouse.streams.sources.numbered import ALL, LineSet, faulty_line
from lakehouse.streams.sources.parser import Parser

_PLACES = "path string, layout int"
_PARTITION_BYTES = 128 * 1024 * 1024
Batches = Iterable[pa.RecordBatch]


def rows_of_lines(lines: DataFrame, parser: Parser) -> DataFrame:
    """Return the rows of numbered lines."""
    return lines.mapInArrow(partial(_parsed, parser=parser), _schema(parser))


def rows_of_files(
    spark: SparkSession, files: tuple[LandedFile, ...], parser: Parser, without: Mapping[str, LineSet] = ALL
) -> DataFrame:
    """Return the rows of a batch of files; a file that cannot be read becomes one rejected row.

    Files are dealt to partitions in path order and never cut, so rows inside a partition stand in processing order.
    """
    layouts = layouts_of(files)
    places = [(file.path, layouts.index(file.fields)) for file in files if file.unreadable is None]
    cores, size = spark.sparkContext.defaultParallelism, sum(file.size for file in files)
    partitions = max(1, min(len(places), max(cores, -(-size // _PARTITION_BYTES))))
    paths = spark.createDataFrame(spark.sparkContext.parallelize(places, partitions), _PLACES)
    read = partial(_read, parser=parser, without=dict(without))
    frame = paths.mapInArrow(read, _schema(parser))
    faults = {file.path: f"unreadable_file: {file.unreadable}" for file in files if file.unreadable}
    if not faults:
        return frame
    lines = pa.concat_tables([faulty_line(path, fault) for path, fault in faults.items()])
    return frame.unionByName(spark.createDataFrame(parser.parse(lines).combine_chunks()))


def _schema(parser: Parser) -> StructType:
    return from_arrow_schema(parser.schema, prefer_timestamp_ntz=True)


def _parsed(batches: Batches, *, parser: Parser) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from parser.parse(batch).combine_chunks().to_batches()


def _read(batches: Batches, *, parser: Parser, without: Mapping[str, LineSet]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, layout in zip(*batch.to_pydict().values(), strict=True):
            for rows in parsed_file(path, layout, parser, without):
                yield from rows.combine_chunks().to_batches()
