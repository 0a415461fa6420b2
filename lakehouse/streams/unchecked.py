"""Accepted rows that no memory of identities reaches back to: how many, and between which values, by range of time.

Such a row may repeat one that was forgotten, or be new. It is counted in every node. What is kept here lets an answer
say both: without these rows, and with them. Ranges follow the nodes of the top level; their number is bounded, by batch
and, once ``maintain`` has joined neighbours, altogether.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import known_from, read_corrections
from lakehouse.home.layout import Home
from lakehouse.home.table_commits import arrow_schema, commit, open_table, write_arrow
from lakehouse.home.table_log import newest_version, read_log, read_parts, read_rows
from lakehouse.spark import tables
from lakehouse.streams.identities import definition, identity_columns

# Ranges of one batch, and of a stream after maintenance.
MOST_OF_BATCH, MOST = 64, 256
ROWS = "*"
_WHOLE_DOUBLES = 2.0**53
Range = dict[str, Any]


def checked_from(layout: Home, stream: Stream) -> int | None:
    """Return from which event time on a row is compared with all accepted ones; None where every row is."""
    if not stream.identity:
        return None
    known_us = known_from(read_corrections(layout, stream.name), definition(stream))
    return None if known_us is None else known_us + stream.repeat_distance_us


def note_unchecked(layout: Home, stream: Stream, batch: int, earliest_us: int | None) -> int:
    """Write what a batch has accepted that could not be compared, after raw has its rows; return how many rows.

    Cost: a look at the corrections; only where the batch's earliest time is before what is known, its rows are read.
    """
    before_us = checked_from(layout, stream)
    if before_us is None or earliest_us is None or earliest_us >= before_us:
        return 0
    ranges = _ranges_of(layout, stream, batch, before_us)
    if ranges:
        table = layout.unchecked(stream.name)
        tables.create(table, "unchecked")
        tables.append_rows(ranges, table, f"unchecked-{stream.name}", batch)
    return sum(each["n"] for each in ranges if each["measure"] == ROWS)


def take_back(layout: Home, stream: str, batch: int) -> None:
    """Remove what was written of a batch that is given up."""
    table = layout.unchecked(stream)
    if newest_version(table) is not None:
        tables.remove_here(table, lambda rows: pc.equal(rows["batch"], batch))


def join_ranges(layout: Home, stream: Stream) -> None:
    """Join ranges of the same top node, and neighbours where there are more than ``MOST``; what they say stays true."""
    table = layout.unchecked(stream.name)
    log = read_log(table)
    if log is None or len(log.files) < 2:
        return
    rows = read_rows(table)
    starts = [floor_to(stream.levels[-1].width_us, row["from_us"]) for row in rows]
    group = _at_most(MOST, np.array(starts))
    joined: dict[tuple[int, str], list[Range]] = {}
    for row, number in zip(rows, group.tolist(), strict=True):
        joined.setdefault((number, row["measure"]), []).append(row)
    known = open_table(table)
    ranges = pa.Table.from_pylist([_joined(each) for each in joined.values()], arrow_schema(known))
    removed = [str(path.relative_to(table)) for path in log.files]
    commit(known, table, write_arrow(known, table, ranges), removed)


def _joined(ranges: Sequence[Range]) -> Range:
    """Return one range for all; sums of doubles are moved outward by what rounding can do."""
    first = min(ranges, key=lambda each: (each["batch"], each["from_us"]))
    if len(ranges) == 1:
        return first
    return {
        "batch": first["batch"],
        "measure": first["measure"],
        "from_us": min(each["from_us"] for each in ranges),
        "to_us": max(each["to_us"] for each in ranges),
        "n": sum(each["n"] for each in ranges),
        "below": _outward(math.fsum(each["below"] for each in ranges), 1),
        "above": _outward(math.fsum(each["above"] for each in ranges), 1),
        "least": min((each["least"] for each in ranges if each["least"] is not None), default=None),
        "greatest": max((each["greatest"] for each in ranges if each["greatest"] is not None), default=None),
    }


def _at_most(most: int, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of a group for each start, in their order: the same for equal starts, and for neighbours."""
    distinct, ranks = np.unique(starts, return_inverse=True)
    return np.asarray(ranks.reshape(-1) // max(1, -(-len(distinct) // most)), np.int64)


def _ranges_of(layout: Home, stream: Stream, batch: int, before_us: int) -> list[Range]:
    wanted = [*identity_columns(stream), "event_us", *stream.measures]
    parts = []
    for rows in read_parts(layout.raw(stream.name), list(dict.fromkeys(wanted)), ("batch", batch, batch)):
        is_old = pc.less(rows["event_us"], before_us)
        for name in identity_columns(stream):
            # A row that lacks a part of its identity is never a repeat.
            is_old = pc.and_(is_old, rows[name].is_valid())
        parts.append(rows.filter(is_old).select(["event_us", *stream.measures]))
    rows = pa.concat_tables(parts) if parts else None
    if rows is None or not rows.num_rows:
        return []
    event = rows["event_us"].to_numpy()
    width = stream.levels[-1].width_us
    group = _at_most(MOST_OF_BATCH, event // width)
    values = {name: (_doubles(rows[name]), _is_whole(rows[name])) for name in stream.measures}
    return [
        one | {"batch": batch}
        for number in range(int(group.max()) + 1)
        for one in _of_range(event, group == number, values)
    ]


def _of_range(
    event: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
    values: Mapping[str, tuple[npt.NDArray[np.float64], bool]],
) -> list[Range]:
    """Return a range's rows: one for the rows themselves, and one for each measure that has values in it."""
    ends = {"from_us": int(event[inside].min()), "to_us": int(event[inside].max())}
    nothing = {"below": 0.0, "above": 0.0, "least": None, "greatest": None}
    ranges: list[Range] = [{"measure": ROWS, **ends, "n": int(inside.sum()), **nothing}]
    for name, (doubles, is_whole) in values.items():
        some = doubles[inside & ~np.isnan(doubles)]
        if len(some):
            below, above = float(some[some < 0].sum()), float(some[some > 0].sum())
            is_exact = is_whole and max(-below, above) < _WHOLE_DOUBLES
            rounds = 0 if is_exact else len(some)
            least, greatest = float(some.min()), float(some.max())
            if not is_exact:
                least, greatest = math.nextafter(least, -math.inf), math.nextafter(greatest, math.inf)
            ranges.append(
                {"measure": name, **ends, "n": len(some), "least": least, "greatest": greatest}
                | {"below": _outward(below, rounds), "above": _outward(above, rounds)}
            )
    return ranges


def _outward(total: float, rounds: int) -> float:
    """Return a sum of values of one sign, made larger by what adding so many can lose."""
    if not rounds or (total.is_integer() and abs(total) < _WHOLE_DOUBLES):
        return total
    return total * (1 + (rounds + 4) * 2.0**-52)


def _doubles(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Return the values as doubles, NaN for none."""
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _is_whole(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_integer(column.type))
