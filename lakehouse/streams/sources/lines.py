"""A manifest -> a DataFrame of numbered lines: source_file, source_line, layout, record, fault.

``layout`` says which of the batch's distinct headers a line belongs to. Files are dealt to partitions in path
order and never cut, so rows inside a partition stand in processing order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.store_address import is_remote
from lakehouse.declare.stream import Source
from lakehouse.streams.sources.manifest import LandedFile
from lakehouse.streams.sources.nfdump import without_remarks
from lakehouse.streams.sources.parquet_objects import rows_of_objects
from lakehouse.streams.sources.split import NUMBERED, numbered_lines
from lakehouse.streams.sources.zeek import without_headers

Layout = tuple[str, ...] | None
_LINE = "source_line bigint, layout int, record binary, fault string"
LINES = f"source_file string, {_LINE}"
_LINE_NAMES = ("source_line", "layout", "record", "fault")
LINE_SCHEMA = pa.schema(
    {
        "source_file": pa.string(),
        "source_line": pa.int64(),
        "layout": pa.int32(),
        "record": pa.binary(),
        "fault": pa.string(),
    }
)
_UNKNOWN_LAYOUT = -1
_ROWS, _CHECKED_ROWS = 1_000_000, 10_000
# What Spark takes for a pattern in a path.
_UNESCAPED = re.compile(r"[\\*?\[\]{}]")
_PARTITION_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True)
class LineSet:
    """Some lines of a file, by number: a bit for each line."""

    bits: npt.NDArray[np.uint8]

    @staticmethod
    def of(numbers: npt.NDArray[np.int64]) -> LineSet:
        """Return the set of these lines."""
        is_in = np.zeros(int(numbers.max(initial=0)) + 1, np.bool_)
        is_in[numbers] = True
        return LineSet(np.packbits(is_in))

    def lack(self, numbers: pa.Array) -> pa.Array:
        """Return which of some lines are not in the set."""
        places = numbers.to_numpy()
        known = np.minimum(places // 8, len(self.bits) - 1)
        is_in = (self.bits[known] >> (7 - places % 8).astype(np.uint8)) & 1
        return pa.array((is_in == 0) | (places // 8 >= len(self.bits)))


_ALL: Mapping[str, LineSet] = {}


def lines_in(written: list[Path]) -> dict[str, LineSet]:
    """Return, by file, the lines that the rows of these files of raw come from: two columns are read here."""
    found: dict[str, list[npt.NDArray[np.int64]]] = {}
    for path in written:
        with pq.ParquetFile(path, read_dictionary=["source_file"]) as file:
            for batch in file.iter_batches(_ROWS, columns=["source_file", "source_line"]):
                paths, numbers = batch.column(0), batch.column(1).to_numpy()
                places = paths.indices.to_numpy()
                cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
                for low, high in pairwise(cuts):
                    if low < high:
                        found.setdefault(paths.dictionary[int(places[low])].as_py(), []).append(
                            numbers[low:high]
                        )
    return {path: LineSet.of(np.concatenate(parts)) for path, parts in found.items()}


@dataclass(frozen=True)
class NumberedLines:
    """Lines of a batch and the headers they refer to."""

    frame: DataFrame
    layouts: tuple[Layout, ...]


def layouts_of(files: tuple[LandedFile, ...]) -> tuple[Layout, ...]:
    """Return the distinct headers of readable files, in the order met."""
    return tuple(dict.fromkeys(file.fields for file in files if file.unreadable is None))


def read_lines(
    spark: SparkSession, files: tuple[LandedFile, ...], source: Source, without: Mapping[str, LineSet] = _ALL
) -> NumberedLines:
    """Return the numbered lines of a batch of files; a file that cannot be read becomes one faulty line.

    Lines of text ``without`` some, by file.
    """
    is_here = not is_remote(source.path)
    if source.format == "parquet" and is_here:
        files = tuple(map(_found, files))
    layouts = layouts_of(files)
    readable = [(f.path, layouts.index(f.fields)) for f in files if f.unreadable is None]
    unreadable = unreadable_lines(files)
    if source.format == "parquet":
        frame = _parquet_lines(spark, [f for f in files if f.unreadable is None], source)
    else:
        frame = _text_lines(spark, readable, sum(f.size for f in files), source, without)
    if unreadable.num_rows:
        frame = frame.unionByName(spark.createDataFrame(unreadable))
    return NumberedLines(frame, layouts)


def _found(file: LandedFile) -> LandedFile:
    """Return a Parquet file, marked where it is gone by now or damaged: Spark would refuse all files for one.

    Cost: it is decoded once, which is a small part of what Spark takes for it.
    """
    if file.unreadable is not None:
        return file
    try:
        with pq.ParquetFile(file.path) as content:
            for _ in content.iter_batches(_CHECKED_ROWS):
                pass
    except Exception as error:
        return replace(file, unreadable=f"{type(error).__name__}: {error}")
    return file


def unreadable_lines(files: tuple[LandedFile, ...]) -> pa.Table:
    """Return one faulty line for each file that cannot be read."""
    found = [
        (f.path, 0, _UNKNOWN_LAYOUT, b"", f"unreadable_file: {f.unreadable}") for f in files if f.unreadable
    ]
    return pa.Table.from_pylist(
        [dict(zip(LINE_SCHEMA.names, each, strict=True)) for each in found], LINE_SCHEMA
    )


def _text_lines(
    spark: SparkSession,
    readable: list[tuple[str, int]],
    size: int,
    source: Source,
    without: Mapping[str, LineSet],
) -> DataFrame:
    cores = spark.sparkContext.defaultParallelism
    partitions = max(1, min(len(readable), max(cores, -(-size // _PARTITION_BYTES))))
    numbered = [(number, path, layout) for number, (path, layout) in enumerate(readable)]
    paths = spark.sparkContext.parallelize(numbered, partitions)
    frame = spark.createDataFrame(paths, "file int, path string, layout int")
    lines = frame.mapInArrow(_splitter(source, without), f"file int, {_LINE}")
    # Lines carry their file's number; the path, much longer, is looked up in one constant.
    names = F.split(F.lit("\0".join(path for path, _ in readable)), "\0")
    return lines.select(F.get(names, F.col("file")).alias("source_file"), *_LINE_NAMES)


def _splitter(
    source: Source, without: Mapping[str, LineSet]
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def split(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, path, layout in zip(*batch.to_pydict().values(), strict=True):
                for lines in records_of(path, source):
                    kept = lines if path not in without else lines.filter(without[path].lack(lines.column(0)))
                    yield _located(kept, file, layout)

    return split


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


def _located(lines: pa.RecordBatch, file: int, layout: int) -> pa.RecordBatch:
    files, layouts = (pa.repeat(pa.scalar(value, pa.int32()), lines.num_rows) for value in (file, layout))
    columns = [files, lines.column(0), layouts, lines.column(1), lines.column(2)]
    return pa.record_batch(columns, ["file", *_LINE_NAMES])


def _parquet_lines(spark: SparkSession, files: list[LandedFile], source: Source) -> DataFrame:
    """Rows of Parquet files as JSON records, so that they take the same way as lines; a line is a row's number.

    Files are read by their own columns and types: those of equal ones together, in one plan each.
    """
    alike: dict[tuple[tuple[str, str], ...], list[LandedFile]] = {}
    for file in files:
        alike.setdefault(tuple(sorted(file.columns.items())), []).append(file)
    if is_remote(source.path):
        frames = [rows_of_objects(spark, same, source.endpoint, _as_json) for same in alike.values()]
    else:
        paths = [[_UNESCAPED.sub(r"\\\g<0>", file.path) for file in same] for same in alike.values()]
        frames = [_parquet_records(spark.read.parquet(*same)) for same in paths]
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], LINES)


def _as_json(row: Column) -> Column:
    micros = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
    return F.to_json(row, micros)


def _parquet_records(frame: DataFrame) -> DataFrame:
    # Spark tells an address: with percents, in which a plus stands for itself.
    address = F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B"))
    return frame.select(
        F.regexp_replace(F.url_decode(address), "^file:/*", "/").alias("source_file"),
        (F.col("_metadata.row_index") + 1).alias("source_line"),
        F.lit(0).alias("layout"),
        _as_json(F.struct("*")).cast("binary").alias("record"),
        F.lit(None).cast("string").alias("fault"),
    )
