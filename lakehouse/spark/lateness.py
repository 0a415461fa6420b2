"""Lateness of a batch's rows in processing order: file by file in path order, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure

_PIECE = 1_000_000
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
