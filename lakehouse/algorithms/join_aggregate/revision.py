"""Revision of earlier answers by late rows: the change alone, to be added to them.

Theorem 1 of the paper tells a join's change from the changes of its windows. Rows are only ever added, or counted from
an earlier time on, so what is wanted is the answers with them less the answers without them; only rows that may share a
result with one of them have to be looked at.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lakehouse.algorithms.join_aggregate.choice import build, cheapest
from lakehouse.algorithms.join_aggregate.contract import Bools, Float64s, Int64s, Partials, Rows, Shape


def revised(shape: Shape, unchanged: Rows, was: Rows, now: Rows, ticks_us: Int64s) -> Partials:
    """Return what answers gain when, beside rows that are ``unchanged``, those of ``was`` become those of ``now``.

    ``now`` holds the rows of ``was``, each from an earlier time on, and rows that are new. Merged with the answers
    given before, the partials are the answers of all rows; a tick and group that gains nothing is left out.

    Cost: that of the cheapest method over the rows that are ``connected`` with changed ones, twice. A continuous query
    asks its method instead if that is ``Revising``. Guarantee: counts and extremes exactly, sums to 2^-100 of their
    magnitudes.
    """
    if not len(now) or not len(ticks_us):
        return Partials.none(shape)
    near = (unchanged.leave_us >= ticks_us[0]) & (unchanged.enter_us <= ticks_us[-1])
    unchanged = unchanged[near]
    unchanged = unchanged[connected(shape, unchanged, now)]
    method = cheapest(shape)[0]
    before, after = (
        build(method, shape).advance(Rows.joined([unchanged, changed]), ticks_us) for changed in (was, now)
    )
    taken = replace(
        before,
        results=-before.results,
        counted=-before.counted,
        high=-before.high,
        low=-before.low,
        # An extreme only ever grows: that of all rows is what it is now.
        extreme=np.full_like(before.extreme, np.nan),
    )
    gained = merged(shape, [after, taken])
    return gained[gained.results > 0]


def connected(shape: Shape, rows: Rows, changed: Rows) -> Bools:
    """Tell which rows may share a result with a changed one: from side to side, they agree in what both carry.

    Cost: a sort of the rows, for each side that changed rows are of.
    """
    is_near, by_side = np.zeros(len(rows), np.bool_), [rows.side == side for side in range(shape.sides)]
    own = [changed.keys[changed.side == side] for side in range(shape.sides)]
    for start in range(shape.sides if len(rows) else 0):
        reached, waiting = {start: own[start]}, [start] if len(own[start]) else []
        while waiting:
            side = waiting.pop(0)
            for other in range(shape.sides):
                both = sorted(set(shape.attributes[side]) & set(shape.attributes[other]))
                if both and other not in reached:
                    at = np.flatnonzero(by_side[other])
                    at = at[_is_among(rows.keys[at][:, both], reached[side][:, both])]
                    is_near[at] = True
                    reached[other] = np.concatenate([rows.keys[at], own[other]])
                    waiting.append(other)
    return is_near


def merged(shape: Shape, parts: Sequence[Partials]) -> Partials:
    """Return partials of the same ticks and groups as one: counts and sums added, extremes compared.

    Sums are added in the order of the parts, as two floats: within 2^-100 of their magnitudes, and whole numbers up
    to 2^104 exactly. Raises OverflowError when a count goes beyond 2^63 - 1.
    """
    whole = Partials.joined([Partials.none(shape), *parts])
    whole = whole[np.lexsort((*whole.group.T[::-1], whole.tick_us))]
    if not len(whole):
        return whole
    is_first = np.ones(len(whole), np.bool_)
    is_first[1:] = (np.diff(whole.tick_us) != 0) | np.any(np.diff(whole.group, axis=0) != 0, axis=1)
    at = np.flatnonzero(is_first)
    high, low = _added(whole.high, whole.low, at)
    extreme = np.empty((len(at), len(shape.aggregates)))
    for column, aggregate in enumerate(shape.aggregates):
        least_or_most = np.fmin if aggregate.function == "min" else np.fmax
        extreme[:, column] = least_or_most.reduceat(whole.extreme[:, column], at)
    return Partials(
        whole.tick_us[at],
        whole.group[at],
        _counted(whole.results, at),
        _counted(whole.counted, at),
        high,
        low,
        extreme,
    )


def ticks_in(first_us: Int64s, last_us: Int64s, every_us: int) -> Int64s:
    """Return the ticks in any of some intervals, both ends counted in, each once and ascending."""
    return ticks_between(*united(first_us, last_us, every_us), every_us)


def united(first_us: Int64s, last_us: Int64s, every_us: int) -> tuple[Int64s, Int64s]:
    """Return the ticks in any of some intervals as intervals that are apart, ascending, in numbers of ticks."""
    first, last = -(-first_us // every_us), last_us // every_us
    some = last >= first
    first, last = first[some], last[some]
    if not len(first):
        return first, last
    order = np.argsort(first, kind="stable")
    first, reached = first[order], np.maximum.accumulate(last[order])
    begins = np.ones(len(first), np.bool_)
    begins[1:] = first[1:] > reached[:-1] + 1
    at = np.flatnonzero(begins)
    return first[at], reached[np.append(at[1:], len(first)) - 1]


def ticks_between(begins: Int64s, ends: Int64s, every_us: int) -> Int64s:
    """Return the ticks of intervals as ``united`` returns them."""
    lengths = ends - begins + 1
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ticks: Int64s = (np.repeat(begins, lengths) + offsets) * every_us
    return ticks


def _counted(counts: Int64s, at: Int64s) -> Int64s:
    added: Int64s = np.add.reduceat(counts, at)
    if np.any(np.abs(np.add.reduceat(counts.astype(np.float64), at)) >= 2.0**63):
        raise OverflowError("expected counts up to 2^63 - 1, found more results in one answer")
    return added


def _added(high: Float64s, low: Float64s, at: Int64s) -> tuple[Float64s, Float64s]:
    """Return the sums of runs of two-float numbers; one step for each place in the longest run."""
    lengths = np.diff(np.append(at, len(high)))
    total, rest = high[at].copy(), low[at].copy()
    for place in range(1, int(lengths.max())):
        long = np.flatnonzero(lengths > place)
        together, lost = _two_sum(total[long], high[at[long] + place])
        total[long], rest[long] = _two_sum(together, rest[long] + low[at[long] + place] + lost)
    return total, rest


def _two_sum(one: Float64s, other: Float64s) -> tuple[Float64s, Float64s]:
    """Return the rounded sums of two floats and exactly what rounding cut off (Knuth)."""
    together = one + other
    seen = together - one
    return together, (one - (together - seen)) + (other - seen)


def _is_among(keys: Int64s, wanted: Int64s) -> Bools:
    if keys.shape[1] == 1:
        return np.isin(keys[:, 0], np.unique(wanted))
    kind = [("", np.int64)] * keys.shape[1]
    one, other = (np.ascontiguousarray(each).view(kind).ravel() for each in (keys, wanted))
    found: Bools = np.isin(one, np.unique(other))
    return found


def missing(shape: Shape, rows: Rows, counted_from_us: Int64s, every_us: int) -> Partials:
    """Return what answers lack of rows that have counted only from a later tick on than they should.

    ``rows`` are all rows taken in so far whose windows meet those of the logged ones, in any order; they enter at their
    event times. ``counted_from_us`` says from when each has counted: its event time, or where it was logged and is
    not repaired, its horizon.

    Guarantee: repairs that follow each other, each of what was logged since the last, come to the same as one.
    Cost: as ``revised``, over the ticks between a logged row's event time and its horizon.
    """
    is_logged = counted_from_us > rows.enter_us
    now = rows[is_logged]
    was = replace(now, enter_us=counted_from_us[is_logged])
    ticks = ticks_in(now.enter_us, np.minimum(now.leave_us, was.enter_us - 1), every_us)
    return revised(shape, rows[~is_logged], was, now, ticks)
