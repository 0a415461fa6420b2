"""The order in which rows of a batch are processed, and their lateness in it.

Rows of files: file by file in path order, line by line. Rows of topics: by arrival time, then topic, partition and
offset, whichever partition they came in; those without an arrival time first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehouse.algorithms.ingest.lateness import NOTHING_LATE, Lateness, measure
from lakehouse.home.table_files import source
from lakehouse.streams.batch_records import ORIGIN, BatchRecords

Key = npt.NDArray[Any]
_PIECE = 1_000_000
# What it takes to put rows in order.
PLACES = ("arrival_us", *ORIGIN)


def processing_order(rows: pa.Table, by_arrival: bool, *first: Key) -> npt.NDArray[np.intp]:
    """Return the places of rows in processing order; keys that come ``first`` outrank it, the last of them most."""
    places = rows["source_item"].to_numpy(), rows["source_line"].to_numpy(), _ranks(rows["source_file"])
    keys = (*places, *([_arrivals(rows["arrival_us"])] if by_arrival else []), *first)
    return np.arange(rows.num_rows) if _is_in_order(keys) else np.lexsort(keys)


def _is_in_order(keys: Sequence[Key]) -> bool:
    """Whether rows stand in order of these keys, of which the last counts most: nearly always, as files are read."""
    is_before = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
    is_same = ~is_before
    for key in reversed(keys):
        is_before |= is_same & np.less(key[:-1], key[1:])
        is_same &= np.equal(key[:-1], key[1:])
    return bool(np.all(is_before | is_same))


def _arrivals(times: pa.ChunkedArray) -> Key:
    return np.asarray(pc.fill_null(times, np.iinfo(np.int64).min).to_numpy())


def _ranks(paths: pa.ChunkedArray) -> Key:
    """Return for each text how many distinct ones sort before it; paths are many times fewer than rows."""
    found = paths.combine_chunks()
    if not pa.types.is_dictionary(found.type):
        found = found.dictionary_encode()
    rank = np.argsort(np.argsort(np.array(found.dictionary.to_pylist(), dtype=object)))
    return np.asarray(rank[found.indices.to_numpy()])


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
