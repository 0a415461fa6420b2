"""Lateness of a batch's rows in processing order (``processing_order.py``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure
from lakehouse.home.table_files import source
from lakehouse.streams.batch_records import ORIGIN, BatchRecords
from lakehouse.streams.processing_order import processing_order

_PIECE = 1_000_000
# What it takes to put rows in order.
PLACES = ("arrival_us", *ORIGIN)


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
