"""Batch statistics: the counts, times and lateness of a batch that its ledger row holds.

They are of what was read. A manifest fixes which files are read, not what is in them. Where a process died between raw
and ledger, and a file was cut, replaced or removed before the batch was read again, what was read is not what is
stored. Nor is it where rows are written as they are read, and the file is another when it is read once more for what is
rejected. ``as_held`` counts what is stored, and makes the index of identities of that: rows that the index lacked would
be accepted twice when they come again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure
from lakehouse.declare.stream import Stream
from lakehouse.home.table_files import source
from lakehouse.home.table_log import files_between, read_columns, read_parts
from lakehouse.streams.batch_records import PLACES, BatchRecords, processing_order
from lakehouse.streams.duplicates import index_stored
from lakehouse.streams.sources.verdicts import DAY_US

log = logging.getLogger(__name__)
_PIECE = 1_000_000
Clocks = tuple[int, int] | None


@dataclass(frozen=True)
class BatchStats:
    """Counts of a batch's rows; times and missing values, by declared column, are those of accepted rows.

    ``clocks``: the earliest and the latest time of day of accepted rows, in microseconds after midnight.
    """

    rows: int
    records: int
    accepted: int
    duplicates: int
    reasons: dict[str, int]
    missing: dict[str, int]
    low: int | None
    high: int | None
    lateness: Lateness
    clocks: Clocks = None

    @property
    def is_balanced(self) -> bool:
        """Whether every row is accounted for: one that was read twice may have been another by then."""
        return self.rows == self.accepted + sum(self.reasons.values()) + self.duplicates


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    return BatchStats(0, 0, 0, 0, {}, dict.fromkeys(stream.all_columns, 0), None, None, NOTHING_LATE)


def observed_columns(stream: Stream, good: Column) -> list[Column]:
    """Return aggregates of a batch's rows: all, records, then of good ones how many, their times, missing values."""
    missing = [F.count_if(good & is_missing(stream, c)).alias(f"missing_{c}") for c in stream.all_columns]
    time = F.when(good, F.col("event_us"))
    clock = F.pmod(time, F.lit(DAY_US))
    return [
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("source_item") == 0).alias("records"),
        F.count_if(good).alias("accepted"),
        F.min(time).alias("low"),
        F.max(time).alias("high"),
        F.min(clock).alias("first_clock"),
        F.max(clock).alias("last_clock"),
        *missing,
    ]


def is_missing(stream: Stream, column: str) -> Column:
    """Whether a row has no usable value of a column."""
    value = F.col(column)
    return value.isNull() | (value < 0) if column in stream.counters else value.isNull()


def missing_in(rows: pa.Table, stream: Stream, column: str) -> pa.ChunkedArray:
    """Return the same of rows in Arrow, a truth value each."""
    missing = rows[column].is_null()
    if column in stream.counters:
        missing = pc.or_(missing, pc.fill_null(pc.less(rows[column], 0), False))
    return missing


def clocks_of(times: pa.ChunkedArray) -> Clocks:
    """Return the earliest and the latest time of day of event times, None where there are none."""
    ends = pc.min_max(pa.array(times.to_numpy() % DAY_US)).as_py()
    return None if ends["min"] is None else (ends["min"], ends["max"])


def observed_stats(
    stream: Stream, found: Mapping[str, Any], reasons: dict[str, int], lateness: Lateness
) -> BatchStats:
    """Return the statistics of a batch from what was observed of ``observed_columns``; it has no duplicates."""
    return BatchStats(
        *(found["rows"], found["records"], found["accepted"], 0, reasons),
        missing={name: found[f"missing_{name}"] for name in stream.all_columns},
        low=found["low"],
        high=found["high"],
        lateness=lateness,
        clocks=None if found["low"] is None else (found["first_clock"], found["last_clock"]),
    )


def counted_stats(
    stream: Stream, rows: pa.Table, accepted: pa.Table, repeats: Mapping[str, int], lateness: Lateness
) -> BatchStats:
    """Return the statistics of a batch from its ``rows``, which have a reason where they are rejected, and repeats.

    ``accepted`` are those of its rows that go to raw, with a truth value ``missing_<column>`` each.
    """
    counts = rows["reason"].drop_null().value_counts().to_pylist()
    reasons = {each["values"]: each["counts"] for each in counts}
    if repeats.get("conflict"):
        reasons["conflict"] = repeats["conflict"]
    times = pc.min_max(accepted["event_us"]).as_py()
    return BatchStats(
        rows=rows.num_rows,
        records=pc.sum(rows["is_record"]).as_py() or 0,
        accepted=accepted.num_rows,
        duplicates=repeats.get("duplicate", 0),
        reasons=reasons,
        missing={name: pc.sum(accepted[f"missing_{name}"]).as_py() or 0 for name in stream.all_columns},
        low=times["min"],
        high=times["max"],
        lateness=lateness,
        clocks=clocks_of(accepted["event_us"]),
    )


def as_held(records: BatchRecords, read: BatchStats) -> BatchStats:
    """Return the statistics of a batch by its tables where they are not those of what was ``read`` of it last.

    Duplicates are those read last. Where a record is several rows, their number is an estimate. Cost: the batch's
    columns are read from raw, a file at a time.
    """
    target, batch = records.tables, records.manifest.batch
    name, between = target.stream.name, ("batch", batch, batch)
    if target.stream.identity:
        index_stored(target, batch, batch)
    held = _of_raw(records)
    said = read_columns(target.layout.quarantine(name), ("reason",), between)
    reasons = dict(Counter(reason for (reason,) in said))
    seen = replace(read, accepted=held.accepted, low=held.low, high=held.high, missing=held.missing)
    seen = replace(seen, clocks=held.clocks)
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
    columns = ("event_us", *stream.all_columns)
    for rows in read_parts(target.layout.raw(stream.name), columns, ("batch", batch, batch)):
        times = pc.min_max(rows["event_us"]).as_py()
        clocks = [each for each in (found.clocks, clocks_of(rows["event_us"])) if each]
        found = replace(
            found,
            accepted=found.accepted + rows.num_rows,
            missing={name: count + _missing(stream, name, rows) for name, count in found.missing.items()},
            low=min((t for t in (found.low, times["min"]) if t is not None), default=None),
            high=max((t for t in (found.high, times["max"]) if t is not None), default=None),
            clocks=(min(low for low, _ in clocks), max(high for _, high in clocks)) if clocks else None,
        )
    return found


def _missing(stream: Stream, column: str, rows: pa.Table) -> int:
    return int(pc.sum(missing_in(rows, stream, column)).as_py() or 0)


def lateness_of(rows: pa.Table, newest_before_us: int | None, order: bool | None) -> Lateness:
    """Return the lateness of a batch's usable rows.

    ``order``: rows are put in order by arrival (True) or by place (False), or stand in order (None).
    """
    times = rows["event_us"].to_numpy()
    if order is not None:
        times = times[processing_order(rows, by_arrival=order)]
    return measure(times, newest_before_us)


def written_lateness(records: BatchRecords, files: list[Path]) -> Lateness:
    """Return the lateness of a batch's rows in the files of raw that were written of it."""
    # Tasks take landed files in path order, and each writes one file: in this order, rows are as processed.
    measured = _in_order if records.manifest.kind == "files" else _by_arrival
    return measured(files, records.before.newest_us)


def _in_order(files: list[Path], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows in written files, which, by name, hold them in processing order.

    One column is read here, a piece at a time: starting a Spark job would take longer than reading it.
    """
    found = replace(NOTHING_LATE, newest_us=newest_before_us)
    for file in sorted(files):
        for batch in pq.ParquetFile(source(file)).iter_batches(_PIECE, columns=["event_us"]):
            found = found + measure(batch.column(0).to_numpy(), found.newest_us)
    return found


def _by_arrival(files: list[Path], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows of messages in written files, by arrival.

    Read and sorted here: starting a Spark job would take longer. Cost: 30 bytes of memory a row.
    """
    names = [*PLACES, "event_us"]
    read = [pq.read_table(source(file), columns=names, read_dictionary=["source_file"]) for file in files]
    if not any(table.num_rows for table in read):
        return replace(NOTHING_LATE, newest_us=newest_before_us)
    return lateness_of(pa.concat_tables(read).unify_dictionaries(), newest_before_us, order=True)
