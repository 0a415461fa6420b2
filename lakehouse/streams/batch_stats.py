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
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.confirmed import Reach
from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure_arrived, measure_files
from lakehouse.declare.stream import Stream
from lakehouse.home.table_files import source
from lakehouse.home.table_log import files_between, read_columns, read_parts
from lakehouse.streams.batch_records import BatchRecords
from lakehouse.streams.duplicates import index_stored
from lakehouse.streams.sources.verdicts import DAY_US

log = logging.getLogger(__name__)
_PIECE = 1_000_000
Clocks = tuple[int, int] | None


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

    @property
    def is_balanced(self) -> bool:
        """Whether every row is accounted for: one that was read twice may have been another by then."""
        return self.rows == self.accepted + sum(self.reasons.values()) + self.duplicates


def empty_stats(stream: Stream) -> BatchStats:
    """Return the statistics of a batch without rows."""
    missing = dict.fromkeys(stream.all_columns, 0)
    return BatchStats(0, 0, 0, 0, {}, missing, None, None, None, NOTHING_LATE)


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
    stream: Stream, found: Mapping[str, Any], reasons: dict[str, int], written: list[Path], lateness: Lateness
) -> BatchStats:
    """Return the statistics of a batch from what was observed of ``observed_columns``, and the files of raw written.

    It has no duplicates.
    """
    return BatchStats(
        *(found["rows"], found["records"], found["accepted"], 0, reasons),
        missing={name: found[f"missing_{name}"] for name in stream.all_columns},
        low=found["low"],
        high=found["high"],
        reached=_reached_in(written, stream),
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
        reached=Reach(stream.step_us).add(accepted["event_us"].to_numpy()).newest_us,
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
    times = replace(read, low=held.low, high=held.high, reached=held.reached, clocks=held.clocks)
    seen = replace(times, accepted=held.accepted, missing=held.missing)
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
    columns, reach = ("event_us", *stream.all_columns), Reach(stream.step_us)
    for rows in read_parts(target.layout.raw(stream.name), columns, ("batch", batch, batch)):
        times = pc.min_max(rows["event_us"]).as_py()
        reach.add(rows["event_us"].to_numpy())
        clocks = [each for each in (found.clocks, clocks_of(rows["event_us"])) if each]
        found = replace(
            found,
            accepted=found.accepted + rows.num_rows,
            missing={name: count + _missing(stream, name, rows) for name, count in found.missing.items()},
            low=min((t for t in (found.low, times["min"]) if t is not None), default=None),
            high=max((t for t in (found.high, times["max"]) if t is not None), default=None),
            clocks=(min(low for low, _ in clocks), max(high for _, high in clocks)) if clocks else None,
        )
    return replace(found, reached=reach.newest_us)


def _reached_in(files: list[Path], stream: Stream) -> int | None:
    """Return what the rows in written files have reached; one column is read, a piece at a time."""
    reach = Reach(stream.step_us)
    for file in files:
        for batch in pq.ParquetFile(source(file)).iter_batches(_PIECE, columns=["event_us"]):
            reach.add(batch.column(0).to_numpy())
    return reach.newest_us


def _missing(stream: Stream, column: str, rows: pa.Table) -> int:
    return int(pc.sum(missing_in(rows, stream, column)).as_py() or 0)


def lateness_of(rows: pa.Table, newest_before_us: int | None) -> Lateness:
    """Return the lateness of a batch's accepted rows: ``event_us``, ``file``, and ``arrival_us`` where it is declared.

    ``file`` is a number that tells their files apart; rows of one file stand in order.
    """
    return _lateness_of(rows, newest_before_us, {})


def _lateness_of(rows: pa.Table, newest_before_us: int | None, reached_us: dict[Hashable, int]) -> Lateness:
    if "arrival_us" not in rows.column_names or rows["arrival_us"].null_count == rows.num_rows:
        return _of_files(rows, newest_before_us, reached_us)
    has_arrival = rows["arrival_us"].is_valid()
    arrived = rows.filter(has_arrival)
    found = measure_arrived(
        arrived["event_us"].to_numpy(), arrived["arrival_us"].to_numpy(), newest_before_us
    )
    return found + _of_files(rows.filter(pc.invert(has_arrival)), newest_before_us, reached_us)


def _of_files(rows: pa.Table, newest_before_us: int | None, reached_us: dict[Hashable, int]) -> Lateness:
    return measure_files(rows["event_us"].to_numpy(), rows["file"].to_numpy(), newest_before_us, reached_us)


def written_lateness(records: BatchRecords, files: list[Path]) -> Lateness:
    """Return the lateness of a batch's rows in the files of raw that were written of it, in order inside each file.

    Read in this process: starting a Spark job would take longer. Rows without an arrival time are read a piece at a
    time; others are held and sorted, 20 bytes a row.
    """
    newest_us, pieces = records.before.newest_us, _written(sorted(files))
    if records.stream.arrival_time is not None:
        held = list(pieces)
        return (
            lateness_of(pa.concat_tables(held), newest_us)
            if held
            else replace(NOTHING_LATE, newest_us=newest_us)
        )
    found, reached_us = replace(NOTHING_LATE, newest_us=newest_us), dict[Hashable, int]()
    for piece in pieces:
        found = found + _lateness_of(piece, newest_us, reached_us)
    return found


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
