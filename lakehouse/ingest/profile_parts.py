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

from lakehouse.algorithms.profile.day_kernels import find_days, minute_runs
from lakehouse.algorithms.profile.frequent import Frequent
from lakehouse.algorithms.profile.summary import NumberRuns, hashes_of
from lakehouse.engine import Engine, Item
from lakehouse.engine.parts import ENTRIES, TableSink, commit_entries, sink_of
from lakehouse.spark.row_hash import xxhash64
from lakehouse.storage.layout import Home
from lakehouse.storage.ledger import read_extent
from lakehouse.storage.profiles import DAY_BINS, DAY_US, MINUTES, ROWS, ColumnProfile, as_table
from lakehouse.storage.tables.table_log import FileFacts, file_facts, newest_version
from lakehouse.storage.tables.table_maintenance import SMALL_FILES
from lakehouse.storage.tables.table_reads import pieces_of

if TYPE_CHECKING:
    from lakehouse.config.stream import Stream

_MINUTE_US = DAY_US // MINUTES
# Days whose rows maintain puts into one file.
_FOLDED_DAYS = 28
_BLOCK_US = _FOLDED_DAYS * DAY_US
_EXTREMES = ("least", "greatest")
Integers = npt.NDArray[np.int64]
# Of each day a number, or a list of numbers that ends somewhere in one array, by the table's columns.
Figures = Mapping[str, Any]


def profiled(rows: pa.Table, stream: Stream) -> pa.Table:
    """Return what accepted rows add to each column of each of their days, and to the days themselves."""
    times = rows["event_us"].combine_chunks().to_numpy()
    begins = np.empty(len(times), np.int64)
    found = find_days(times, DAY_US, begins)
    if found < 0:
        order = np.argsort(times // DAY_US, kind="stable")
        rows, times = rows.take(pa.array(order)), times[order]
        found = find_days(times, DAY_US, begins)
    starts, ends = begins[:found], np.append(begins[:found], len(times))
    day_us = times[starts] // DAY_US * DAY_US
    columns = {ROWS: _of_days(times, len(day_us), ends)}
    columns |= {
        name: _of_column(rows[name].combine_chunks(), name, stream, ends) for name in stream.all_columns
    }
    return _table(day_us, np.diff(ends), columns)


def _of_days(times: Integers, days: int, ends: Integers) -> Figures:
    """Return the figures of days, whose bins are minutes with rows."""
    most = min(len(times), MINUTES * days)
    minutes, weights, out = (np.empty(size, np.int64) for size in (most, most, days))
    minute_runs(times, ends, _MINUTE_US, MINUTES, minutes, weights, out)
    last = int(out[-1]) if days else 0
    return {"bins": (minutes[:last], out), "weights": (weights[:last], out)}


def _of_column(values: pa.Array, name: str, stream: Stream, ends: Integers) -> Figures:
    """Return what the values of one column add to each day."""
    if name in stream.counters:
        values = pc.if_else(pc.less(values, 0), pa.scalar(None, values.type), values)
    rows, within = np.diff(ends), ends
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        within = np.append(0, np.cumsum(is_valid))[ends]
        values = values.drop_null()
    of = _of_texts if pa.types.is_string(values.type) else _of_numbers
    return {"missing": rows - np.diff(within), **of(values, within, name in stream.keys)}


def _of_texts(values: pa.Array, ends: Integers, is_key: bool) -> Figures:
    codes = values.dictionary_encode()
    counted, words = _counted(codes, ends), xxhash64([codes.dictionary], len(codes.dictionary))
    # A value is hashed once for each run that has it.
    there = np.append(0, np.cumsum([len(own) for own, _ in counted], dtype=np.int64))
    own = words[np.concatenate([own for own, _ in counted])] if counted else words[:0]
    columns = {"hashes": hashes_of(own, there)}
    return {**columns, **_frequent(counted, codes.dictionary.to_pylist())} if is_key else columns


def _of_numbers(values: pa.Array, ends: Integers, is_key: bool) -> Figures:
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    is_whole = pa.types.is_integer(values.type)
    words = values.cast(pa.int64()).to_numpy() if is_whole else numbers.view(np.int64)
    found = NumberRuns.of(numbers, words, not is_whole, ends, DAY_BINS)
    is_empty = np.diff(ends) == 0
    columns: dict[str, Any] = {name: np.where(is_empty, np.nan, getattr(found, name)) for name in _EXTREMES}
    columns |= {"mean": found.mean, "squares": found.squares, "shift": found.bins.shifts}
    columns |= {"bins": (found.bins.keys, found.bins.ends), "weights": (found.bins.weights, found.bins.ends)}
    columns |= {"hashes": (found.hashes, found.hash_ends)}
    if not is_key:
        return columns
    codes = values.cast(pa.string()).dictionary_encode()
    return {**columns, **_frequent(_counted(codes, ends), codes.dictionary.to_pylist())}


def _counted(codes: pa.DictionaryArray, ends: Integers) -> list[tuple[Integers, Integers]]:
    """Return the codes of each run, and how often it has each of them."""
    indices, size, found = codes.indices.to_numpy(), len(codes.dictionary), list[tuple[Integers, Integers]]()
    for low, high in pairwise(ends.tolist()):
        if size <= high - low:
            counts = np.bincount(indices[low:high], minlength=size)
            own = np.flatnonzero(counts)
            found.append((own, counts[own]))
        else:
            found.append(np.unique(indices[low:high], return_counts=True))
    return found


def _frequent(counted: Sequence[tuple[Integers, Integers]], values: Sequence[str]) -> Figures:
    """Return the most frequent values of each run, given its codes of them."""
    frequent = [
        Frequent.of({values[code]: count for code, count in zip(own.tolist(), counts.tolist(), strict=True)})
        for own, counts in counted
    ]
    lists = [list(each.counts.items()) for each in frequent]
    return {"frequent": lists, "frequent_error": [each.error for each in frequent]}


def _table(day_us: Integers, rows: Integers, columns: Mapping[str, Figures]) -> pa.Table:
    """Return a row for each day and column; figures that a column lacks are zero, lists empty, others null.

    One table of all, as making a few arrays is what a small part costs.
    """
    days = len(day_us)
    zeros, empty = np.zeros(days, np.int64), (np.empty(0, np.int64), np.zeros(days, np.int64))
    own: dict[str, Any] = {"day_us": np.tile(day_us, len(columns)), "rows": np.tile(rows, len(columns))}
    own["column"] = np.repeat(np.array(list(columns), object), days)
    for name in ("missing", "mean", "squares", "shift", "frequent_error"):
        own[name] = np.concatenate([of.get(name, zeros) for of in columns.values()])
    for name in _EXTREMES:
        each = np.concatenate([of.get(name, np.full(days, np.nan)) for of in columns.values()])
        own[name] = pa.array(each, mask=np.isnan(each))
    for name in ("bins", "weights", "hashes"):
        lists, total, bounds = [of.get(name, empty) for of in columns.values()], 0, [np.zeros(1, np.int64)]
        for each, ends in lists:
            bounds.append(ends + total)
            total += len(each)
        values = np.concatenate([each for each, _ in lists])
        own[name] = pa.ListArray.from_arrays(np.concatenate(bounds).astype(np.int32), pa.array(values))
    frequent = [counts for of in columns.values() for counts in of.get("frequent", [None] * days)]
    return pa.table(own | {"frequent": pa.array(frequent, pa.map_(pa.string(), pa.int64()))})


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
