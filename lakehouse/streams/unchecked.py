"""The table of rows that answers cannot be sure of, as ranges of time: see home/doubtful.

Accepted rows that may repeat forgotten ones are in every node; rejected rows whose local time comes twice are in none.
What is kept here lets an answer say both: without these rows, and with them. Ranges follow the nodes of the top level;
their number is bounded, by batch and, once ``maintain`` has joined neighbours, altogether.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.algorithms.rollup.levels import floor_to
from lakehouse.declare.stream import Stream
from lakehouse.home.corrections import known_from, read_corrections
from lakehouse.home.doubtful import AMBIGUOUS, CLOSED, REPEAT, ROWS, ranges_in_doubt
from lakehouse.home.layout import Home
from lakehouse.home.rollup_table import read_marker
from lakehouse.home.table_commits import arrow_schema, commit, open_table, write_arrow
from lakehouse.home.table_log import newest_version, read_log, read_parts, read_rows
from lakehouse.spark import tables
from lakehouse.streams.doubt_ranges import Range, joined, ranges_within, values_of
from lakehouse.streams.identities import definition, identity_columns

# Ranges of one batch, and of a stream after maintenance.
MOST_OF_BATCH, MOST = 64, 256


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


def take_back(layout: Home, stream: str, batch: int) -> None:
    """Remove what was written of a batch that is given up."""
    table = layout.unchecked(stream)
    if newest_version(table) is not None:
        tables.remove_here(table, lambda rows: pc.equal(rows["batch"], batch))


def join_ranges(layout: Home, stream: Stream) -> None:
    """Join ranges of the same top node, and neighbours where there are more than ``MOST``; what they say stays true.

    Only those of batches that the rollup contains; of these, ranges of records that are closed are removed.
    """
    table = layout.unchecked(stream.name)
    log = read_log(table)
    if log is None or len(log.files) < 2:
        return
    through = read_marker(layout.rollup(stream.name)).batch
    rows = ranges_in_doubt(table, through)
    known, newer = open_table(table), [row for row in read_rows(table) if row["batch"] > through]
    starts = [floor_to(stream.levels[-1].width_us, row["from_us"]) for row in rows]
    groups = dict(zip(starts, _at_most(MOST, np.array(starts, np.int64)).tolist(), strict=True))
    fewer = joined(rows, lambda one: groups[floor_to(stream.levels[-1].width_us, one["from_us"])])
    ranges = pa.Table.from_pylist([*fewer, *newer], arrow_schema(known))
    removed = [str(path.relative_to(table)) for path in log.files]
    commit(known, table, write_arrow(known, table, ranges), removed)


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
    values = values_of(rows, stream)
    return [
        one | {"batch": batch, "reason": REPEAT}
        for number in range(int(group.max()) + 1)
        for one in ranges_within(event, group == number, values)
    ]
