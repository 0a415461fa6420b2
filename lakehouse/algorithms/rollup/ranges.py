"""An aggregate over a range from the nodes of one series: the rule of the macros, for few nodes and without a plan.

DuckDB needs more time to set up the operators of a macro than to read the nodes of one series. Every step here is that
of ``sql/serving`` in the same order, so that both give the same doubles: ``parts_inside`` bounds the sum of a cut node,
``ratios.sql`` an average, and sums are Kahan's where the macros say ``fsum``. Of a whole node all rows are inside the
range; of a cut node between ``at_least`` and ``at_most`` are.

Cost: a few microseconds per node. Source: ours; the bounds are derived in tests/oracles/rollup/bounds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lakehouse.algorithms.rollup.rounding import (
    QUOTIENT_ROUNDING,
    SHORT_QUOTIENT,
    SUM_ROUNDING,
    WHOLE_DOUBLES,
)

_CLIMBS = 9
# The sum of k rows of a cut node, by k: pairs of k and sum.
_Sums = list[tuple[float, float]]


class Node(NamedTuple):
    """Node that a range meets: its values, the number of its rows that can be inside, and the share of its time inside.

    ``exact``: the sum as a whole number, if the measure has digits.
    """

    n: int
    total: float
    exact: int | None
    lowest: float
    highest: float
    magnitude: float
    at_least: int
    at_most: int
    share: float

    @property
    def is_cut(self) -> bool:
        """Some rows may be inside and some outside."""
        return self.at_least < self.n and self.at_most > 0


class Sides(NamedTuple):
    """An estimate between two sides; a side is None if there may be no row."""

    value: float | None
    low: float | None
    high: float | None
    is_exact: bool


class Rows(NamedTuple):
    """Number of rows inside: at least, at most, and spread evenly over the time of cut nodes."""

    low: int
    high: int
    spread: float


def rows_inside(n: int, first_us: int, last_us: int, start_us: int, end_us: int) -> tuple[int, int]:
    """Return the least and the most rows of a node inside ``[start_us, end_us)``, by its first and last row.

    >>> rows_inside(5, 10, 50, 0, 40), rows_inside(5, 10, 50, 20, 40), rows_inside(5, 10, 50, 60, 70)
    ((1, 4), (0, 3), (0, 0))
    """
    starts_in, ends_in = first_us >= start_us, last_us < end_us
    if starts_in and ends_in:
        return n, n
    if last_us < start_us or first_us >= end_us:
        return 0, 0
    # If neither is inside, the first and the last are two.
    return (1, n - 1) if starts_in or ends_in else (0, n - 2)


def rows_of(nodes: Sequence[Node]) -> Rows:
    """Count the rows of nodes that are inside."""
    return Rows(
        sum(node.at_least for node in nodes),
        sum(node.at_most for node in nodes),
        sum((min(max(node.n * node.share, node.at_least), node.at_most) for node in nodes), 0.0),
    )


def count(nodes: Sequence[Node], divisor: float, is_exact: bool) -> Sides:
    """Return the count of rows."""
    rows = rows_of(nodes)
    return Sides(rows.spread, float(rows.low), float(rows.high), rows.low == rows.high)


def total(nodes: Sequence[Node], divisor: float, is_exact: bool) -> Sides:
    """Return the sum of a measure, none where no value can be inside; its sides hold if there is any value.

    ``divisor`` turns units of the measure's last digit into its own.
    """
    if not any(node.at_most > 0 for node in nodes):
        return Sides(None, None, None, True)
    parts = [_parts(node) if node.is_cut else (0.0, 0.0) for node in nodes]
    low, high = (_compensated(side) for side in zip(*parts, strict=True))
    spread = _compensated(
        min(max(node.total * node.share, part[0]), part[1]) if node.is_cut else 0.0
        for node, part in zip(nodes, parts, strict=True)
    )
    # A node whose rows all lie outside adds nothing, and so no rounding.
    magnitude = sum((node.magnitude if node.at_most > 0 else 0 for node in nodes), 0.0)
    is_whole = not any(node.is_cut for node in nodes) or magnitude < WHOLE_DOUBLES
    rounding = 0.0 if is_exact and is_whole else SUM_ROUNDING * magnitude
    certain = _certain(nodes, is_exact)
    return Sides(
        (certain + spread) / divisor,
        (certain + low - rounding) / divisor,
        (certain + high + rounding) / divisor,
        low == high,
    )


def least(nodes: Sequence[Node], divisor: float, is_exact: bool) -> Sides:
    """Return the smallest value; the estimate is that of the nodes inside by half or more."""
    met = [node for node in nodes if node.at_most > 0]
    extreme = min((node.lowest for node in met), default=None)
    certain = min(
        (node.lowest if node.at_least == node.n else node.highest for node in met if node.at_least > 0),
        default=None,
    )
    likely = min((node.lowest for node in met if node.share >= 0.5), default=None)
    value = min((each for each in (likely, certain) if each is not None), default=extreme)
    value, low, high = (None if each is None else each / divisor for each in (value, extreme, certain))
    return Sides(value, low, high, extreme == certain)


def greatest(nodes: Sequence[Node], divisor: float, is_exact: bool) -> Sides:
    """Return the largest value: the smallest of the negated values, negated."""
    negated = [node._replace(lowest=-node.highest, highest=-node.lowest) for node in nodes]
    value, high, low, is_sure = least(negated, divisor, is_exact)
    value, low, high = (None if each is None else 0.0 - each for each in (value, low, high))
    return Sides(value, low, high, is_sure)


def mean(nodes: Sequence[Node], divisor: float, is_exact: bool) -> Sides:
    """Return the average; its sides hold if there is any row."""
    met, cut = [node for node in nodes if node.at_most > 0], [node for node in nodes if node.is_cut]
    if not met:
        return Sides(None, None, None, True)
    rows, certain, parts = rows_of(nodes), _certain(nodes, is_exact), [_parts(node) for node in cut]
    pairs = list(zip(cut, parts, strict=True))
    spread = certain + _compensated(min(max(one.total * one.share, low), high) for one, (low, high) in pairs)
    is_settled = all(one.at_least == one.at_most and low == high for one, (low, high) in pairs)
    rounding = SUM_ROUNDING * sum((node.magnitude for node in nodes), 0.0)
    bottom, top = min(node.lowest for node in met), max(node.highest for node in met)
    slack, least_avg, most_avg = rounding / max(rows.low, 1) / divisor, bottom / divisor, top / divisor
    if is_settled:
        low = high = spread / (rows.low * divisor)
    else:
        sure = sum(node.n for node in nodes if node.at_least == node.n)
        sums = [_cut_sums(node) for node in cut]
        lower = [[(k, -least_sum) for k, _, least_sum in one] for one in sums]
        upper = [[(k, most_sum) for k, most_sum, _ in one] for one in sums]
        low = -_largest_ratio(-certain, sure, lower, (-top, -bottom), rounding) / divisor
        high = _largest_ratio(certain, sure, upper, (bottom, top), rounding) / divisor
    if not is_exact:
        low, high = max(low, least_avg) - slack, min(high, most_avg) + slack
    elif is_settled:
        is_short = math.fmod(spread * SHORT_QUOTIENT, rows.low * divisor) == 0
        rest = 0.0 if is_short else QUOTIENT_ROUNDING * abs(low)
        low, high = low - rest, high + rest
    else:
        low, high = max(low - slack, least_avg), min(high + slack, most_avg)
    return Sides(min(max(spread / (rows.spread * divisor), low), high), low, high, is_settled)


AGGREGATES: dict[str, Callable[[Sequence[Node], float, bool], Sides]] = {
    "sum": total,
    "count": count,
    "avg": mean,
    "min": least,
    "max": greatest,
}
# Which sides hold even if rows of the range were forgotten: low, high.
HOLD_WITHOUT_FORGOTTEN = {
    "sum": (False, False),
    "count": (True, False),
    "avg": (False, False),
    "min": (False, True),
    "max": (True, False),
}


def _certain(nodes: Sequence[Node], is_exact: bool) -> float:
    """Return the sum of the nodes that are all inside, in units of the last digit."""
    if not is_exact:
        return _compensated(node.total for node in nodes if node.at_least == node.n)
    return _double(sum(node.exact or 0 for node in nodes if node.at_least == node.n))


def _double(whole: int) -> float:
    """Return a whole number of 128 bits as DuckDB casts it: by halves, so not always to the nearest double."""
    upper, lower = divmod(whole, 2**64)
    return -float(2**64 - 1 - lower) - 1.0 if upper == -1 else float(lower) + float(upper) * 2.0**64


def _compensated(values: Iterable[float]) -> float:
    """Add up as DuckDB's ``fsum``: Kahan's sum, in this order."""
    added_up = error = 0.0
    for value in values:
        added = value - error
        after = added_up + added
        error = (after - added_up) - added
        added_up = after
    return added_up


def _parts(node: Node) -> tuple[float, float]:
    """Return the least and the most that the rows of a cut node inside can sum to."""
    n, total, _, lowest, highest, _, at_least, at_most, _ = node
    up, down = float(at_most), float(at_least)
    if lowest < 0:
        up, down = down, up
    if lowest < 0 < highest:
        spread = highest - lowest
        up = min(max(math.floor((total - n * lowest) / spread), at_least), at_most)
        down = min(max(math.floor((n * highest - total) / spread), at_least), at_most)
    after_up, after_down = min(up + 1, at_most), min(down + 1, at_most)
    return (
        min(
            max(down * lowest, total - (n - down) * highest),
            max(after_down * lowest, total - (n - after_down) * highest),
        ),
        max(
            min(up * highest, total - (n - up) * lowest),
            min(after_up * highest, total - (n - after_up) * lowest),
        ),
    )


def _cut_sums(node: Node) -> list[tuple[float, float, float]]:
    """Return k, and the most and the least that k rows of a cut node can sum to, at each k where either can bend."""
    n, total, _, lowest, highest, _, at_least, at_most, _ = node
    ends = [float(at_least), float(at_most)]
    if highest > lowest:
        bends = ((total - n * lowest) / (highest - lowest), (n * highest - total) / (highest - lowest))
        whole = [round_(bend) for bend in bends for round_ in (math.floor, math.ceil)]
        ends += [float(min(max(k, at_least), at_most)) for k in whole]
    return [
        (k, min(k * highest, total - (n - k) * lowest), max(k * lowest, total - (n - k) * highest))
        for k in set(ends)
    ]


def _largest_ratio(
    certain: float, sure: int, nodes: Sequence[_Sums], between: tuple[float, float], slack: float
) -> float:
    """Return at least the largest (certain + sums) / (sure + ks) over one pair of each node; see ratios.sql."""
    at, ceiling = between
    for _ in range(_CLIMBS):
        best = [_best(node, at) for node in nodes]
        rows = sure + sum((k for _, k, _ in best), 0.0)
        if rows:
            at = max(at, (certain + sum((s for _, _, s in best), 0.0)) / rows)
    here, there = (
        certain - x * sure + sum((_best(node, x)[0] for node in nodes), 0.0) for x in (at, ceiling)
    )
    if here <= slack or ceiling <= at or here <= there:
        return at
    return min(ceiling, at + (ceiling - at) * (here / (here - there)))


def _best(node: _Sums, x: float) -> tuple[float, float, float]:
    return max((s - x * k, k, s) for k, s in node)
