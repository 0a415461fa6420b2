"""Meters to which rows came, as nodes to be summed up, and the periods that were counted of them and are no longer.

Of most meters these are what is kept and what came. A row for a settled node makes its meter anew, from files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.checks.kept_falls import (
    BROKEN,
    EVER,
    KIND,
    NEVER,
    NODE,
    PERIOD,
    SETTLED,
    Falls,
    Flags,
    Integers,
    Meters,
    whole,
)

Pairs: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Changed:
    """Meters to be summed up; ``stays``: their earlier broken periods, ``gone``: starts of those that were counted."""

    meters: Meters
    stays: pa.Table
    gone: Integers


def changed(of: Falls, meters: Meters) -> Changed:
    """Return what changes of meters to which rows came, by these and what is kept of them."""
    since, is_late = _since(of, meters)
    number, period = meters.number, meters.start - meters.start % of.per_us
    is_broken = meters.kind == BROKEN
    stays = meters.rows.filter(pa.array(is_broken & (period < since[number]))).select(of.kept.names)
    is_counted = ~meters.is_new & np.isin(meters.kind, (NODE, PERIOD)) & ~is_late[number]
    counted = [_pairs(of, number[is_counted], period[is_counted])]
    if is_late.any():
        again, existed = _made_anew(of, meters, np.flatnonzero(is_late), since)
        counted.append(existed)
        kept = meters.rows.filter(pa.array(~is_late[number] & ~is_broken)).select(of.kept.names)
        meters = Meters.of(pa.concat_tables([kept, again]), of.nodes.keys)
    # A period with too many falls was not counted with the others.
    broken = _pairs(of, number[is_broken], period[is_broken])
    gone = np.setdiff1d(np.concatenate(counted), broken)
    return Changed(meters, stays, gone["start"])


def _since(of: Falls, meters: Meters) -> tuple[Integers, Flags]:
    """Return the period from which on each meter is summed up, and which meters are late: made anew from there on."""
    number, start, kind = meters.number, meters.start, meters.kind
    period, size = start - start % of.per_us, len(meters.one)
    settled_us, is_summed = np.full(size, NEVER), np.zeros(size, np.bool_)
    settled_us[number[kind == SETTLED]] = start[kind == SETTLED]
    is_summed[number[(kind == PERIOD) & (start <= settled_us[number])]] = True
    # Of a meter that was made anew the node before is kept without the falls of its period.
    through_us = np.where(is_summed, settled_us, settled_us - settled_us % of.per_us + of.per_us - 1)
    is_late_row = meters.is_new & (start <= through_us[number])
    is_first = is_late_row | (~meters.is_new & ((kind == NODE) | (kind == PERIOD)))
    since, is_late = np.full(size, EVER), np.zeros(size, np.bool_)
    np.minimum.at(since, number[is_first], period[is_first])
    is_late[number[is_late_row]] = True
    return since, is_late


def _made_anew(of: Falls, meters: Meters, late: Integers, since: Integers) -> tuple[pa.Table, Pairs]:
    """Return the nodes of late meters from a period of each on, and their periods before these rows came."""
    marks, from_us = meters.rows.select(of.kept.names).take(pa.array(meters.one[late])), since[late]
    found, mark = _read(of, marks, from_us)
    at = from_us[mark]
    start = whole(found["start_us"], NEVER)
    is_own = start >= at
    before = np.full(len(late), NEVER)
    np.maximum.at(before, mark[~is_own], start[~is_own])
    kind = pa.array(np.where(is_own, NODE, SETTLED))
    again = found.set_column(found.schema.get_field_index(KIND), of.kept.field(KIND), kind)
    again = again.filter(pa.array(is_own | (start == before[mark])))
    came = np.flatnonzero(meters.is_new & np.isin(meters.number, late))
    rows = np.concatenate([late[mark[is_own]], meters.number[came]])
    period = np.concatenate([start[is_own], meters.start[came]])
    # Where more readings are in the files than came, some were there before.
    readings = (whole(table[f"{of.counter}__n"], 0) for table in (found, meters.rows))
    own, new = next(readings)[is_own], next(readings)[came]
    pairs, place = np.unique(_pairs(of, rows, period - period % of.per_us, False), return_inverse=True)
    count = np.zeros(len(pairs), np.int64)
    np.add.at(count, place, np.concatenate([own, -new]))
    return again, pairs[count > 0]


def _read(of: Falls, marks: pa.Table, from_us: Integers) -> tuple[pa.Table, Integers]:
    """Return the nodes of some meters from a time of each on, and before as far as one, with the meter's place."""
    hashes, low_us, reach_us = np.unique(of.hashes(marks)), int(from_us.min()), of.per_us
    pieces = [of.kept.empty_table(), *of.read(low_us, EVER, hashes)]
    while True:
        found, mark = _placed(of, marks, pa.concat_tables([each.cast(of.kept) for each in pieces]))
        has_before = np.zeros(len(marks), np.bool_)
        has_before[mark[whole(found["start_us"], NEVER) < from_us[mark]]] = True
        if low_us <= of.nodes.since_us or has_before.all():
            return found, mark
        high_us, low_us = low_us, max(low_us - reach_us, of.nodes.since_us)
        reach_us *= 2
        pieces = [found, *of.read(low_us, high_us, hashes)]


def _placed(of: Falls, marks: pa.Table, rows: pa.Table) -> tuple[pa.Table, Integers]:
    """Return those of the rows whose keys are among marks, and which of these it is."""
    both = Meters.of(pa.concat_tables([marks.cast(of.kept), rows]), of.nodes.keys).number
    place = np.full(int(both.max(initial=-1)) + 1, -1)
    place[both[: len(marks)]] = np.arange(len(marks))
    mark = place[both[len(marks) :]]
    return rows.filter(pa.array(mark >= 0)), mark[mark >= 0]


def _pairs(of: Falls, number: Integers, start: Integers, is_unique: bool = True) -> Pairs:
    pairs = np.zeros(len(number), np.dtype([("number", np.int64), ("start", np.int64)]))
    pairs["number"], pairs["start"] = number, start
    return np.unique(pairs) if is_unique else pairs
