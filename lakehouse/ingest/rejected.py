"""Rejected records by reason, open and closed, each reason with examples of open ones, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.config.stream import Stream
from lakehouse.ingest.quarantine import NEVER_READ, open_batches, rejected_records
from lakehouse.ingest.sources.manifest_store import ManifestStore
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.tables.table_log import files_between, read_parts
from lakehouse.storage.tables.table_reads import named_columns, pieces_of

_MOST_REASONS = 3
# Of a record so many bytes are shown, and of a file's columns so many names, each up to a length.
_SHOWN = 200
_MOST_NAMES, _LONGEST_NAME = 12, 30
# Examples are looked for in so many records at a time.
_PIECE = 1_000
_EXAMPLE = ("batch", "reason", "source_file", "source_line", "detail", "record")


def rejected_examples(layout: Home, stream: Stream) -> list[str]:
    """Return a line for each of the most frequent open reasons: how many records, of how many, and one of them.

    Cost: two columns of the ledger, and the first parts of quarantine that have the reason.
    """
    reasons = [one for one in rejected_reasons(layout, stream, (), 1, _MOST_REASONS) if one["open"]]
    received = 0
    if reasons:
        finished = ("batch", 1, read_extent(layout, stream.name).batch)
        for rows in read_parts(layout.ledger(stream.name), ("received",), finished):
            received += pc.sum(rows["received"]).as_py() or 0
    return [f"{one['reason']} {one['open']:,} of {received:,}{_such_as(one['examples'])}" for one in reasons]


def _such_as(examples: Sequence[dict[str, Any]]) -> str:
    found = (
        f"line {one['source_line']} of {one['source_file']}: {one['detail']}{_has(one['file_has'])}"
        for one in examples
    )
    return "".join(f", such as {one}" for one in found)


def _has(names: Sequence[str]) -> str:
    """Return the columns of a file in words, as many as a line has room for.

    >>> _has(["time", "device"]), _has([])
    ('; the file has: time, device', '')
    """
    shown = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..." for name in names]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; the file has: {', '.join(shown[:_MOST_NAMES])}{more}" if names else ""


def rejected_reasons(
    layout: Home, stream: Stream, reasons: Sequence[str], limit: int, most: int | None = None
) -> list[dict[str, Any]]:
    """Return each reason with its records, ever rejected, open and closed, and examples; most open ones first.

    ``requeues``: whether a requeue takes them. Examples are of open records. Cost: the ledger's reasons, and parts of
    quarantine until there are enough examples.
    """
    rejected = rejected_records(layout, stream.name)
    ordered = sorted(rejected.items(), key=lambda each: (-each[1].open, each[0]))
    return [
        {
            "reason": reason,
            "rejected": found.records,
            "open": found.open,
            "closed": found.closed,
            "requeues": reason not in NEVER_READ,
            "examples": list(islice(_examples(layout, stream, reason), limit)) if found.open else [],
        }
        for reason, found in islice((one for one in ordered if not reasons or one[0] in reasons), most)
    ]


def _examples(layout: Home, stream: Stream, reason: str) -> Iterator[dict[str, Any]]:
    """Yield open records of a reason, oldest file of the table first; no more is read than is asked for."""
    batches, store = open_batches(layout, stream, reason), ManifestStore(layout.manifests(stream.name))
    columns = named_columns(layout.quarantine(stream.name), _EXAMPLE)
    files = files_between(layout.quarantine(stream.name), ("batch", min(batches), max(batches)))
    # A record may be as large as a batch: it is cut before it is a value of Python.
    for part in (rows for path in files for rows in pieces_of(path, columns, _PIECE)):
        is_open = pc.and_(
            pc.equal(part["reason"], reason), pc.is_in(part["batch"], pa.array(batches, pa.int64()))
        )
        for one in part.filter(is_open).to_batches():
            for row in range(one.num_rows):
                found = {name: one[name][row].as_py() for name in _EXAMPLE[2:5]}
                record, names = _escaped(one["record"][row]), _columns_of(store, found["source_file"])
                yield found | {"record": record, "file_has": names}


def _columns_of(store: ManifestStore, path: str | None) -> list[str]:
    """Return the names of a file's columns as far as a look at it showed them, escaped; none of a topic."""
    found = store.files_of([path]) if path else []
    names = (name for file in found[:1] for name in file.columns or file.fields or ())
    return ["".join(one if one.isprintable() else repr(one)[1:-1] for one in name) for name in names]


def _escaped(record: pa.Scalar[Any]) -> str | None:
    if not record.is_valid:
        return None
    start = bytes(record.as_buffer()[:_SHOWN])
    more = "..." if len(record.as_buffer()) > _SHOWN else ""
    # Written like bytes of Python, so that no byte of a record reaches a terminal as it is.
    return repr(start)[2:-1] + more
