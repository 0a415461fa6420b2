"""Messages of a topic as numbered lines, and what a message tells beside its value.

``source_file`` is kafka:<topic>/<partition>, ``source_line`` the offset. What stands beside the value goes along as
``message`` and, with a rejected record, into quarantine: a record that is put through again says the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.columns import HEADER
from lakehouse.declare.stream import Source
from lakehouse.streams.sources.kafka import client_options
from lakehouse.streams.sources.line_set import LineSet
from lakehouse.streams.sources.manifest import OffsetRange
from lakehouse.streams.sources.numbered import LINES, NumberedLines

SCHEME = "kafka:"
TOMBSTONE = "tombstone: the message has no value"
MESSAGE = "struct<key: binary, timestamp_ms: bigint, headers: array<struct<key: string, value: binary>>>"


def read_messages(spark: SparkSession, ranges: Sequence[OffsetRange], source: Source) -> NumberedLines:
    """Return the messages of some ranges as numbered lines, with ``message``.

    A range is read whole or the reading fails: messages that a broker has lost are never passed over.
    """
    wanted = [each for each in ranges if each.count]
    layouts = (source.fields or None,)
    if not wanted:
        return NumberedLines(spark.createDataFrame([], f"{LINES}, message {MESSAGE}"), layouts)
    messages = spark.read.format("kafka").options(**_options(spark, wanted, source)).load()
    frame = messages.select(
        F.concat(F.lit(SCHEME), "topic", F.lit("/"), F.col("partition").cast("string")).alias("source_file"),
        F.col("offset").alias("source_line"),
        F.lit(0).alias("layout"),
        F.col("value").alias("record"),
        F.when(F.col("value").isNull(), F.lit(TOMBSTONE)).alias("fault"),
        _message().alias("message"),
    )
    return NumberedLines(frame, layouts)


def messages_beside(ranges: Sequence[OffsetRange], accepted: Mapping[str, LineSet]) -> pa.Table:
    """Return the place and offset of the messages of some ranges that are not in the sets, by place."""
    files, offsets = [pa.nulls(0, pa.string())], [pa.nulls(0, pa.int64())]
    for each in ranges:
        path, numbers = f"{SCHEME}{each.topic}/{each.partition}", pa.array(np.arange(each.start, each.end))
        others = numbers.filter(accepted[path].lack(numbers)) if path in accepted else numbers
        files.append(pa.repeat(pa.scalar(path), len(others)))
        offsets.append(others)
    # In one piece: Spark stops reading a table at its first empty piece behind another.
    return pa.table({"source_file": pa.concat_arrays(files), "source_line": pa.concat_arrays(offsets)})


def _options(spark: SparkSession, ranges: Sequence[OffsetRange], source: Source) -> Mapping[str, str]:
    def by_topic(offset_of: Callable[[OffsetRange], int]) -> str:
        found: dict[str, dict[str, int]] = {}
        for each in ranges:
            found.setdefault(each.topic, {})[str(each.partition)] = offset_of(each)
        return json.dumps(found)

    assigned: dict[str, list[int]] = {}
    for each in ranges:
        assigned.setdefault(each.topic, []).append(each.partition)
    return {f"kafka.{name}": value for name, value in client_options(source).items()} | {
        "assign": json.dumps(assigned),
        "startingOffsets": by_topic(lambda each: each.start),
        "endingOffsets": by_topic(lambda each: each.end),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        # A topic of one partition is read by all cores too.
        "minPartitions": str(spark.sparkContext.defaultParallelism),
    }


def _message() -> Column:
    # A message without a time of its own comes with -1.
    time = F.unix_millis("timestamp")
    return F.struct(
        F.col("key"),
        F.when(time >= 0, time).alias("timestamp_ms"),
        F.col("headers").cast(_HEADERS).alias("headers"),
    ).cast(MESSAGE)


_HEADERS = "array<struct<key: string, value: binary>>"


def with_message(lines: DataFrame) -> DataFrame:
    """Return lines that have a ``message``, null where they come from no topic."""
    return lines if "message" in lines.columns else lines.withColumn("message", F.lit(None).cast(MESSAGE))


def with_message_fields(cut: DataFrame, paths: Mapping[str, str]) -> DataFrame:
    """Add to the fields ``f`` those that a message tells beside its value, by name and path.

    ``valid`` says no where such a text is no UTF-8.
    """
    if not paths:
        return cut
    texts = {name: message_text(path) for name, path in paths.items()}
    valid = F.col("valid")
    for name, path in paths.items():
        if path == "$key" or path.startswith(HEADER):
            valid = valid & F.coalesce(F.is_valid_utf8(texts[name]), F.lit(True))
    fields = F.struct("f.*", *(F.trim(text).alias(name) for name, text in texts.items()))
    return cut.withColumns({"f": fields, "valid": valid})


def message_text(path: str) -> Column:
    """Return the text that a path such as ``$key`` or ``$headers.NAME`` leads to; of equal headers the last counts."""
    if path.startswith(HEADER):
        named = F.filter("message.headers", lambda header: header["key"] == path.removeprefix(HEADER))
        return F.try_element_at(named, F.lit(-1))["value"].cast("string")
    place = F.split(F.substr("source_file", F.lit(len(SCHEME) + 1)), "/")
    texts = {
        "$key": F.col("message.key").cast("string"),
        "$timestamp": F.col("message.timestamp_ms").cast("string"),
        "$topic": F.get(place, F.lit(0)),
        "$partition": F.get(place, F.lit(1)),
        "$offset": F.col("source_line").cast("string"),
    }
    return texts[path]
