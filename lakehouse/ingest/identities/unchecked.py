"""The table of rows that answers cannot be sure of, as ranges of time: how many, and between which values.

Accepted rows that may repeat forgotten ones are in every node; rejected rows whose local time comes twice are in none.
What is kept here lets an answer say both: without these rows, and with them (storage/doubtful.py). Ranges follow the
nodes of the top level; their number is bounded, by batch and, once ``maintain`` has joined neighbours, altogether. What
they say stays true when they are joined.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from operator import and_
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.ingest.double_hour import DAY_US, double_hours
from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.config.stream import Stream
from lakehouse.engine import Engine, Item
from lakehouse.ingest.identities.identities import definition, identity_columns
from lakehouse.ingest.raw_rows import RawRows, raw_columns, raw_items, rows_of
from lakehouse.spark import tables
from lakehouse.storage.corrections import known_from, read_corrections
from lakehouse.storage.doubtful import AMBIGUOUS, CLOSED, REPEAT, ROWS, without_closed
from lakehouse.storage.layout import Home
from lakehouse.storage.tables.rollup_table import read_marker
from lakehouse.storage.tables.table_commits import arrow_schema, commit, open_table, write_arrow
from lakehouse.storage.tables.table_log import newest_version, read_log, read_rows

# Ranges of one batch, and of a stream after maintenance.
MOST_OF_BATCH, MOST = 64, 256
_WHOLE_DOUBLES = 2.0**53
Range = dict[str, Any]
# Values of a measure as doubles, NaN for none, and whether all are whole.
Values = tuple[npt.NDArray[np.float64], bool]


def checked_from(layout: Home, stream: Stream) -> int | None:
    """Return from which event time on a row is compared with all accepted ones; None where every row is."""
    if not stream.identity:
        return None
    known_us = known_from(read_corrections(layout, stream.name), definition(stream))
    return None if known_us is None else known_us + stream.repeat_distance_us


def note_unchecked(engine: Engine, layout: Home, stream: Stream, batch: int, earliest_us: int | None) -> int:
    """Write what a batch has accepted that could not be compared, after raw has its rows; return how many rows.

    Cost: a look at the corrections; only where the batch's earliest time is before what is known, a
    Spark job that reads its rows.
    """
    before_us = checked_from(layout, stream)
    if before_us is None or earliest_us is None or earliest_us >= before_us:
        return 0
    ranges = _ranges_of(engine, layout, stream, batch, before_us)
    _append(ranges, layout, stream.name, batch, REPEAT)
    return sum(each["n"] for each in ranges if each["measure"] == ROWS)


def note_ambiguous(layout: Home, stream: str, batch: int, ranges: Sequence[Range], closes: bool) -> None:
    """Write the ranges of rows that a batch rejects as their local time comes twice, before quarantine has them.

    ``closes``: it takes the records of earlier batches.
    """
    closing = [{"batch": batch, "reason": AMBIGUOUS, "measure": CLOSED}]
    is_there = closes and newest_version(layout.unchecked(stream)) is not None
    _append([*ranges, *(closing if is_there else [])], layout, stream, batch, AMBIGUOUS)


def _append(ranges: Sequence[Range], layout: Home, stream: str, batch: int, reason: str) -> None:
    if ranges:
        table = layout.unchecked(stream)
        tables.create(table, "unchecked")
        tables.append_rows(ranges, table, f"unchecked-{reason}-{stream}", batch)


def join_ranges(layout: Home, stream: Stream) -> None:
    """Join ranges of the same top node, and neighbours where there are more than ``MOST``; what they say stays true.

    Only those of batches that the rollup contains; of these, ranges of records that are closed are removed.
    """
    table = layout.unchecked(stream.name)
    log = read_log(table)
    if log is None or len(log.files) < 2:
        return
    through = read_marker(layout.rollup(stream.name)).batch
    known, rows = open_table(table), read_rows(table)
    contained = without_closed(row for row in rows if row["batch"] <= through)
    newer = [row for row in rows if row["batch"] > through]
    ranges = pa.Table.from_pylist([*_fewer(contained, stream, MOST), *newer], arrow_schema(known))
    removed = [str(path.relative_to(table)) for path in log.files]
    commit(known, table, write_arrow(known, table, ranges), removed)


def _fewer(ranges: Sequence[Range], stream: Stream, most: int) -> list[Range]:
    """Join ranges of the same top node, and neighbours where there are more than ``most``, of each measure."""
    starts = [floor_to(stream.levels[-1].width_us, each["from_us"]) for each in ranges]
    groups = dict(zip(starts, _at_most(most, np.array(starts, np.int64)).tolist(), strict=True))
    return joined(ranges, lambda one: groups[floor_to(stream.levels[-1].width_us, one["from_us"])])


def _at_most(most: int, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the number of a group for each start, in their order: the same for equal starts, and for neighbours."""
    distinct, ranks = np.unique(starts, return_inverse=True)
    return np.asarray(ranks.reshape(-1) // max(1, -(-len(distinct) // most)), np.int64)


def _ranges_of(engine: Engine, layout: Home, stream: Stream, batch: int, before_us: int) -> list[Range]:
    raw, schema = layout.raw(stream.name), tables.declared_columns("unchecked")
    columns = raw_columns(raw, [*identity_columns(stream), *stream.measures])
    kernel = partial(_ranges_in, stream=stream, columns=columns, schema=schema)
    items = raw_items(raw, RawRows(batch, batch, to_us=before_us))
    ranges = engine.map(items, kernel, schema, f"sum up rows of {stream.name} that nothing is known of")
    return _fewer(ranges.to_pylist(), stream, MOST_OF_BATCH)


def _ranges_in(item: Item, stream: Stream, columns: pa.Schema, schema: pa.Schema) -> Iterator[pa.Table]:
    identified = [pc.field(name).is_valid() for name in identity_columns(stream)]
    parts = []
    for rows in rows_of(item, columns):
        # A row that lacks a part of its identity is never a repeat.
        parts.append(rows.filter(reduce(and_, identified)).select(["event_us", *stream.measures]))
    rows = pa.concat_tables(parts)
    if not rows.num_rows:
        return
    event = rows["event_us"].to_numpy()
    group = _at_most(MOST_OF_BATCH, event // stream.levels[-1].width_us)
    values = values_of(rows, stream)
    ranges = [
        one | {"batch": item["first"], "reason": REPEAT}
        for number in range(int(group.max()) + 1)
        for one in ranges_within(event, group == number, values)
    ]
    yield pa.Table.from_pylist(ranges, schema)


def ambiguous_ranges(parsed: pa.Table, stream: Stream, batch: int) -> list[Range]:
    """Return the ranges of rejected rows whose local time comes twice, from the first of its moments to the second."""
    rows = parsed.filter(pc.equal(parsed["reason"], AMBIGUOUS).fill_null(False))
    if not rows.num_rows:
        return []
    event, values = rows["event_us"].to_numpy(), values_of(rows, stream)
    ranges = list[Range]()
    for day in np.unique(event // DAY_US):
        inside = event // DAY_US == day
        hours = double_hours(stream.event_time.timezone, event[inside])
        # A change by less than minutes is no double hour there, and no change is by more than a day.
        apart = max((hour.end_us - hour.begin_us for hour in hours), default=DAY_US)
        same = {"batch": batch, "reason": AMBIGUOUS}
        ranges += [
            same | one | {"to_us": one["to_us"] + apart} for one in ranges_within(event, inside, values)
        ]
    return ranges


def joined_by_day(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges of which those of one measure that begin on one day of UTC are one."""
    return joined(ranges, lambda one: one["from_us"] // DAY_US)


def joined(ranges: Iterable[Range], group: Callable[[Range], int]) -> list[Range]:
    """Return one range for all of the same group, reason and measure."""
    same: dict[tuple[int, str, str], list[Range]] = {}
    for one in ranges:
        same.setdefault((group(one), one["reason"], one["measure"]), []).append(one)
    return [_joined(each) for each in same.values()]


def ranges_within(
    event: npt.NDArray[np.int64],
    inside: npt.NDArray[np.bool_],
    values: Mapping[str, Values],
) -> list[Range]:
    """Return the range of some rows: for the rows themselves, and for each measure that has values in it."""
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


def values_of(rows: pa.Table, stream: Stream) -> dict[str, Values]:
    """Return the values of each measure."""
    return {name: (_doubles(rows[name]), _is_whole(rows[name])) for name in stream.measures}


def _joined(ranges: Sequence[Range]) -> Range:
    """Return one range for all; sums of doubles are moved outward by what rounding can do."""
    first = min(ranges, key=lambda each: (each["batch"], each["from_us"]))
    if len(ranges) == 1:
        return first
    return {
        "batch": first["batch"],
        "reason": first["reason"],
        "measure": first["measure"],
        "from_us": min(each["from_us"] for each in ranges),
        "to_us": max(each["to_us"] for each in ranges),
        "n": sum(each["n"] for each in ranges),
        "below": _outward(math.fsum(each["below"] for each in ranges), 1),
        "above": _outward(math.fsum(each["above"] for each in ranges), 1),
        "least": min((each["least"] for each in ranges if each["least"] is not None), default=None),
        "greatest": max((each["greatest"] for each in ranges if each["greatest"] is not None), default=None),
    }


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
