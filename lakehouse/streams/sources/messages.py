"""Messages of a topic as numbered lines.

``source_file`` is kafka:<topic>/<partition>, ``source_line`` the offset. What stands beside the value goes along as
``message`` and, with a rejected record, into quarantine: a record that is put through again says the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.declare.stream import Source
from lakehouse.streams.sources.kafka import BrokerFailed, Consumer, client_options
from lakehouse.streams.sources.manifest import OffsetRange
from lakehouse.streams.sources.message_texts import MESSAGE, SCHEME
from lakehouse.streams.sources.numbered import LINE_SCHEMA

_TOMBSTONE = "tombstone: the message has no value"
_MESSAGE = "struct<key: binary, timestamp_ms: bigint, headers: array<struct<key: string, value: binary>>>"
# What is held in memory at once; a batch of more is halved first.
MOST_MESSAGES, MOST_BYTES = 1_000, 64 * 1024 * 1024
_SILENT_S = 60.0
_LINES = LINE_SCHEMA.append(pa.field("message", MESSAGE))


def read_messages(spark: SparkSession, ranges: Sequence[OffsetRange], source: Source) -> DataFrame:
    """Return the messages of some ranges as numbered lines, with ``message``.

    A range is read whole or the reading fails: messages that a broker has lost are never passed over.
    """
    wanted = [each for each in ranges if each.count]
    if not wanted:
        return spark.createDataFrame(_LINES.empty_table())
    messages = spark.read.format("kafka").options(**_options(spark, wanted, source)).load()
    return messages.select(
        F.concat(F.lit(SCHEME), "topic", F.lit("/"), F.col("partition").cast("string")).alias("source_file"),
        F.col("offset").alias("source_line"),
        F.lit(0).alias("layout"),
        F.col("value").alias("record"),
        F.when(F.col("value").isNull(), F.lit(_TOMBSTONE)).alias("fault"),
        _message().alias("message"),
    )


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
    ).cast(_MESSAGE)


_HEADERS = "array<struct<key: string, value: binary>>"


class TooMany(RuntimeError):
    """A batch has messages of times that Spark cannot hold, and more messages than are read one by one."""


def is_of_time(error: Exception) -> bool:
    """True if Spark's reader ended at a message whose milliseconds are beyond 64 bits of microseconds."""
    return "ArithmeticException: long overflow" in str(error)


def read_few(spark: SparkSession, ranges: Sequence[OffsetRange], source: Source) -> DataFrame:
    """Return what ``read_messages`` does of the same ranges, whatever times their messages have.

    Kafka's client reads them on the driver. Spark's reader makes microseconds of 64 bits of a message's milliseconds
    before anything else, and ends where they do not fit, whatever columns are asked for. Here the milliseconds stay, so
    that the declaration says what the message is worth. Cost: a message is a dozen calls of the JVM, half a
    millisecond.

    Raises:
        TooMany: when they are more than ``MOST_MESSAGES``, or several that hold more than ``MOST_BYTES``.
        BrokerFailed: when the broker gives nothing for a minute, refuses, or no longer has them.
    """
    if sum(each.count for each in ranges) > MOST_MESSAGES:
        raise TooMany("too many messages to be read one by one")
    found: list[dict[str, Any]] = []
    size = 0
    with Consumer(spark, source) as consumer:
        for each in ranges:
            for line in _lines_of(consumer, each):
                size += len(line["record"] or b"")
                found.append(line)
                if size > MOST_BYTES and len(found) > 1:
                    raise TooMany("too large messages to be read together")
    return spark.createDataFrame(pa.Table.from_pylist(found, schema=_LINES))


def _lines_of(consumer: Consumer, wanted: OffsetRange) -> Iterator[dict[str, Any]]:
    consumer.go_to(wanted.topic, wanted.partition, wanted.start)
    heard = time.monotonic()
    while (at := consumer.position()) < wanted.end:
        for record in consumer.poll():
            if record.offset() < wanted.end:
                yield _line(wanted, record)
        if consumer.position() > at:
            heard = time.monotonic()
        elif time.monotonic() - heard > _SILENT_S:
            raise BrokerFailed(f"{wanted}: nothing came for {_SILENT_S:.0f} s from offset {at} on")


def _line(wanted: OffsetRange, record: Any) -> dict[str, Any]:
    value, time_ms = record.value(), record.timestamp()
    headers = [{"key": each.key(), "value": each.value()} for each in record.headers().toArray()]
    return {
        "source_file": f"{SCHEME}{wanted.topic}/{wanted.partition}",
        "source_line": record.offset(),
        "layout": 0,
        "record": value,
        "fault": _TOMBSTONE if value is None else None,
        "message": {
            "key": record.key(),
            "timestamp_ms": time_ms if time_ms >= 0 else None,
            # As Spark tells it: a message without headers has none, not an empty list.
            "headers": headers or None,
        },
    }
