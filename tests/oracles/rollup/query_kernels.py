"""Compiled answers to many ranges: descent.py and bounds.py once more, for arrays of questions.

Each question walks down the levels with a small stack of ranges still to cover, folds whole nodes into one
record and notes the cut nodes; then the interval is formed from both. What is collected and the formulas
are those of descent.py and bounds.py, which say why; tests hold the two to each other and to the yardstick.
A side that is not there is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.rollup.rounding import EPS
from tests.oracles.rollup.node_kernels import HEAD, TAIL, find, fold_range, plus

ROUNDS = 64
INSIDE = np.dtype(
    [
        ("n", np.int64),
        ("total", np.float64),
        ("carry", np.float64),
        ("min", np.float64),
        ("max", np.float64),
        ("magnitude", np.float64),
        ("nodes", np.int64),
        ("finest", np.int64),
    ]
)
CUT = np.dtype(
    [
        ("n", np.int64),
        ("sum", np.float64),
        ("min", np.float64),
        ("max", np.float64),
        ("first_us", np.int64),
        ("last_us", np.int64),
        ("magnitude", np.float64),
        ("share", np.float64),
        ("least", np.int64),
        ("most", np.int64),
        ("remainder", np.bool_),
    ]
)
ANSWER = np.dtype(
    [
        ("value", np.float64),
        ("low", np.float64),
        ("high", np.float64),
        ("exact", np.bool_),
        ("rows", np.float64),
        ("rows_low", np.int64),
        ("rows_high", np.int64),
        ("nodes_read", np.int64),
        ("finest_granularity_us", np.int64),
    ]
)
SUM, COUNT, AVG, MIN, MAX = range(5)


@njit(cache=True)
def answer_ranges(
    store: Any,
    spans: Any,
    widths: Any,
    horizons: Any,
    whole: bool,
    starts: Any,
    ends: Any,
    kind: int,
    out: Any,
) -> None:
    """Answer one aggregate over every ``[starts[i], ends[i])`` into ``out[i]``."""
    levels = len(widths)
    work = np.empty((2 * levels + 2, 3), np.int64)
    inside, cuts = np.empty(1, INSIDE), np.empty(2 * levels + 2, CUT)
    for index in range(len(starts)):
        _clear(inside[0])
        met = 0
        if starts[index] < ends[index] and levels:
            work[0, 0], work[0, 1], work[0, 2] = levels - 1, starts[index], ends[index]
            met = _collect(store, spans, widths, horizons, whole, work, inside[0], cuts)
        _answer(kind, inside[0], cuts, met, out[index])


@njit(cache=True)
def _clear(inside: Any) -> None:
    inside.n, inside.nodes, inside.finest = 0, 0, 0
    inside.total, inside.carry, inside.magnitude = 0.0, 0.0, 0.0
    inside.min, inside.max = np.inf, -np.inf


@njit(cache=True)
def _collect(
    store: Any, spans: Any, widths: Any, horizons: Any, whole: bool, work: Any, inside: Any, cuts: Any
) -> Any:
    """Fold whole nodes and note cut ones until no range is left to cover; return how many are cut."""
    left, met = 1, 0
    while left:
        left -= 1
        level, start, end = work[left, 0], work[left, 1], work[left, 2]
        width = widths[level]
        inner_start, inner_end = start + (-start) % width, end - end % width
        if inner_start > inner_end:
            inner_start, inner_end = end, end
        elif inner_start < inner_end:
            _fold_whole(store, spans[level], width, inner_start, inner_end, inside)
        for edge in range(2):
            begin, stop = (start, inner_start) if edge == 0 else (inner_end, end)
            if begin < stop:
                covered = horizons[level - 1] if level else begin - begin % width + width
                if covered < stop:
                    work[left, 0], work[left, 1], work[left, 2] = level - 1, max(begin, covered), stop
                    left += 1
                if begin < covered:
                    stop = min(stop, covered)
                    met += _cut(store, spans, widths, level, whole, covered, begin, stop, inside, cuts[met])
    return met


@njit(cache=True)
def _fold_whole(store: Any, span: Any, width: int, start: int, end: int, inside: Any) -> None:
    head, tail = span[HEAD], span[TAIL]
    nodes, n, total, carry, low, high, magnitude = fold_range(store, head, tail, width, start, end)
    inside.n += n
    inside.total, inside.carry = plus(inside.total, inside.carry + carry, total)
    inside.min, inside.max = min(inside.min, low), max(inside.max, high)
    inside.magnitude += magnitude
    _count(inside, nodes, width)


@njit(cache=True)
def _count(inside: Any, nodes: int, width: int) -> None:
    inside.nodes += nodes
    if nodes and (inside.finest == 0 or width < inside.finest):
        inside.finest = width


@njit(cache=True)
def _cut(
    store: Any, spans: Any, widths: Any, level: int, whole: bool, covered: int,
    start: int, end: int, inside: Any, cut: Any,
) -> Any:  # fmt: skip
    """Note the node of a level that ``[start, end)`` cuts; return 1 if rows of it may be inside, else 0."""
    width, span = widths[level], spans[level]
    node_start = start - start % width
    index = find(store, span[HEAD], span[TAIL], node_start, width)
    if index == span[TAIL] or store[index].start != node_start:
        return 0
    _count(inside, 1, width)
    _cut_whole(store[index], cut)
    if covered < node_start + width and not whole:
        _leave_children(
            store, spans[level - 1], widths[level - 1], store[index], covered, node_start + width, inside, cut
        )
        width = covered - node_start
    cut.share = (end - start) / width
    if cut.n > 0:
        _set_rows(cut, start, end)
        return 1 if cut.most > 0 else 0
    return 0


@njit(cache=True)
def _cut_whole(node: Any, cut: Any) -> None:
    cut.n, cut.sum, cut.min, cut.max = node.n, node.total + node.carry, node.min, node.max
    cut.first_us, cut.last_us = node.first_us, node.last_us
    cut.magnitude = node.n * max(abs(node.min), abs(node.max))
    cut.remainder = False


@njit(cache=True)
def _leave_children(
    store: Any, span: Any, width: int, node: Any, covered: int, node_end: int, inside: Any, cut: Any
) -> None:
    """Leave in the cut node what its kept children do not hold."""
    nodes, n, total, carry, _, _, _ = fold_range(store, span[HEAD], span[TAIL], width, covered, node_end)
    _count(inside, nodes, width)
    left, rest = plus(node.total, node.carry, -total)
    left, rest = plus(left, rest, -carry)
    cut.n, cut.sum, cut.remainder = node.n - n, left + rest, True
    cut.last_us = node.first_us if cut.n == 1 else min(node.last_us, covered - 1)


@njit(cache=True)
def _set_rows(cut: Any, start: int, end: int) -> None:
    first_in = start <= cut.first_us < end
    last_in = start <= cut.last_us < end
    outside = cut.last_us < start or cut.first_us >= end
    last_is_a_row = not cut.remainder or cut.n == 1
    some_in = first_in or (last_in and last_is_a_row)
    out = (0 if first_in else 1) + (1 if not last_in and last_is_a_row else 0)
    if first_in and last_in:
        cut.least, cut.most = cut.n, cut.n
    elif outside:
        cut.least, cut.most = 0, 0
    else:
        cut.least, cut.most = (1 if some_in else 0), cut.n - out


@njit(cache=True)
def _answer(kind: int, inside: Any, cuts: Any, met: int, out: Any) -> None:
    """Form the answer from the rows surely inside and the first ``met`` cut nodes."""
    out.nodes_read, out.finest_granularity_us = inside.nodes, inside.finest
    out.rows_low, out.rows_high, out.rows = _rows(inside, cuts, met)
    if kind == COUNT:
        out.low, out.high, out.value = float(out.rows_low), float(out.rows_high), out.rows
        out.exact = out.low == out.high
    elif kind == SUM:
        out.low, out.high, out.value, out.exact = _sum(inside, cuts, met)
    elif inside.n == 0 and met == 0:
        out.low, out.high, out.value, out.exact = np.nan, np.nan, np.nan, True
    elif kind == AVG:
        out.low, out.high, out.value, out.exact = _avg(inside, cuts, met, out.rows_low, out.rows)
    elif kind == MIN:
        out.low, out.high, out.value, out.exact = _min(inside.min, cuts, met, 1.0)
    else:
        high, low, value, out.exact = _min(-inside.max, cuts, met, -1.0)
        out.low, out.high, out.value = -low, -high, -value
    out.value = _clamped(out.value, out.low, out.high)


@njit(cache=True)
def _clamped(value: float, low: float, high: float) -> Any:
    if value < low:
        value = low
    return high if value > high else value


@njit(cache=True)
def _rows(inside: Any, cuts: Any, met: int) -> Any:
    low, high, spread, rest = inside.n, inside.n, 0.0, 0.0
    for index in range(met):
        cut = cuts[index]
        low += cut.least
        high += cut.most
        spread, rest = plus(spread, rest, min(max(cut.n * cut.share, float(cut.least)), float(cut.most)))
    return low, high, inside.n + (spread + rest)


@njit(cache=True)
def _greatest(sign: float, cut: Any, k: int) -> Any:
    """Return the greatest sum that k rows of the node can have, of negated values where sign is -1."""
    total, low, high = sign * cut.sum, sign * cut.min, sign * cut.max
    if sign < 0:
        low, high = high, low
    if k == cut.n:
        return total
    if k == 0:
        return 0.0
    if low == high:
        return k * high
    return min(k * high, total - (cut.n - k) * low)


@njit(cache=True)
def _turn(sign: float, cut: Any, which: int) -> Any:
    """Return one of the four k at which a greatest sum, or its lead over any mean, can peak."""
    if which == 0:
        return cut.least
    if which == 1 or cut.min == cut.max:
        return cut.most
    low = cut.min if sign > 0 else -cut.max
    bend = (sign * cut.sum - cut.n * low) / (cut.max - cut.min)
    beside = np.floor(bend) if which == 2 else np.ceil(bend)
    return int(min(max(beside, float(cut.least)), float(cut.most)))


@njit(cache=True)
def _peak(sign: float, cut: Any) -> Any:
    peak = -np.inf
    for which in range(4):
        peak = max(peak, _greatest(sign, cut, _turn(sign, cut, which)))
    return peak


@njit(cache=True)
def _rounding(inside: Any, cuts: Any, met: int) -> Any:
    magnitude = inside.magnitude
    for index in range(met):
        magnitude += cuts[index].magnitude
    return EPS * magnitude


@njit(cache=True)
def _moved_out(low: float, high: float, by: float) -> Any:
    if by == 0.0:
        return low, high
    return np.nextafter(low - by, -np.inf), np.nextafter(high + by, np.inf)


@njit(cache=True)
def _spread(inside: Any, cuts: Any, met: int) -> Any:
    total, carry = inside.total, inside.carry
    for index in range(met):
        cut = cuts[index]
        part = cut.sum if cut.least == cut.n else cut.sum * cut.share
        total, carry = plus(total, carry, part)
    return total + carry


@njit(cache=True)
def _side(sign: float, inside: Any, cuts: Any, met: int) -> Any:
    """Return the greatest sum over the range, of negated values where sign is -1."""
    total, carry = sign * inside.total, sign * inside.carry
    for index in range(met):
        total, carry = plus(total, carry, _peak(sign, cuts[index]))
    return total + carry


@njit(cache=True)
def _sum(inside: Any, cuts: Any, met: int) -> Any:
    exact = True
    for index in range(met):
        exact = exact and -_peak(-1.0, cuts[index]) == _peak(1.0, cuts[index])
    low, high = -_side(-1.0, inside, cuts, met), _side(1.0, inside, cuts, met)
    low, high = _moved_out(low, high, _rounding(inside, cuts, met))
    return low, high, _spread(inside, cuts, met), exact


@njit(cache=True)
def _mean_with(sign: float, inside: Any, cuts: Any, met: int, mean: float, first: bool) -> Any:
    """Return the mean when every cut node gives the k that leads most over a mean, or its least k at first."""
    total, carry, rows = sign * inside.total, sign * inside.carry, inside.n
    for index in range(met):
        cut = cuts[index]
        best, taken = -np.inf, cut.least
        for which in range(1 if first else 4):
            k = _turn(sign, cut, which)
            lead = _greatest(sign, cut, k) - mean * k
            if lead > best:
                best, taken = lead, k
        total, carry = plus(total, carry, _greatest(sign, cut, taken))
        rows += taken
    return (total + carry) / rows


@njit(cache=True)
def _greatest_mean(sign: float, inside: Any, cuts: Any, met: int, sure: int) -> Any:
    if sure == 0:
        mean = -np.inf
        for index in range(met):
            mean = max(mean, _greatest(sign, cuts[index], 1))
        return mean
    mean = _mean_with(sign, inside, cuts, met, 0.0, True)
    for _ in range(ROUNDS):
        better = _mean_with(sign, inside, cuts, met, mean, False)
        if better <= mean:
            break
        mean = better
    return mean


@njit(cache=True)
def _avg(inside: Any, cuts: Any, met: int, sure: int, rows: float) -> Any:
    low = -_greatest_mean(-1.0, inside, cuts, met, sure)
    high = _greatest_mean(1.0, inside, cuts, met, sure)
    exact = low == high and sure > 0
    low, high = _moved_out(low, high, _rounding(inside, cuts, met) / max(1, sure))
    least, greatest = inside.min, inside.max
    for index in range(met):
        least, greatest = min(least, cuts[index].min), max(greatest, cuts[index].max)
    return max(low, least), min(high, greatest), _spread(inside, cuts, met) / rows, exact


@njit(cache=True)
def _min(sure_min: float, cuts: Any, met: int, sign: float) -> Any:
    low, high, likely = sure_min, sure_min, np.inf
    for index in range(met):
        cut = cuts[index]
        least, greatest = (cut.min, cut.max) if sign > 0 else (-cut.max, -cut.min)
        low = min(low, least)
        if cut.share >= 0.5:
            likely = min(likely, least)
        if cut.least > 0:
            high = min(high, least if cut.least == cut.n and not cut.remainder else greatest)
    likely = min(likely, high)
    return low, (np.nan if high == np.inf else high), (low if likely == np.inf else likely), low == high
