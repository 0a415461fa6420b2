"""The messages of a topic, as tasks get them from Spark's reader: a range of one partition's offsets each.

Where rows are compared, the bytes of accepted messages are kept beside the parts of raw until they were: a broker may
no longer have a message that turns out to be a conflict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse.streams.sources.parser import Parser

# A message is taken to have so many bytes.
_MESSAGE_BYTES = 200


@dataclass(frozen=True)
class MessageRecords:
    """Messages of a batch, as many as ``count``."""

    parser: Parser
    count: int

    @property
    def bytes(self) -> int:
        """About how many bytes of messages there are."""
        return self.count * _MESSAGE_BYTES

    def parsed(self, item: dict[str, Any]) -> Iterator[pa.Table]:
        """Yield the rows of an item's messages, as the parser has them, in order."""
        for messages in item["rows"]:
            if messages.num_rows:
                yield self.parser.parse(messages)

    def again(self, item: dict[str, Any], path: str, lines: pa.Array) -> Iterator[pa.Table]:
        """Yield nothing: conflicts among messages are those that were kept."""
        del item, path, lines
        return iter(())
