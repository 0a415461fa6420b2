"""Lateness of a batch's rows in processing order.

Rows of files: file by file in path order, line by line. Rows of topics: by arrival time, then topic, partition and
offset, whichever partition they came in; those without an arrival time first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure

_PIECE = 1_000_000
_ARRIVED = ("arrival_us", "source_file", "source_line", "source_item")
_PARTS = "late bigint, max_us bigint, bins array<bigint>"


def lateness_of(rows: DataFrame, newest_by_file: dict[str, int], newest_before_us: int | None) -> Lateness:
    """Return the lateness of the batch's usable rows, given the newest time of each file.

    ``rows`` keep each file whole, and in line order, inside one partition; files count in path order. One pass,
    which returns one row per partition.
    """
    if not newest_by_file:
        return NOTHING_LATE
    starts: dict[str, int | None] = {}
    running = newest_before_us
    for file, newest in sorted(newest_by_file.items()):
        starts[file] = running
        running = newest if running is None else max(running, newest)
    parts = rows.select("source_file", "event_us").mapInArrow(_measurer(starts), _PARTS).collect()
    return sum((Lateness(late, worst, tuple(bins), None) for late, worst, bins in parts), NOTHING_LATE)


def lateness_in_order(files: list[Path], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows in written files, which, by name, hold them in processing order.

    One column is read here, a piece at a time: starting a Spark job would take longer than reading it.
    """
    found = replace(NOTHING_LATE, newest_us=newest_before_us)
    for file in sorted(files):
        for batch in pq.ParquetFile(file).iter_batches(_PIECE, columns=["event_us"]):
            found = found + measure(batch.column(0).to_numpy(), found.newest_us)
    return found


def lateness_by_arrival(rows: DataFrame, newest_before_us: int | None) -> Lateness:
    """Return the lateness of the usable rows of a batch of messages. One sort, in one partition."""
    in_one = rows.select(*_ARRIVED, "event_us").repartition(1).sortWithinPartitions(*_in_order())
    as_one_file = in_one.select(F.lit("").alias("source_file"), "event_us")
    return lateness_of(as_one_file, {"": 0}, newest_before_us)


def written_lateness_by_arrival(files: list[Path], newest_before_us: int | None) -> Lateness:
    """Return the lateness of rows of messages in written files, as ``lateness_by_arrival`` does.

    Read and sorted here: starting a Spark job would take longer. Cost: 30 bytes of memory a row.
    """
    if not files:
        return replace(NOTHING_LATE, newest_us=newest_before_us)
    names = [*_ARRIVED, "event_us"]
    read = (pq.read_table(file, columns=names, read_dictionary=["source_file"]) for file in files)
    table = pa.concat_tables(read).unify_dictionaries().combine_chunks()
    if not table.num_rows:
        return replace(NOTHING_LATE, newest_us=newest_before_us)
    files_of_rows = table["source_file"].chunk(0)
    rank = np.argsort(np.argsort(np.array(files_of_rows.dictionary.to_pylist(), dtype=object)))
    arrived = pc.fill_null(table["arrival_us"], np.iinfo(np.int64).min).to_numpy()
    places = rank[files_of_rows.indices.to_numpy()]
    order = np.lexsort((table["source_item"].to_numpy(), table["source_line"].to_numpy(), places, arrived))
    return measure(table["event_us"].to_numpy()[order], newest_before_us)


def _in_order() -> list[Column]:
    return [F.col("arrival_us").asc_nulls_first(), *(F.col(name) for name in _ARRIVED[1:])]


def _measurer(
    starts: dict[str, int | None],
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def measure_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        running = dict(starts)
        total = NOTHING_LATE
        for batch in batches:
            for file, times in _by_file(batch):
                found = measure(times, running[file])
                running[file] = found.newest_us
                total = total + found
        columns = [[total.late], [total.max_us], [list(total.bins)]]
        arrays = [pa.array(c, t) for c, t in zip(columns, _TYPES, strict=True)]
        yield pa.record_batch(arrays, ["late", "max_us", "bins"])

    return measure_batches


_TYPES = (pa.int64(), pa.int64(), pa.list_(pa.int64()))


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """Cut a batch where the file changes; the cuts are few, so Python may walk them."""
    if not batch.num_rows:
        return
    codes = batch.column(0).dictionary_encode()
    places = codes.indices.to_numpy(zero_copy_only=False)
    cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(places)]
    times = pc.cast(batch.column(1), pa.int64()).to_numpy(zero_copy_only=False)
    for low, high in pairwise(cuts):
        if low < high:
            yield codes.dictionary[int(places[low])].as_py(), times[low:high]
