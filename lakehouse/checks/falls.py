"""Falls of a counter by meter and period, from nodes and what was kept of earlier ones.

A fall between two nodes counts, and of those inside a node one, if any is sure: late rows leave some in doubt. However
many periods a rule is about, what a check keeps of a meter is little:

    its last nodes     ``OPEN`` as they are, as later rows may still be among theirs; of the one before these, which is
                       settled, the last reading; and the falls up to that one in its period
    its other periods  nothing, unless the counter falls too often in them

Of all meters together it keeps how many other periods there are, by their start. Meters of which no row came are not
looked at. A row that comes for a settled node makes its meter anew from that period on, from files (``late_falls.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.checks.kept_falls import (
    BEFORE_US,
    BROKEN,
    COUNT,
    FALLS,
    FELL,
    KIND,
    NEVER,
    NODE,
    PARTS,
    PERIOD,
    PERIODS,
    SETTLED,
    Falls,
    Flags,
    Integers,
    Meters,
    flags,
    whole,
)
from lakehouse.checks.key_nodes import IS_KEPT, NAMED
from lakehouse.checks.late_falls import changed
from lakehouse.rollup.counters import joined

OPEN = 2


def falling(of: Falls, folder: str | None, _: int, rows: pa.Table) -> pa.Table:
    """Return how many periods of meters there are, and some of those in which a counter falls more often."""
    rows = of.relevant(rows)
    kind = whole(rows[KIND], NODE)
    is_count, is_own = kind == COUNT, _has_come(of, rows)
    left = rows.filter(pa.array(~is_own & ~is_count)).select(of.kept.names)
    own = changed(of, Meters.of(rows.filter(pa.array(is_own & ~is_count)), of.nodes.keys))
    periods, tails = _summed_up(of, own.meters, folder is not None)
    is_broken = periods["falls"] + periods["fell"] > of.most
    counts = _counted(of, rows.filter(pa.array(is_count)), periods["start"][~is_broken], own.gone)
    broken = [own.stays, _as_rows(of, own.meters, periods[is_broken], BROKEN)]
    found = _judged(of, _all(of, [left.filter(pc.equal(left[KIND], BROKEN)), *broken]), counts)
    return of.nodes.keeping(found, _all(of, [left, *broken, counts, tails]), folder)


def _all(of: Falls, rows: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([each.cast(of.kept) for each in rows])


def _has_come(of: Falls, rows: pa.Table) -> Flags:
    """Return which rows are of meters of which a row is new."""
    is_new = ~flags(rows[IS_KEPT])
    if is_new.all() or not is_new.any():
        return is_new
    hashes = of.hashes(rows)
    return np.isin(hashes, np.unique(hashes[is_new]))


def _summed_up(of: Falls, meters: Meters, is_kept: bool) -> tuple[Any, pa.Table]:
    """Return the periods of meters with their falls, and what is kept of their last nodes."""
    number, kind = meters.number, meters.kind
    places = np.flatnonzero((kind == NODE) | (kind == SETTLED))
    places = places[np.lexsort((meters.start[places], number[places]))]
    run = _runs(number[places], meters.start[places])
    parts = meters.rows.select([f"{of.counter}__{part}" for part in PARTS]).take(pa.array(places))
    states, at = joined(parts, run, of.counter), places[np.diff(run, append=-1) != 0]
    meter, start, is_settled = number[at], meters.start[at], kind[at] == SETTLED
    added, known = _added(of, meter, start, states), _known(meters)
    periods = _summed(np.concatenate([known, added[~is_settled]]))
    if not is_kept:
        return periods, of.kept.empty_table()
    left = np.searchsorted(meter, meter, "right") - np.arange(len(at))
    is_anchor = (left == OPEN + 1) | (is_settled & (left <= OPEN))
    settled = _summed(np.concatenate([known, added[(left > OPEN) & ~is_settled]]))
    anchor_us = np.full(len(meters.one), NEVER)
    anchor_us[meter[is_anchor]] = start[is_anchor]
    settled = settled[settled["start"] + of.per_us > anchor_us[settled["meter"]]]
    # Of most rows the keys alone are taken: copying the others costs more than all else.
    last = states[f"{of.counter}__last"].filter(pa.array(is_anchor))
    kept = [
        _as_rows(of, meters, settled, PERIOD),
        _anchors(of, meters.rows.take(pa.array(at[is_anchor])), start[is_anchor], last),
        meters.rows.select(of.kept.names).take(pa.array(places[((left <= OPEN) & ~is_settled)[run]])),
    ]
    return periods, _all(of, kept)


def _added(of: Falls, meter: Integers, start: Integers, states: pa.Table) -> Any:
    """Return what nodes, in order, add to their periods."""
    first, last, inside = (
        states[f"{of.counter}__{part}"].to_numpy() for part in ("first", "last", "drops_low")
    )
    added = np.zeros(len(meter), PERIODS)
    added["meter"], added["at"], added["start"] = meter, start, start - start % of.per_us
    added["falls"], added["before_us"] = inside > 0, NEVER
    has_one = meter[1:] == meter[:-1]
    falls = has_one & (last[:-1] > first[1:])
    is_within = added["start"][1:] == added["start"][:-1]
    added["falls"][1:] += falls & is_within
    added["fell"][1:] = falls & ~is_within
    added["before_us"][1:] = np.where(has_one, start[:-1], NEVER)
    return added


def _known(meters: Meters) -> Any:
    """Return the periods of which falls were kept."""
    is_period = meters.kind == PERIOD
    own = meters.rows.filter(pa.array(is_period))
    known = np.zeros(len(own), PERIODS)
    known["meter"], known["start"], known["at"] = meters.number[is_period], meters.start[is_period], NEVER
    known["falls"], known["fell"] = whole(own[FALLS], 0), whole(own[FELL], 0)
    known["before_us"] = whole(own[BEFORE_US], NEVER)
    return known


def _summed(parts: Any) -> Any:
    """Return one row for each period of a meter; the node before it is that of its first part."""
    parts = parts[np.lexsort((parts["at"], parts["start"], parts["meter"]))]
    begins = np.flatnonzero(np.diff(_runs(parts["meter"], parts["start"]), prepend=-1))
    found = parts[begins]
    if len(begins):
        found["falls"] = np.add.reduceat(parts["falls"], begins)
    return found


def _counted(of: Falls, before: pa.Table, more: Integers, gone: Integers) -> pa.Table:
    """Return how many periods are not broken, by their start: more than before, less those gone."""
    starts = np.concatenate([whole(before["start_us"], NEVER), more, gone])
    ones = (np.ones(len(more), np.int64), np.full(len(gone), -1))
    starts, place = np.unique(starts, return_inverse=True)
    count = np.zeros(len(starts), np.int64)
    np.add.at(count, place, np.concatenate([whole(before[FALLS], 0), *ones]))
    kind = pa.array(np.full(len(starts), COUNT))
    columns = {"start_us": pa.array(starts), KIND: kind, FALLS: pa.array(count)}
    return of.as_kept(len(starts), columns).filter(pa.array(count != 0))


def _judged(of: Falls, broken: pa.Table, counts: pa.Table) -> pa.Table:
    # The first period is read for the falls between it and the next alone.
    is_judged = pc.field("start_us") >= of.nodes.since_us + of.per_us
    broken, counts = broken.filter(is_judged), counts.filter(is_judged)
    start, fell = whole(broken["start_us"], NEVER), whole(broken[FELL], 0)
    # Time goes on, and the node before may not be looked at any more.
    falls = whole(broken[FALLS], 0) + fell * (whole(broken[BEFORE_US], NEVER) >= of.nodes.since_us)
    more = np.flatnonzero(falls > of.most)
    order = more[np.lexsort((start[more], -falls[more]))]
    if len(order) > NAMED:
        # Of equal ones the first by their keys are shown, whatever the order of rows.
        fewest, latest = falls[order[NAMED - 1]], start[order[NAMED - 1]]
        order = order[(falls[order] > fewest) | ((falls[order] == fewest) & (start[order] <= latest))]
    shown = broken.select([*of.nodes.keys, "start_us"]).take(pa.array(order))
    shown = shown.append_column(FALLS, pa.array(falls[order]))
    by = [(FALLS, "descending"), *((name, "ascending") for name in ("start_us", *of.nodes.keys))]
    shown = shown.sort_by(by)[:NAMED]
    judged = len(broken) + (pc.sum(counts[FALLS]).as_py() or 0)
    return of.nodes.named(shown, shown["start_us"], shown[FALLS], broken=len(more), of=judged)


def _as_rows(of: Falls, meters: Meters, periods: Any, kind: int) -> pa.Table:
    """Return periods as they are kept."""
    keys = meters.rows.select(of.nodes.keys).take(pa.array(meters.one[periods["meter"]]))
    columns = {
        **{name: keys[name] for name in of.nodes.keys},
        "start_us": pa.array(periods["start"]),
        KIND: pa.array(np.full(len(periods), kind)),
        FALLS: pa.array(periods["falls"]),
        FELL: pa.array(periods["fell"]),
        BEFORE_US: pa.array(periods["before_us"], mask=periods["before_us"] == NEVER),
    }
    return of.as_kept(len(periods), columns)


def _anchors(of: Falls, rows: pa.Table, start: Integers, last: pa.ChunkedArray) -> pa.Table:
    """Return the last settled nodes of meters, of which the last reading is known."""
    times, zeros = pa.array(start), pa.array(np.zeros(len(start)))
    values = (pa.array(np.ones(len(start), np.int64)), times, times, last, last, zeros, zeros)
    parts = (part for part in PARTS if part != "max")
    columns = {f"{of.counter}__{part}": each for part, each in zip(parts, values, strict=True)}
    columns |= {name: rows[name] for name in of.nodes.keys}
    kind = pa.array(np.full(len(start), SETTLED))
    return of.as_kept(len(start), {**columns, "start_us": times, KIND: kind})


def _runs(meter: Integers, start: Integers) -> Integers:
    """Number pairs, in order, from 0."""
    if not len(meter):
        return meter
    return np.cumsum(np.append(False, (np.diff(meter) != 0) | (np.diff(start) != 0)))
