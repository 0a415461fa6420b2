"""Messages of a topic as numbered lines.

``source_file`` is kafka:<topic>/<partition>, ``source_line`` the offset. What stands beside the value goes along as
``message`` and, with a rejected record, into quarantine: a record that is put through again says the same.

Where rows are compared, the bytes of accepted messages are kept beside the parts of raw until they were: a broker may
no longer have a message that turns out to be a conflict.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Source
from lakehouse.ingest.parser.message_texts import MESSAGE, SCHEME
from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.kafka import BrokerFailed, consumer_of, place_of
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.sources.numbered import LINE_SCHEMA

_TOMBSTONE = "tombstone: the message has no value"
# What is held in memory at once: so many messages, or fewer that have about so many bytes.
_MOST_MESSAGES, _MOST_BYTES = 10_000, 64 * 1024 * 1024
_FIRST_MESSAGES = 64
_SILENT_S = 60.0
_LINES = LINE_SCHEMA.append(pa.field("message", MESSAGE))
# A message is taken to have so many bytes.
_MESSAGE_BYTES = 200
# A task reads at most so many messages.
_ITEM_MESSAGES = 250_000
_ITEMS = pa.schema(
    [
        *((name, pa.int64()) for name in ("item", "partition", "start", "end")),
        *((name, pa.string()) for name in ("topic", "topic_id")),
    ]
)


def read_range(wanted: OffsetRange, source: Source) -> Iterator[pa.Table]:
    """Yield the messages of a range as numbered lines, with ``message``, in order.

    A range is read whole or the reading fails: messages that a broker has lost are never passed over. Memory: some ten
    thousand messages, or 64 MB and a message. Raises BrokerFailed when the broker gives nothing for a minute,
    refuses, or no longer has them.
    """
    with consumer_of(source) as client:
        client.assign([place_of(wanted.topic, wanted.partition, wanted.start)])
        at, most, heard = wanted.start, _FIRST_MESSAGES, time.monotonic()
        while at < wanted.end:
            found = client.consume(most, 1.0)
            if found:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENT_S:
                raise BrokerFailed(f"{wanted}: nothing came for {_SILENT_S:.0f} s from offset {at} on")
            messages = [each for each in found if not _is_end(each)]
            # The end of a partition has the offset behind its last message, markers of transactions included.
            at = max((each.offset() + (not each.error()) for each in found), default=at)
            own = [each for each in messages if each.offset() < wanted.end]
            if own:
                yield _lines(wanted, own)
                size = sum(len(each) for each in own) // len(own) + 1
                most = max(1, min(_MOST_MESSAGES, _MOST_BYTES // size))


def _is_end(message: Any) -> bool:
    """Return whether the client says that it is at the end of a partition, not a message.

    Raises KafkaException where it says that it cannot read on.
    """
    from confluent_kafka import KafkaError, KafkaException

    error = message.error()
    if error is None:
        return False
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True


def _lines(wanted: OffsetRange, messages: Sequence[Any]) -> pa.Table:
    count = len(messages)
    records = pa.array([each.value() for each in messages], pa.binary())
    beside = [
        pa.array([each.key() for each in messages], pa.binary()),
        pa.array([_time_ms(each) for each in messages], pa.int64()),
        pa.array([_headers(each) for each in messages], MESSAGE.field("headers").type),
    ]
    columns = [
        pa.repeat(f"{SCHEME}{wanted.topic}/{wanted.partition}", count),
        pa.array([each.offset() for each in messages], pa.int64()),
        pa.repeat(pa.scalar(0, pa.int32()), count),
        records,
        pc.if_else(records.is_null(), pa.scalar(_TOMBSTONE), pa.scalar(None, pa.string())),
        pa.StructArray.from_arrays(beside, fields=list(MESSAGE)),
    ]
    return pa.table(columns, schema=_LINES)


def _time_ms(message: Any) -> int | None:
    # A message without a time of its own comes with -1.
    kind, time_ms = message.timestamp()
    return time_ms if kind and time_ms >= 0 else None


def _headers(message: Any) -> list[dict[str, Any]] | None:
    """Return the headers of a message; one without has none, not an empty list."""
    found = message.headers()
    return [{"key": key, "value": value} for key, value in found] if found else None


@dataclass(frozen=True)
class MessageRecords:
    """Messages of some ranges."""

    parser: Parser
    ranges: Sequence[OffsetRange]

    def items(self, cores: int) -> pa.Table:
        """Return the work of tasks: ranges, of which long ones are divided for so many cores."""
        most = min(_ITEM_MESSAGES, -(-sum(each.count for each in self.ranges) // cores) or 1)
        parts = [
            {**asdict(each), "start": start, "end": min(start + most, each.end)}
            for each in self.ranges
            for start in range(each.start, each.end, most)
        ]
        return pa.Table.from_pylist([{"item": number, **part} for number, part in enumerate(parts)], _ITEMS)

    @property
    def bytes(self) -> int:
        """About how many bytes of messages there are."""
        return sum(each.count for each in self.ranges) * _MESSAGE_BYTES

    def parsed(self, item: dict[str, Any]) -> Iterator[pa.Table]:
        """Yield the rows of an item's messages, as the parser has them, in order."""
        wanted = OffsetRange(*(item[name] for name in ("topic", "partition", "start", "end", "topic_id")))
        for messages in read_range(wanted, self.parser.stream.source):
            yield self.parser.parse(messages)

    def again(self, item: dict[str, Any], path: str, lines: pa.Array) -> Iterator[pa.Table]:
        """Yield nothing: conflicts among messages are those that were kept."""
        del item, path, lines
        return iter(())
