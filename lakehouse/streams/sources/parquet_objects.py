"""Parquet files of an object store -> JSON records, as Spark makes them of files that it reads itself.

Spark reads no store without 50 MB more of jars, so each task fetches a file to its own disk, decodes it once to see
that it is whole, and hands its rows to the plan that makes records of them. Disk: one file for each task at work.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from lakehouse.home.store_client import ObjectUnread, StoreUnavailable
from lakehouse.streams.sources.landed_content import opened, opened_head
from lakehouse.streams.sources.manifest import LandedFile

_ROWS = 10_000
# How Spark reads what it has no such type for.
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.null(): pa.int32(),
}


def rows_of_objects(
    spark: SparkSession, files: Sequence[LandedFile], endpoint: str | None, as_record: Callable[..., Column]
) -> DataFrame:
    """Return the numbered records of files of the same columns, as ``lines.LINES``; ``as_record`` makes JSON of rows.

    A file that is gone or damaged by now is one faulty line.
    """
    with opened_head(files[0].path, endpoint) as file:
        schema = _as_spark_reads(pq.read_schema(file))
    rows = StructType([StructField("row", from_arrow_schema(schema, prefer_timestamp_ntz=True))])
    told = StructType(
        [
            StructField("source_file", StringType()),
            StructField("source_line", LongType()),
            StructField("fault", StringType()),
            *rows.fields,
        ]
    )
    paths = spark.sparkContext.parallelize([(file.path,) for file in files], len(files))
    read = spark.createDataFrame(paths, "path string").mapInArrow(_reader(endpoint, schema), told)
    return read.select(
        "source_file",
        "source_line",
        F.when(F.col("fault").isNull(), F.lit(0)).otherwise(F.lit(-1)).alias("layout"),
        F.coalesce(as_record(F.col("row")), F.lit("")).cast("binary").alias("record"),
        "fault",
    )


def _reader(
    endpoint: str | None, schema: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                yield from _rows(path, endpoint, schema)

    return read


def _rows(path: str, endpoint: str | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with tempfile.TemporaryFile() as kept:
        try:
            with opened(path, endpoint) as content:
                shutil.copyfileobj(content, kept, 1024 * 1024)
            for _ in _decoded(kept, schema):
                pass
        except (StoreUnavailable, ObjectUnread):
            raise
        except Exception as error:
            fault = f"unreadable_file: {type(error).__name__}: {error}"
            nothing = pa.nulls(1, pa.struct(list(schema)))
            yield _numbered(path, 0, pa.array([fault], pa.string()), nothing)
            return
        number = 1
        for rows in _decoded(kept, schema):
            yield _numbered(path, number, pa.nulls(len(rows), pa.string()), rows)
            number += len(rows)


def _decoded(kept: IO[bytes], schema: pa.Schema) -> Iterator[pa.StructArray]:
    kept.seek(0)
    for batch in pq.ParquetFile(kept).iter_batches(_ROWS):
        table = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
        yield table.to_struct_array().combine_chunks()


def _numbered(path: str, first: int, faults: pa.Array, rows: pa.Array) -> pa.RecordBatch:
    numbers = pa.array(range(first, first + len(rows)), pa.int64())
    columns = [pa.repeat(pa.scalar(path), len(rows)), numbers, faults, rows]
    return pa.record_batch(columns, ["source_file", "source_line", "fault", "row"])


def _as_spark_reads(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, _as_spark(field.type)) for field in schema])


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
