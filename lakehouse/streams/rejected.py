"""Open records of the quarantine by reason, each with examples, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.stream import Stream
from lakehouse.home.layout import Home
from lakehouse.home.ledger import read_extent
from lakehouse.home.table_log import read_parts
from lakehouse.streams.quarantine import NEVER_READ, open_batches, waiting_records

_MOST_REASONS = 3
# Of a record so many bytes are shown.
_SHOWN = 200
_EXAMPLE = ("batch", "reason", "source_file", "source_line", "detail", "record")


def rejected_examples(layout: Home, stream: Stream) -> list[str]:
    """Return a line for each of the most frequent reasons: how many records are open, of how many, and one of them.

    Cost: two columns of the ledger, and the first parts of quarantine that have the reason.
    """
    reasons = open_reasons(layout, stream, (), 1, _MOST_REASONS)
    received = 0
    if reasons:
        finished = ("batch", 1, read_extent(layout, stream.name).batch)
        for rows in read_parts(layout.ledger(stream.name), ("received",), finished):
            received += pc.sum(rows["received"]).as_py() or 0
    return [f"{one['reason']} {one['open']:,} of {received:,}{_such_as(one['examples'])}" for one in reasons]


def _such_as(examples: Sequence[dict[str, Any]]) -> str:
    found = (f"line {one['source_line']} of {one['source_file']}: {one['detail']}" for one in examples)
    return "".join(f", such as {one}" for one in found)


def open_reasons(
    layout: Home, stream: Stream, reasons: Sequence[str], limit: int, most: int | None = None
) -> list[dict[str, Any]]:
    """Return each reason with its open records, whether a requeue takes them, and examples; most frequent first.

    Cost: the ledger's reasons, and parts of quarantine until there are enough examples.
    """
    waiting = waiting_records(layout, stream)
    ordered = sorted(waiting.items(), key=lambda each: (-each[1], each[0]))
    return [
        {
            "reason": reason,
            "open": count,
            "requeues": reason not in NEVER_READ,
            "examples": list(islice(_examples(layout, stream, reason), limit)),
        }
        for reason, count in islice((one for one in ordered if not reasons or one[0] in reasons), most)
    ]


def _examples(layout: Home, stream: Stream, reason: str) -> Iterator[dict[str, Any]]:
    """Yield open records of a reason, oldest file of the table first."""
    batches = open_batches(layout, stream, reason)
    # A record may be as large as a batch: it is cut before it is a value of Python.
    for part in read_parts(layout.quarantine(stream.name), _EXAMPLE, ("batch", min(batches), max(batches))):
        is_open = pc.and_(
            pc.equal(part["reason"], reason), pc.is_in(part["batch"], pa.array(batches, pa.int64()))
        )
        for one in part.filter(is_open).to_batches():
            for row in range(one.num_rows):
                found = {name: one[name][row].as_py() for name in _EXAMPLE[2:5]}
                yield found | {"record": _escaped(one["record"][row])}


def _escaped(record: pa.Scalar[Any]) -> str | None:
    if not record.is_valid:
        return None
    start = bytes(record.as_buffer()[:_SHOWN])
    more = "..." if len(record.as_buffer()) > _SHOWN else ""
    # Written like bytes of Python, so that no byte of a record reaches a terminal as it is.
    return repr(start)[2:-1] + more
