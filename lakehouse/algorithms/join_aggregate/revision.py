"""Revision of earlier answers by late rows: the change alone, to be added to them.

Theorem 1 of the paper tells a join's change from the changes of its windows. Rows are only ever added, or counted from
an earlier time on, so what is wanted is the answers with them less the answers without them; only rows that may share a
result with one of them have to be looked at.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lakehouse.algorithms.join_aggregate.choice import build, cheapest
from lakehouse.algorithms.join_aggregate.contract import (
    LIMB_BITS,
    Aggregate,
    Bools,
    Float64s,
    Int64s,
    Partials,
    Rows,
    Shape,
)


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
    gained = merged(shape, [after, _negative(shape, before)])
    return gained[gained.results > 0]


def _negative(shape: Shape, partials: Partials) -> Partials:
    """Return what takes partials away, but for extremes, which only ever grow: that of all rows is what it is now."""
    sign = np.array([0 if each.is_extreme else -1 for each in shape.aggregates])
    is_limb = np.array([each.limbs > 1 for each in shape.aggregates], np.bool_)
    extreme = np.where(sign == 0, np.nan, np.where(is_limb, -partials.extreme, partials.extreme))
    high, low = partials.high * sign, partials.low * sign
    return replace(
        partials, results=-partials.results, counted=-partials.counted, high=high, low=low, extreme=extreme
    )


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

    Sums of doubles are added in the order of the parts, as two floats: within 2^-100 of their magnitudes, and whole
    numbers up to 2^104 exactly. Numbers in limbs are added exactly up to 2^137. Raises OverflowError when a count goes
    beyond 2^63 - 1.
    """
    whole = Partials.joined([Partials.none(shape), *parts])
    whole = whole[np.lexsort((*whole.group.T[::-1], whole.tick_us))]
    if not len(whole):
        return whole
    is_first = np.ones(len(whole), np.bool_)
    is_first[1:] = (np.diff(whole.tick_us) != 0) | np.any(np.diff(whole.group, axis=0) != 0, axis=1)
    at = np.flatnonzero(is_first)
    high, low, extreme = np.zeros((3, len(at), len(shape.aggregates)))
    for column, each in enumerate(shape.aggregates):
        add = _best if each.is_extreme else _limbs_added if each.limbs > 1 else _added
        numbers = whole.high[:, column], whole.low[:, column], whole.extreme[:, column]
        high[:, column], low[:, column], extreme[:, column] = add(each, *numbers, at)
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


def _best(
    aggregate: Aggregate, high: Float64s, low: Float64s, extreme: Float64s, at: Int64s
) -> tuple[Float64s, ...]:
    """Return the extremes of runs, NaN where there is none."""
    run, is_least = np.repeat(at, np.diff(np.append(at, len(high)))), aggregate.function == "min"
    is_none = np.isnan(extreme)
    order = np.lexsort((low, high, extreme, is_none if is_least else ~is_none, run))
    best = order[at if is_least else np.append(at[1:], len(high)) - 1]
    return high[best], low[best], extreme[best]


def _limbs_added(
    aggregate: Aggregate, high: Float64s, low: Float64s, extreme: Float64s, at: Int64s
) -> tuple[Float64s, ...]:
    """Return the sums of runs of numbers in limbs."""
    limbs = [np.add.reduceat(np.nan_to_num(each), at) for each in (low, high, extreme)]
    lowest, middle, highest = (each.astype(np.int64) for each in limbs)
    sign = np.ones(len(at), np.int64)
    for _ in range(2):
        middle += lowest >> LIMB_BITS
        highest += middle >> LIMB_BITS
        lowest, middle = lowest & (2**LIMB_BITS - 1), middle & (2**LIMB_BITS - 1)
        # All limbs have the sign of the number: those of a negative one are carried as those of its opposite.
        sign = np.where(highest < 0, -1, sign)
        lowest, middle, highest = (each * np.where(highest < 0, -1, 1) for each in (lowest, middle, highest))
    return tuple((each * sign).astype(np.float64) for each in (middle, lowest, highest))


def _added(
    aggregate: Aggregate, high: Float64s, low: Float64s, extreme: Float64s, at: Int64s
) -> tuple[Float64s, ...]:
    """Return the sums of runs of two-float numbers; one step for each place in the longest run."""
    lengths = np.diff(np.append(at, len(high)))
    # What is beyond the range of doubles is of larger units, and all that is added to it.
    power = np.fmax.reduceat(extreme, at)
    unit = np.exp2(np.nan_to_num(extreme) - np.nan_to_num(np.repeat(power, lengths)))
    high, low = high * unit, low * unit
    total, rest = high[at].copy(), low[at].copy()
    for place in range(1, int(lengths.max())):
        long = np.flatnonzero(lengths > place)
        together, lost = _two_sum(total[long], high[at[long] + place])
        total[long], rest[long] = _two_sum(together, rest[long] + low[at[long] + place] + lost)
    return total, rest, power


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
