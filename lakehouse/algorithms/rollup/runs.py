"""Runs of readings that stand in order of their nodes, folded: their extremes, and their sums as two doubles.

A reading stands for so many values, between the least and the greatest, seen from a first to a last time. That of a row
is one value at one time, or none. A sum is ``total + carry``: the carry is what rounding cut off the total. Any order
and any grouping of N additions is off by at most ``3 N u^2`` of the sum of sizes (u = 2^-53), and the total alone is
the pair's nearest double.

Cost: one pass, a few operations a reading for extremes, 20 for a sum.
Source: Joldes, Muller, Popescu 2017 (see rounding.py), AccurateDWPlusDW. lakehouse/serving/publish/changes.py says
the same as an expression.
"""

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def sum_runs(
    offsets: Any, totals: Any, carries: Any, is_value: Any, sums: Any, rests: Any, is_sum: Any
) -> None:
    """Add up each run ``offsets[i]:offsets[i + 1]`` of pairs into ``sums[i] + rests[i]``.

    ``is_value``: which pairs are there at all; ``is_sum[i]`` becomes whether one of the run is.
    """
    for run in range(len(offsets) - 1):
        total, carry, seen = 0.0, 0.0, False
        for row in range(offsets[run], offsets[run + 1]):
            if is_value[row]:
                seen = True
                total, carry = added(total, carry, totals[row], carries[row])
        sums[run], rests[run] = total, carry if np.isfinite(carry) else 0.0
        is_sum[run] = seen


@njit(cache=True)
def added(total: float, carry: float, other: float, other_carry: float) -> Any:
    """Return the sum of two pairs, as a pair."""
    high, lost = _two_sum(total, other)
    low, lost_low = _two_sum(carry, other_carry)
    high, lost = _quick_sum(high, lost + low)
    return _quick_sum(high, lost_low + lost)


@njit(cache=True)
def _two_sum(one: float, other: float) -> Any:
    """Return the rounded sum and what was cut off (Knuth)."""
    together = one + other
    seen = together - one
    return together, (one - (together - seen)) + (other - seen)


@njit(cache=True)
def _quick_sum(large: float, small: float) -> Any:
    """As _two_sum, where the first is zero or not the smaller one (Dekker)."""
    together = large + small
    return together, small - (together - large)


@njit(cache=True, nogil=True)
def fold_runs(
    edges: Any,
    counts: Any,
    lows: Any,
    highs: Any,
    firsts: Any,
    lasts: Any,
    totals: Any,
    ends: Any,
    times: Any,
) -> None:
    """Fold each run ``edges[i]:edges[i + 1]`` into ``totals[i]``, ``ends[:, i]`` and ``times[:, i]``.

    ``totals``: how many values; ``ends``, of two rows: the least and the greatest; ``times``: the first and the last
    time. The latter two mean nothing where there is no value.
    """
    for run in range(len(edges) - 1):
        seen = 0
        for row in range(edges[run], edges[run + 1]):
            if counts[row] == 0:
                continue
            if seen == 0:
                ends[0, run], ends[1, run] = lows[row], highs[row]
                times[0, run], times[1, run] = firsts[row], lasts[row]
            else:
                ends[0, run] = min(ends[0, run], lows[row])
                ends[1, run] = max(ends[1, run], highs[row])
                times[0, run] = min(times[0, run], firsts[row])
                times[1, run] = max(times[1, run], lasts[row])
            seen += counts[row]
        totals[run] = seen
