"""Parts of a stream's profile: what accepted rows add to each column of each day, made where the rows are written.

    a task      rows of a part of raw, by day -> one row for each day and column, written to the table's folder
    the driver  late rows and rejected records by day, committed with the tasks' parts once for a batch
    maintain    rows of the same day and column -> one, month by month

Cost of a part: a few passes over each column, and a row for each of its days and columns. Which rows are in which part
changes no figure but the frequent values, which stay within their error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import Bins, hashes_of
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, sink_of
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.profiles import DAY_BINS, DAY_US, MINUTES, NO_DAY, ROWS, ColumnProfile, as_table
from lakehouse.storage.tables.table_log import FileFacts, file_facts, newest_version
from lakehouse.storage.tables.table_maintenance import SMALL_FILES
from lakehouse.storage.tables.table_reads import pieces_of

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream

# Bits of a value that bins lack from the start: four digits are left.
_SHIFT = 40
_MINUTE_US = DAY_US // MINUTES
# Days whose rows maintain puts into one file.
_FOLDED_DAYS = 28
_BLOCK_US = _FOLDED_DAYS * DAY_US
Integers = npt.NDArray[np.int64]


def profiled(rows: pa.Table, stream: Stream) -> Iterator[pa.Table]:
    """Yield what accepted rows add to each column of each of their days, and to the days themselves."""
    times = rows["event_us"].to_numpy()
    days = times // DAY_US
    if np.any(days[1:] < days[:-1]):
        order = np.argsort(days, kind="stable")
        rows, times, days = rows.take(pa.array(order)), times[order], days[order]
    starts = np.flatnonzero(np.diff(days, prepend=NO_DAY - 1)) if len(days) else np.empty(0, np.int64)
    ends = np.append(starts, len(days))
    day_us = days[starts] * DAY_US
    yield _of_days(times, day_us, ends)
    for name in stream.all_columns:
        yield _of_column(rows[name].combine_chunks(), name, stream, day_us, ends)


def _of_days(times: Integers, day_us: Integers, ends: Integers) -> pa.Table:
    """Return the rows of days, whose bins are minutes with rows."""
    run = np.repeat(np.arange(len(day_us)), np.diff(ends))
    minute = (times - day_us[run]) // _MINUTE_US
    each = run * MINUTES + minute
    # Rows of one minute mostly stand together: only their runs are sorted.
    begins = np.flatnonzero(np.diff(each, prepend=-1))
    keys, place = np.unique(each[begins], return_inverse=True)
    weights = np.bincount(place, np.diff(begins, append=len(each)), len(keys)).astype(np.int64)
    bounds = np.searchsorted(keys, np.arange(len(ends)) * MINUTES)
    columns = {"bins": _lists(keys % MINUTES, bounds), "weights": _lists(weights, bounds)}
    return _table(ROWS, day_us, np.diff(ends), columns)


def _of_column(values: pa.Array, name: str, stream: Stream, day_us: Integers, ends: Integers) -> pa.Table:
    """Return what the values of one column add to each day."""
    if name in stream.counters:
        values = pc.if_else(pc.less(values, 0), pa.scalar(None, values.type), values)
    rows, within = np.diff(ends), ends
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        within = np.append(0, np.cumsum(is_valid))[ends]
        values = values.drop_null()
    columns: dict[str, Any] = {"missing": rows - np.diff(within)}
    if pa.types.is_string(values.type):
        codes = values.dictionary_encode()
        indices = codes.indices.to_numpy()
        if name in stream.keys:
            columns |= _frequent(indices, codes.dictionary.to_pylist(), within)
        words = xxhash64([codes.dictionary], len(codes.dictionary))[indices] if len(indices) else indices
    else:
        numbers = values.cast(pa.float64(), safe=False).to_numpy()
        columns |= _of_numbers(numbers, within)
        is_whole = pa.types.is_integer(values.type)
        words = values.cast(pa.int64()).to_numpy() if is_whole else (numbers + 0.0).view(np.int64)
        if name in stream.keys:
            codes = values.cast(pa.string()).dictionary_encode()
            columns |= _frequent(codes.indices.to_numpy(), codes.dictionary.to_pylist(), within)
    hashes, written = hashes_of(words.astype(np.int64, copy=False), within)
    return _table(name, day_us, rows, columns | {"hashes": _lists(hashes, np.append(0, written))})


def _of_numbers(numbers: npt.NDArray[np.float64], ends: Integers) -> Mapping[str, Any]:
    counts = np.diff(ends)
    bins = Bins.of(numbers, ends, _SHIFT, DAY_BINS)
    own = np.flatnonzero(counts)
    # A run without values would take the first one behind it.
    at = ends[:-1][own]
    mean, squares = np.zeros(len(counts)), np.zeros(len(counts))
    extremes = {"least": np.full(len(counts), np.nan), "greatest": np.full(len(counts), np.nan)}
    if len(own):
        mean[own] = np.add.reduceat(numbers, at) / counts[own]
        squares[own] = np.add.reduceat(np.square(numbers - np.repeat(mean, counts)), at)
        extremes["least"][own] = np.minimum.reduceat(numbers, at)
        extremes["greatest"][own] = np.maximum.reduceat(numbers, at)
    ends_of = {name: pa.array(each, from_pandas=True) for name, each in extremes.items()}
    places = np.append(0, bins.ends)
    lists = {"bins": _lists(bins.keys, places), "weights": _lists(bins.weights, places)}
    return {"mean": mean, "squares": squares, "shift": bins.shifts, **ends_of, **lists}


def _frequent(codes: Integers, values: Sequence[str], ends: Integers) -> Mapping[str, Any]:
    """Return the most frequent values of each run of codes of them."""
    frequent = list[Frequent]()
    for low, high in pairwise(ends.tolist()):
        own, counts = np.unique(codes[low:high], return_counts=True)
        pairs = zip(own.tolist(), counts.tolist(), strict=True)
        frequent.append(Frequent.of({values[code]: count for code, count in pairs}))
    lists = [list(each.counts.items()) for each in frequent]
    counted = pa.array(lists, pa.map_(pa.string(), pa.int64()))
    return {"frequent": counted, "frequent_error": [each.error for each in frequent]}


def _lists(values: Integers, bounds: Integers) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.array(values, pa.int64()))


def _table(name: str, day_us: Integers, rows: Integers, columns: Mapping[str, Any]) -> pa.Table:
    """Return rows of the table, one for each day; figures that they lack are zero, lists empty."""
    count = len(day_us)
    empty = _lists(np.empty(0, np.int64), np.zeros(count + 1, np.int64))
    zeros = dict.fromkeys(("missing", "mean", "squares", "shift"), np.zeros(count, np.int64))
    lists = dict.fromkeys(("bins", "weights", "hashes"), empty)
    own = {"day_us": day_us, "column": pa.repeat(name, count), "rows": rows}
    return pa.table({**own, **zeros, **lists, **columns})


def day_entries(
    sink: TableSink, batch: int, late: Mapping[int, int], rejected: Mapping[int, Mapping[str, int]]
) -> pa.Table:
    """Write a part with a batch's late rows and rejected records by day; return its entry, none without any."""
    rows = [
        ColumnProfile.of_day(late.get(day, 0), rejected.get(day, {})).as_row()
        | {"day_us": day, "batch": batch}
        for day in sorted({*late, *rejected})
    ]
    return sink.write(as_table(rows, sink.columns))


def fold(engine: Engine, layout: Home, stream: str) -> dict[str, int]:
    """Put the rows of the same day and column together where many parts have come, a file for each four weeks of days.

    Whoever calls holds the lease of ingest. Cost: the files of the days that came, and those that they are put into.
    """
    table = layout.profile(stream)
    if newest_version(table) is None:
        return {}
    files = [file for file in file_facts(table) if file.rows]
    loose = _loose(files)
    if len(loose) < SMALL_FILES:
        return {}
    through, read = read_extent(layout, stream).batch, list[FileFacts]()
    blocks = {block for file in loose for block in _blocks(file)}
    while more := [file for file in files if file not in read and not blocks.isdisjoint(_blocks(file))]:
        read += more
        blocks |= {block for file in more for block in _blocks(file)}
    if any(file.ends("batch")[1] > through for file in read):
        # A batch that has no ledger row yet may be taken back.
        return {}
    sink = sink_of(table)
    items = pa.Table.from_pylist([{"block": block, "files": _paths(read, block)} for block in sorted(blocks)])
    entries = engine.map(items, partial(_folded, sink=sink), ENTRIES, f"fold the profile of {stream}")
    removed = [str(file.path.relative_to(table)) for file in read]
    commit_entries(table, entries, removed=removed, is_change=False)
    return {"profile_files_folded": len(read)}


def _loose(files: Sequence[FileFacts]) -> list[FileFacts]:
    """Return the files whose days are in another file, too, or in several blocks."""
    counts = dict[int, int]()
    for block in (block for file in files for block in _blocks(file)):
        counts[block] = counts.get(block, 0) + 1
    return [
        file for file in files if len(_blocks(file)) > 1 or any(counts[each] > 1 for each in _blocks(file))
    ]


def _paths(files: Sequence[FileFacts], block: int) -> list[str]:
    return [str(file.path.absolute()) for file in files if block in _blocks(file)]


def _blocks(file: FileFacts) -> range:
    low, high = file.ends("day_us")
    return range(low // _BLOCK_US, high // _BLOCK_US + 1)


def _folded(item: Item, sink: TableSink) -> Iterator[pa.Table]:
    """Write one block of days from the files that have rows of it; memory: these days."""
    parts: dict[tuple[int, str], list[ColumnProfile]] = {}
    batch = 0
    for rows in (rows for path in item["files"] for rows in pieces_of(path, sink.columns)):
        own = pa.array(rows["day_us"].to_numpy() // _BLOCK_US == item["block"])
        for row in rows.filter(own).to_pylist():
            parts.setdefault((row["day_us"], row["column"]), []).append(ColumnProfile.of(row))
            batch = max(batch, row["batch"])
    written = (
        ColumnProfile.combined(own).as_row() | {"day_us": day, "batch": batch}
        for (day, _), own in sorted(parts.items())
    )
    yield sink.write(as_table(written, sink.columns))
