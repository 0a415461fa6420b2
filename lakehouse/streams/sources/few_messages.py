"""Messages whose own time Spark cannot hold, read by Kafka's client on the driver and given on as numbered lines.

Spark's reader makes microseconds of 64 bits of a message's milliseconds before anything else, and ends where they do
not fit, whatever columns are asked for. Here the milliseconds stay, so that the declaration says what the message is
worth. One message is a dozen calls of the JVM, half a millisecond: this is for few of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lakehouse.declare.stream import Source
from lakehouse.streams.sources.kafka import BrokerFailed, Consumer
from lakehouse.streams.sources.manifest import OffsetRange
from lakehouse.streams.sources.messages import SCHEME, TOMBSTONE
from lakehouse.streams.sources.numbered import NumberedLines

# What is held in memory at once; a batch of more is halved first.
MOST_MESSAGES, MOST_BYTES = 1_000, 64 * 1024 * 1024
_SILENT_S = 60.0
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_MESSAGE = pa.struct([("key", pa.binary()), ("timestamp_ms", pa.int64()), ("headers", pa.list_(_HEADER))])
_LINES = pa.schema(
    [
        ("source_file", pa.string()),
        ("source_line", pa.int64()),
        ("layout", pa.int32()),
        ("record", pa.binary()),
        ("fault", pa.string()),
        ("message", _MESSAGE),
    ]
)


class TooMany(RuntimeError):
    """A batch has messages of times that Spark cannot hold, and more messages than are read one by one."""


def is_of_time(error: Exception) -> bool:
    """Whether Spark's reader ended at a message whose milliseconds are beyond 64 bits of microseconds."""
    return "ArithmeticException: long overflow" in str(error)


def read_few(spark: SparkSession, ranges: Sequence[OffsetRange], source: Source) -> NumberedLines:
    """Return what ``read_messages`` does of the same ranges, whatever times their messages have.

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
    frame = spark.createDataFrame(pa.Table.from_pylist(found, schema=_LINES))
    return NumberedLines(frame, (source.fields or None,))


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
        "fault": TOMBSTONE if value is None else None,
        "message": {
            "key": record.key(),
            "timestamp_ms": time_ms if time_ms >= 0 else None,
            # As Spark tells it: a message without headers has none, not an empty list.
            "headers": headers or None,
        },
    }
