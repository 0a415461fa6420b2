"""Rows -> partial nodes of every level and grouping, by sorting: in order of time, a node's rows stand together.

    rows -> sorted by series and time, once a grouping -> runs of one node of a level -> runs of these, level by level

A series is one combination of a grouping's keys. A level's horizon never passes through a node of the next level, so
rows that enter there, being older, share no node with those that are raised to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.levels import horizons
from lakehouse.algorithms.rollup.runs import fold_runs, sum_runs
from lakehouse.config.stream import Stream

Numbers = npt.NDArray[Any]
# Numbers of series stay small enough to stand before a time in 64 bits, as times of some years do.
_MOST_SERIES = 2**20
_MOST = 2**62


@dataclass(frozen=True)
class _Readings:
    """A measure's readings by row or node: values counted, least, greatest, first and last time, sum and carry."""

    counts: Numbers
    ends: tuple[Numbers, Numbers]
    times: tuple[Numbers, Numbers]
    sums: tuple[Numbers, Numbers | None]

    def at(self, places: Numbers) -> _Readings:
        """Return those of some places."""
        total, carry = self.sums
        return _Readings(
            self.counts[places],
            (self.ends[0][places], self.ends[1][places]),
            (self.times[0][places], self.times[1][places]),
            (total[places], None if carry is None else carry[places]),
        )

    def folded(self, edges: Numbers) -> _Readings:
        """Return each run as one."""
        size = len(edges) - 1
        found, times = np.zeros(size, np.int64), np.zeros((2, size), np.int64)
        ends = np.zeros((2, size), self.ends[0].dtype)
        fold_runs(edges, self.counts, *self.ends, *self.times, found, ends, times)
        return _Readings(found, (ends[0], ends[1]), (times[0], times[1]), self._totals(edges))

    def _totals(self, edges: Numbers) -> tuple[Numbers, Numbers | None]:
        total, carry = self.sums
        if carry is None:
            return np.add.reduceat(total, edges[:-1]), None
        size, is_there = len(edges) - 1, self.counts > 0
        totals, rests, is_sum = np.empty(size), np.empty(size), np.empty(size, np.bool_)
        sum_runs(edges, total, carry, is_there, totals, rests, is_sum)
        return totals, rests


@dataclass(frozen=True)
class _Nodes:
    """Rows, or nodes of one level, in order of series and start; ``places``: of one row of each."""

    series: Numbers
    starts: Numbers
    rows: Numbers
    times: tuple[Numbers, Numbers]
    places: Numbers
    readings: Mapping[str, _Readings]

    def at(self, places: Numbers) -> _Nodes:
        """Return those of some places."""
        return _Nodes(
            *(self.series[places], self.starts[places], self.rows[places]),
            (self.times[0][places], self.times[1][places]),
            self.places[places],
            {name: each.at(places) for name, each in self.readings.items()},
        )

    def folded(self, width_us: int) -> _Nodes:
        """Return the nodes so wide that they are in."""
        starts = self.starts - self.starts % width_us
        is_new = np.ones(len(starts), np.bool_)
        is_new[1:] = (np.diff(self.series) != 0) | (np.diff(starts) != 0)
        begins = np.flatnonzero(is_new)
        edges = np.append(begins, len(starts))
        return _Nodes(
            *(self.series[begins], starts[begins], np.add.reduceat(self.rows, begins)),
            (self.times[0][begins], self.times[1][edges[1:] - 1]),
            self.places[begins],
            {name: each.folded(edges) for name, each in self.readings.items()},
        )


def row_nodes(rows: pa.Table, stream: Stream, newest_us: int, schema: pa.Schema) -> pa.Table | None:
    """Return the nodes of rows in the columns of a schema, and how many rows entered at each level.

    These are rows of the level's number below zero. None where sums are exact and might not fit into 64 bits. Cost: a
    sort for each grouping, and passes over the nodes of each level; groupings on Arrow's threads.
    Memory: a few times the rows.
    """
    readings = {name: _readings(rows, name, stream) for name in stream.measures}
    known = {name: each for name, each in readings.items() if each is not None}
    if len(known) < len(readings):
        return None
    times = _copied(rows["event_us"])
    levels = _levels(times, horizons(stream.levels, newest_us))
    keys = {key: _encoded(rows[key]) for key in stream.grouping_keys}
    folding = _Folding(stream, schema, times, levels, known, keys)
    numbers = range(len(stream.groupings))
    with ThreadPoolExecutor(max(1, min(len(numbers), pa.cpu_count()))) as pool:
        return pa.concat_tables([*pool.map(folding.grouping, numbers), folding.entered()])


def _readings(rows: pa.Table, name: str, stream: Stream) -> _Readings | None:
    """Return each row's reading of a measure; None where its sums may need more than 64 bits."""
    column, times = rows[name].combine_chunks(), _copied(rows["event_us"])
    counts = column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    if name in stream.rounded:
        values = _copied(pc.fill_null(column, 0.0))
        return _Readings(counts, (values, values), (times, times), (values, np.zeros(len(values))))
    exact = _as_integers(column)
    if exact is None or np.abs(exact.astype(np.float64)).max(initial=0) * max(len(exact), 1) >= _MOST:
        return None
    return _Readings(counts, (exact, exact), (times, times), (exact, None))


def _copied(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Return a column's values, writable, since kernels are compiled once more for arrays that are not."""
    return np.array(
        column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy()
    )


def _levels(times: Numbers, kept_from: Sequence[int]) -> Numbers:
    """Return the finest level, from 1, that still keeps each time; 0 where none does."""
    found = np.zeros(len(times), np.int8)
    for number in range(len(kept_from), 0, -1):
        found[times >= kept_from[number - 1]] = number
    return found


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # Numbers are put together, not the texts: these may have more than the 2 GB of one array.
    return column.dictionary_encode(null_encoding="encode").combine_chunks()


@dataclass(frozen=True)
class _Folding:
    """Rows that the nodes of one grouping after the other are made of."""

    stream: Stream
    schema: pa.Schema
    times: Numbers
    levels: Numbers
    readings: Mapping[str, _Readings]
    keys: Mapping[str, pa.DictionaryArray]

    def entered(self) -> pa.Table:
        """Return how many rows entered at each level, under the level's number below zero."""
        counts = np.bincount(self.levels, minlength=1)
        numbers = np.flatnonzero(counts[1:]) + 1
        columns = {name: pa.nulls(len(numbers), self.schema.field(name).type) for name in self.schema.names}
        columns |= {"level": pa.array(-numbers, pa.int32()), "rows": pa.array(counts[numbers], pa.int64())}
        columns |= {"grouping": pa.array(np.full(len(numbers), -1), pa.int32())}
        return pa.table(columns, self.schema)

    def grouping(self, number: int) -> pa.Table:
        """Return the nodes of a grouping, level after level."""
        rows, parts = self._sorted(self._series(self.stream.groupings[number])), []
        of_rows, below = self.levels[rows.places], None
        for place, level in enumerate(self.stream.levels, start=1):
            is_own = of_rows == place
            own = rows if is_own.all() else rows.at(np.flatnonzero(is_own))
            found = [nodes.folded(level.width_us) for nodes in (own, below) if nodes and len(nodes.starts)]
            if found:
                below = reduce(_together, found)
                parts.append(self._table(below, place, number))
        return pa.concat_tables([self.schema.empty_table(), *parts])

    def _series(self, grouping: Sequence[str]) -> Numbers:
        """Return a number for each row, the same for rows of one series."""
        found = np.zeros(len(self.times), np.int64)
        for key in grouping:
            values = self.keys[key]
            found = found * max(len(values.dictionary), 1) + values.indices.to_numpy()
            if found.max(initial=0) >= _MOST_SERIES:
                found = np.unique(found, return_inverse=True)[1]
        return found

    def _sorted(self, series: Numbers) -> _Nodes:
        """Return the rows in order of series and time."""
        ones, places = np.ones(len(series), np.int64), np.arange(len(series))
        rows = _Nodes(series, self.times, ones, (self.times, self.times), places, self.readings)
        is_before = np.diff(series) > 0
        if np.all(is_before | ((np.diff(series) == 0) & (np.diff(self.times) >= 0))):
            return rows
        return rows.at(_order(series, self.times))

    def _table(self, nodes: _Nodes, level: int, grouping: int) -> pa.Table:
        size, kept = len(nodes.starts), self.stream.groupings[grouping]
        columns: dict[str, Any] = {"level": np.full(size, level, np.int32), "start_us": nodes.starts}
        columns |= {"grouping": np.full(size, grouping, np.int32), "rows": nodes.rows}
        columns |= {"first_us": nodes.times[0], "last_us": nodes.times[1]}
        for key, values in self.keys.items():
            kind = self.schema.field(key).type
            found = values.take(pa.array(nodes.places)) if key in kept else pa.nulls(size, kind)
            columns[key] = found.cast(kind)
        for name, each in nodes.readings.items():
            columns |= self._columns(name, each)
        return pa.table({name: columns[name] for name in self.schema.names}, self.schema)

    def _columns(self, name: str, of: _Readings) -> dict[str, Any]:
        """Return a measure's columns, null where a node has no value."""
        is_none, (total, carry) = of.counts == 0, of.sums
        found: dict[str, Any] = {f"{name}__n": of.counts}
        parts = dict(zip(("min", "max", "first_us", "last_us"), (*of.ends, *of.times), strict=True))
        parts |= {"sum": total} | ({} if carry is None else {"carry": carry})
        for part, values in parts.items():
            kind = self.schema.field(f"{name}__{part}").type
            is_decimal = pa.types.is_decimal(kind)
            whole = (
                _as_decimals(values, kind, is_none) if is_decimal else pa.array(values, kind, mask=is_none)
            )
            found[f"{name}__{part}"] = whole
        return found


def _order(series: Numbers, times: Numbers) -> Numbers:
    """Return the places of rows in order of series and time."""
    low, high = int(times.min()), int(times.max())
    if (int(series.max()) + 1) * (high - low + 1) < _MOST:
        return np.argsort(series * (high - low + 1) + (times - low))
    return np.lexsort((times, series))


def _together(one: _Nodes, other: _Nodes) -> _Nodes:
    """Return nodes that share no place, in order."""
    both = _Nodes(
        np.concatenate([one.series, other.series]),
        np.concatenate([one.starts, other.starts]),
        np.concatenate([one.rows, other.rows]),
        _pairs(one.times, other.times),
        np.concatenate([one.places, other.places]),
        {name: _joined(each, other.readings[name]) for name, each in one.readings.items()},
    )
    return both.at(np.lexsort((both.starts, both.series)))


def _joined(one: _Readings, other: _Readings) -> _Readings:
    (total, carry), (more, rest) = one.sums, other.sums
    carries = None if carry is None or rest is None else np.concatenate([carry, rest])
    return _Readings(
        np.concatenate([one.counts, other.counts]),
        _pairs(one.ends, other.ends),
        _pairs(one.times, other.times),
        (np.concatenate([total, more]), carries),
    )


def _pairs(one: tuple[Numbers, Numbers], other: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


def _as_integers(column: pa.Array) -> npt.NDArray[np.int64] | None:
    """Return whole numbers or decimals, 0 for nulls; None where one needs more than 64 bits."""
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not pa.types.is_decimal128(column.type):
        return _copied(pc.fill_null(column, 0).cast(pa.int64()))
    halves = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 2)
    low, high = halves[column.offset : column.offset + len(column)].T
    is_short = high == low >> 63
    return np.where(is_valid, low, 0) if np.all(is_short | ~is_valid) else None


def _as_decimals(
    numbers: npt.NDArray[Any], kind: pa.Decimal128Type, is_null: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return decimals of such digits, null where said."""
    halves = np.stack([numbers, numbers >> 63], axis=1).astype(np.int64)
    whole = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(halves))])
    return pc.if_else(pa.array(is_null), pa.scalar(None, kind), whole)
