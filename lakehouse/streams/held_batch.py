"""What the tables hold of a batch, should its source have changed since some of it was appended.

A manifest fixes which files are read, not what is in them. Where a process died between raw and ledger, and a file was
cut, replaced or removed before the batch was read again, what was read is not what is stored. Nor is it where rows are
written as they are read, and the file is another when it is read once more for what is rejected. The ledger counts
what is stored, and the index of identities is made of that: rows that it lacked would be accepted twice when they come
again.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.declare.stream import Stream
from lakehouse.home.table_log import files_between, read_columns, read_parts
from lakehouse.streams.batch_records import BatchRecords
from lakehouse.streams.batch_stats import BatchStats, empty_stats, missing_in
from lakehouse.streams.identities import index_stored
from lakehouse.streams.lateness import written_lateness

log = logging.getLogger(__name__)


def as_held(records: BatchRecords, read: BatchStats) -> BatchStats:
    """Return the statistics of a batch by its tables where they are not those of what was ``read`` of it last.

    Duplicates are those read last. Where a record is several rows, their number is an estimate. Cost: the batch's
    times and measures are read from raw, a file at a time.
    """
    target, batch = records.tables, records.manifest.batch
    name, between = target.stream.name, ("batch", batch, batch)
    if target.stream.identity:
        index_stored(target, batch, batch)
    held = _of_raw(records)
    said = read_columns(target.layout.quarantine(name), ("reason",), between)
    reasons = dict(Counter(reason for (reason,) in said))
    seen = replace(read, accepted=held.accepted, low=held.low, high=held.high, missing=held.missing)
    is_same = seen == read and reasons == {reason: count for reason, count in read.reasons.items() if count}
    if is_same and read.is_balanced:
        return read
    log.warning(
        "stream %s, batch %d: its source is not what it was when it was read first; the ledger counts what raw and "
        "quarantine hold",
        *(name, batch),
    )
    rows = held.accepted + sum(reasons.values()) + read.duplicates
    late = written_lateness(records, files_between(target.layout.raw(name), between))
    several = max(0, read.records + rows - read.rows)
    return replace(seen, rows=rows, records=several, reasons=reasons, lateness=late)


def _of_raw(records: BatchRecords) -> BatchStats:
    target, batch = records.tables, records.manifest.batch
    stream, found = target.stream, empty_stats(target.stream)
    columns = ("event_us", *stream.measures)
    for rows in read_parts(target.layout.raw(stream.name), columns, ("batch", batch, batch)):
        times = pc.min_max(rows["event_us"]).as_py()
        found = replace(
            found,
            accepted=found.accepted + rows.num_rows,
            missing={m: count + _missing(stream, m, rows) for m, count in found.missing.items()},
            low=min((t for t in (found.low, times["min"]) if t is not None), default=None),
            high=max((t for t in (found.high, times["max"]) if t is not None), default=None),
        )
    return found


def _missing(stream: Stream, measure: str, rows: pa.Table) -> int:
    return int(pc.sum(missing_in(rows, stream, measure)).as_py() or 0)
