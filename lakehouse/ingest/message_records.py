"""The messages of a topic, as tasks read them from the broker: a range of one partition's offsets each.

Where rows are compared, the bytes of accepted messages are kept beside the parts of raw until they were: a broker may
no longer have a message that turns out to be a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from lakehouse.ingest.parser.parser import Parser
from lakehouse.ingest.sources.manifest import OffsetRange
from lakehouse.ingest.sources.messages import read_range

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
