"""Bounds of a cut node: the interval that is sure to hold the truth, in closed form.

A range cuts a node when only part of the node's time lies inside it and nothing finer is kept. Of the node
are known n rows, their sum S, extremes m and M, and the times of its first and last row; the number k of
its rows that fall inside is not, nor which ones.

    node      [ first ........................ last    )
    range              [from ................................. to)      only the last inside: 1 <= k < n

If k rows are inside, their sum is at most ``min(k M, S - (n - k) m)``: neither may they exceed M each, nor
may the others fall below m each. That is concave in k and bends once, at ``k* = (S - n m) / (M - m)``, so
its greatest value over a range of whole k is at an end of the range or beside k*. Lower sides are upper
sides of the negated values.

AVG divides one unknown by another. Its greatest value is found by Dinkelbach's iteration: take the best k
of every node for "sum minus mean times k", recompute the mean, repeat until it stands still; a handful of
rounds.

Doubles: a sum of n of them, compensated, and the formulas above err by less than ``EPS * n * max(abs(m),
abs(M))``; sides are moved out by that for every node touched. Cost: O(cut nodes), vectorised.
Source: ours; the paper (Liu et al., DSMGA-Tree, section 5.3) bounds where an answer starts, not how wrong
it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lakehouse.algorithms.rollup.rounding import EPS as EPS
from tests.oracles.rollup.contract import Aggregate, Answer, Answers

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Bools = npt.NDArray[np.bool_]
    RowRange = tuple[Ints, Ints]

_ROUNDS = 64


class CutNode(NamedTuple):
    """One cut node and the part ``[from_us, to_us)`` of the query that meets it.

    ``width_us`` is the time its rows are spread over, ``magnitude`` is n * max(abs(m), abs(M)) of the node
    that was stored. ``remainder`` marks rows left after subtracting kept children: their m, M and last time
    only bound them.
    """

    n: int
    sum: float
    min: float
    max: float
    first_us: int
    last_us: int
    from_us: int
    to_us: int
    width_us: int
    magnitude: float
    remainder: bool = False


@dataclass(frozen=True)
class CutNodes:
    """Cut nodes as columns; see ``CutNode`` for their meaning."""

    n: Ints
    sum: Floats
    min: Floats
    max: Floats
    first_us: Ints
    last_us: Ints
    from_us: Ints
    to_us: Ints
    width_us: Ints
    magnitude: Floats
    remainder: Bools

    @classmethod
    def of(cls, nodes: Sequence[CutNode]) -> CutNodes:
        """Return the nodes as columns."""
        kinds = (np.int64, *[np.float64] * 3, *[np.int64] * 5, np.float64, np.bool_)
        columns = zip(*nodes, strict=True) if nodes else [()] * len(kinds)
        return cls(*[np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)])

    def where(self, mask: Bools) -> CutNodes:
        """Return the nodes that the mask marks."""
        return self if mask.all() else CutNodes(*[getattr(self, field.name)[mask] for field in fields(self)])

    def mirrored(self) -> CutNodes:
        """Return the same nodes with every value negated: their upper sides are our lower ones."""
        return replace(self, sum=-self.sum, min=-self.max, max=-self.min)


@dataclass(frozen=True)
class Inside:
    """All rows surely inside the range, as one; ``magnitude`` is summed over the nodes they came from."""

    n: int = 0
    sum: float = 0.0
    min: float = math.inf
    max: float = -math.inf
    magnitude: float = 0.0


def row_range(cut: CutNodes) -> RowRange:
    """Return the least and the greatest number of rows of each cut node that may be inside the range."""
    first_in = (cut.from_us <= cut.first_us) & (cut.first_us < cut.to_us)
    last_in = (cut.from_us <= cut.last_us) & (cut.last_us < cut.to_us)
    outside = (cut.last_us < cut.from_us) | (cut.first_us >= cut.to_us)
    # A remainder's last time is where its time ends, which is no row's; a lone row is its first.
    last_is_a_row = ~cut.remainder | (cut.n == 1)
    some_in = first_in | (last_in & last_is_a_row)
    # A range inside the node may leave out both its first and its last row: they are two.
    out = (~first_in).astype(np.int64) + (~last_in & last_is_a_row)
    least = np.where(first_in & last_in, cut.n, np.where(some_in & ~outside, 1, 0))
    most = np.where(outside, 0, cut.n - out)
    return least.astype(np.int64), most.astype(np.int64)


def greatest_sum(cut: CutNodes, k: Ints) -> Floats:
    """Return the greatest sum that k rows of each node can have; k may carry leading axes."""
    free = np.minimum(k * cut.max, cut.sum - (cut.n - k) * cut.min)
    even = np.where(cut.min == cut.max, k * cut.max, free)
    greatest: Floats = np.where(k == cut.n, cut.sum, np.where(k == 0, 0.0, even))
    return greatest


def turning_points(cut: CutNodes, rows: RowRange) -> Ints:
    """Return, as four rows, the k at which a node's greatest sum, or its lead over any mean, can peak."""
    k_low, k_high = rows
    spread = cut.max - cut.min
    bend = (cut.sum - cut.n * cut.min) / np.where(spread > 0, spread, 1.0)
    beside = np.clip(np.stack([np.floor(bend), np.ceil(bend)]), k_low, k_high).astype(np.int64)
    return np.vstack([k_low[None], k_high[None], beside])


def sum_range(cut: CutNodes, rows: RowRange) -> tuple[Floats, Floats]:
    """Return the least and the greatest sum of each node's rows inside the range, without rounding."""
    return -_peak(cut.mirrored(), rows), _peak(cut, rows)


def _peak(cut: CutNodes, rows: RowRange) -> Floats:
    peak: Floats = greatest_sum(cut, turning_points(cut, rows)).max(axis=0)
    return peak


def mean_range(inside: Inside, cut: CutNodes, rows: RowRange) -> tuple[float, float]:
    """Return the least and the greatest mean over the range, given that it holds a row; without rounding."""
    mirrored = replace(inside, sum=-inside.sum)
    return -_greatest_mean(mirrored, cut.mirrored(), rows), _greatest_mean(inside, cut, rows)


def _greatest_mean(inside: Inside, cut: CutNodes, rows: RowRange) -> float:
    k_low, k_high = rows
    if inside.n + int(k_low.sum()) == 0:
        # Nothing is surely inside: one row of the best node alone beats any mix.
        return float(greatest_sum(cut, np.ones_like(k_low))[k_high > 0].max())
    k = turning_points(cut, rows)
    sums = greatest_sum(cut, k)
    nodes = np.arange(k.shape[1])
    mean = _mean(inside, sums[0], k[0])
    for _ in range(_ROUNDS):
        best = np.argmax(sums - mean * k, axis=0)
        better = _mean(inside, sums[best, nodes], k[best, nodes])
        if better <= mean:
            break
        mean = better
    return mean


def _mean(inside: Inside, sums: Floats, k: Ints) -> float:
    return math.fsum([inside.sum, *sums.tolist()]) / (inside.n + int(k.sum()))


def answer(
    aggregate: Aggregate, inside: Inside, cut: CutNodes, nodes_read: int = 0, finest_us: int | None = None
) -> Answer:
    """Answer one aggregate from the rows surely inside and the cut nodes, with its guaranteed interval."""
    met = cut.where(row_range(cut)[1] > 0)
    rows = row_range(met)
    sides = _SIDES[aggregate](inside, met, rows)
    return Answer(
        value=_clamped(sides.value, sides.low, sides.high),
        low=sides.low,
        high=sides.high,
        exact=sides.exact,
        rows=inside.n + math.fsum(_estimated_rows(met, rows).tolist()),
        rows_low=inside.n + int(rows[0].sum()),
        rows_high=inside.n + int(rows[1].sum()),
        nodes_read=nodes_read,
        finest_granularity_us=finest_us,
    )


def with_forgotten_rows(known: Answer, aggregate: Aggregate) -> Answer:
    """Return the answer with only the sides that any further rows in the range cannot move."""
    low = known.low if aggregate in ("count", "max") else None
    high = known.high if aggregate == "min" else None
    return replace(known, low=low, high=high, exact=False, rows_high=None)


def open_sides(known: Answers, aggregate: Aggregate, reaches: Bools) -> Answers:
    """Do as ``with_forgotten_rows`` for the answers marked, in place; return them."""
    if aggregate not in ("count", "max"):
        known.low[reaches] = np.nan
    if aggregate != "min":
        known.high[reaches] = np.nan
    known.exact[reaches] = False
    known.rows_high[reaches] = -1
    return known


class _Sides(NamedTuple):
    value: float | None
    low: float | None
    high: float | None
    exact: bool


_EMPTY = _Sides(None, None, None, True)


def _estimated_rows(cut: CutNodes, rows: RowRange) -> Floats:
    spread: Floats = cut.n * ((cut.to_us - cut.from_us) / cut.width_us)
    return np.clip(spread, *rows)


def _estimated_sums(cut: CutNodes, rows: RowRange) -> Floats:
    spread: Floats = cut.sum * ((cut.to_us - cut.from_us) / cut.width_us)
    return np.where(rows[0] == cut.n, cut.sum, spread)


def _rounding(inside: Inside, cut: CutNodes) -> float:
    return EPS * (inside.magnitude + float(cut.magnitude.sum()))


def _widened(low: float, high: float, by: float) -> tuple[float, float]:
    """Move both sides out; one more step for the rounding of the sides themselves."""
    if by == 0.0:
        return low, high
    return math.nextafter(low - by, -math.inf), math.nextafter(high + by, math.inf)


def _count(inside: Inside, cut: CutNodes, rows: RowRange) -> _Sides:
    low, high = (inside.n + int(k.sum()) for k in rows)
    value = inside.n + math.fsum(_estimated_rows(cut, rows).tolist())
    return _Sides(value, float(low), float(high), low == high)


def _sum(inside: Inside, cut: CutNodes, rows: RowRange) -> _Sides:
    lows, highs = sum_range(cut, rows)
    low, high = (math.fsum([inside.sum, *side.tolist()]) for side in (lows, highs))
    value = math.fsum([inside.sum, *_estimated_sums(cut, rows).tolist()])
    return _Sides(value, *_widened(low, high, _rounding(inside, cut)), exact=bool(np.all(lows == highs)))


def _avg(inside: Inside, cut: CutNodes, rows: RowRange) -> _Sides:
    if inside.n == 0 and cut.n.size == 0:
        return _EMPTY
    sure = inside.n + int(rows[0].sum())
    low, high = mean_range(inside, cut, rows)
    exact = low == high and sure > 0
    low, high = _widened(low, high, _rounding(inside, cut) / max(1, sure))
    least, greatest = min([inside.min, *cut.min.tolist()]), max([inside.max, *cut.max.tolist()])
    total = math.fsum([inside.sum, *_estimated_sums(cut, rows).tolist()])
    value = total / (inside.n + math.fsum(_estimated_rows(cut, rows).tolist()))
    return _Sides(value, max(low, least), min(high, greatest), exact)


def _min(inside: Inside, cut: CutNodes, rows: RowRange) -> _Sides:
    if inside.n == 0 and cut.n.size == 0:
        return _EMPTY
    low = min([inside.min, *cut.min.tolist()])
    all_in = (rows[0] == cut.n) & ~cut.remainder
    reached = np.where(all_in, cut.min, cut.max)[rows[0] > 0]
    high = min([inside.min, *reached.tolist()])
    # A node that is inside by half or more is thought to have its least value there.
    half = 2 * (cut.to_us - cut.from_us) >= cut.width_us
    likely = min([high, *cut.min[half].tolist()])
    return _Sides(low if likely == math.inf else likely, low, None if high == math.inf else high, low == high)


def _max(inside: Inside, cut: CutNodes, rows: RowRange) -> _Sides:
    mirrored = _min(replace(inside, min=-inside.max, max=-inside.min), cut.mirrored(), rows)
    value, high, low = (None if side is None else -side for side in mirrored[:3])
    return _Sides(value, low, high, mirrored.exact)


def _clamped(value: float | None, low: float | None, high: float | None) -> float | None:
    if value is None:
        return None
    floor = value if low is None else max(value, low)
    return floor if high is None else min(floor, high)


_SIDES = {"sum": _sum, "count": _count, "avg": _avg, "min": _min, "max": _max}
