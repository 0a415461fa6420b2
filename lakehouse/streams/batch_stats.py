"""Batch statistics: the counts, times and lateness of a batch that its ledger row holds.

They are of what was read. A manifest fixes which files are read, not what is in them. Where a process died between raw
and ledger, and a file was cut, replaced or removed before the batch was read again, what was read is not what is
stored. ``as_held`` counts what is stored, and makes the index of identities of that: rows that the index lacked would
be accepted twice when they come again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure_arrived, measure_files
from lakehouse.declare.stream import Stream
from lakehouse.home.table_files import source
from lakehouse.home.table_log import files_between, read_columns, read_parts
from lakehouse.streams.batch_records import BatchRecords
from lakehouse.streams.duplicates import index_stored
from lakehouse.streams.part_counts import AcceptedCounts, Clocks, Counting, RecordCounts

log = logging.getLogger(__name__)
_PIECE = 1_000_000


@dataclass(frozen=True)
class BatchStats:
    """Counts of a batch's rows; times and missing values, by declared column, are those of accepted rows.

    ``reached``: as ``Reach`` says. ``clocks``: the earliest and the latest time of day of accepted rows, in
    microseconds after midnight.
    """

    rows: int
    records: int
    accepted: int
    duplicates: int
    reasons: dict[str, int]
    missing: dict[str, int]
    low: int | None
    high: int | None
    reached: int | None
    lateness: Lateness
    clocks: Clocks = None

    @staticmethod
    def of(stream: Stream, read: RecordCounts, accepted: AcceptedCounts, duplicates: int = 0) -> BatchStats:
        """Return the statistics that counts of a batch's parts come to."""
        return BatchStats(
            *(read.rows, read.records, accepted.accepted, duplicates + read.read_before, read.reasons),
            missing=dict.fromkeys(stream.all_columns, 0) | accepted.missing,
            low=accepted.low,
            high=accepted.high,
            reached=accepted.reached_us(stream.step_us),
            lateness=accepted.lateness,
            clocks=accepted.clocks,
        )

    @property
    def is_balanced(self) -> bool:
        """True if every row is accounted for: one that was read twice may have been another by then."""
        return self.rows == self.accepted + sum(self.reasons.values()) + self.duplicates


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    return BatchStats.of(stream, RecordCounts(), AcceptedCounts())


def as_held(records: BatchRecords, read: BatchStats) -> BatchStats:
    """Return the statistics of a batch by its tables where they are not those of what was ``read`` of it last.

    Duplicates are those read last. Where a record is several rows, their number is an estimate. Cost: the batch's
    columns are read from raw, a file at a time.
    """
    target, batch = records.tables, records.manifest.batch
    name, between = target.stream.name, ("batch", batch, batch)
    if target.stream.identity:
        index_stored(target, batch, batch)
    reasons = dict(
        Counter(reason for (reason,) in read_columns(target.layout.quarantine(name), ("reason",), between))
    )
    held = BatchStats.of(target.stream, RecordCounts(reasons=reasons), _of_raw(records), read.duplicates)
    counted = ("accepted", "missing", "low", "high", "reached", "clocks")
    is_same = all(getattr(held, each) == getattr(read, each) for each in counted)
    if is_same and reasons == dict(+Counter(read.reasons)) and read.is_balanced:
        return read
    log.warning(
        "stream %s, batch %d: its source is not what it was when it was read first; the ledger counts what raw and "
        "quarantine hold",
        *(name, batch),
    )
    rows = held.accepted + sum(reasons.values()) + read.duplicates
    return replace(held, rows=rows, records=max(0, read.records + rows - read.rows))


def _of_raw(records: BatchRecords) -> AcceptedCounts:
    target, batch = records.tables, records.manifest.batch
    stream, between = target.stream, ("batch", batch, batch)
    columns = ("event_us", "arrival_us", "source_file", *stream.all_columns)
    counting = Counting(stream, records.before.newest_us)
    for rows in read_parts(target.layout.raw(stream.name), columns, between):
        counting.add(rows)
    if not is_by_arrival(records):
        return counting.total
    files = files_between(target.layout.raw(stream.name), between)
    return replace(counting.total, lateness=written_lateness(records, files))


def is_by_arrival(records: BatchRecords) -> bool:
    """True if rows of a batch are late against others that tasks read elsewhere."""
    return records.manifest.kind == "kafka" or records.stream.arrival_time is not None


def written_lateness(records: BatchRecords, files: Iterable[Path]) -> Lateness:
    """Return the lateness of a batch by the files of raw that it wrote, in order.

    Rows are late against those that arrived before them, in whichever file or partition. Cost: two columns are read,
    and 16 bytes a row are held and sorted; a batch has at most ``batch_bytes`` or ``batch_rows``.
    """
    newest_us, pieces = records.before.newest_us, _written(files)
    if records.stream.arrival_time is not None:
        held = list(pieces)
        nothing = replace(NOTHING_LATE, newest_us=newest_us)
        return _lateness_of(pa.concat_tables(held), newest_us, {}) if held else nothing
    lateness, reached_us = replace(NOTHING_LATE, newest_us=newest_us), dict[Hashable, int]()
    for piece in pieces:
        lateness = lateness + _lateness_of(piece, newest_us, reached_us)
    return lateness


def _lateness_of(rows: pa.Table, newest_before_us: int | None, reached_us: dict[Hashable, int]) -> Lateness:
    if rows["arrival_us"].null_count == rows.num_rows:
        return _of_files(rows, newest_before_us, reached_us)
    has_arrival = rows["arrival_us"].is_valid()
    arrived = rows.filter(has_arrival)
    late = measure_arrived(arrived["event_us"].to_numpy(), arrived["arrival_us"].to_numpy(), newest_before_us)
    return late + _of_files(rows.filter(pc.invert(has_arrival)), newest_before_us, reached_us)


def _of_files(rows: pa.Table, newest_before_us: int | None, reached_us: dict[Hashable, int]) -> Lateness:
    return measure_files(rows["event_us"].to_numpy(), rows["file"].to_numpy(), newest_before_us, reached_us)


def _written(files: Iterable[Path]) -> Iterator[pa.Table]:
    numbers = dict[str, int]()
    columns = ["event_us", "arrival_us", "source_file"]
    for file in files:
        with pq.ParquetFile(source(file), read_dictionary=["source_file"]) as content:
            for batch in content.iter_batches(_PIECE, columns=columns):
                paths = batch.column("source_file")
                of_path = [numbers.setdefault(path, len(numbers)) for path in paths.dictionary.to_pylist()]
                file_numbers = np.array(of_path, np.int32)[paths.indices.to_numpy()]
                yield pa.table([batch["event_us"], batch["arrival_us"], file_numbers], [*columns[:2], "file"])
