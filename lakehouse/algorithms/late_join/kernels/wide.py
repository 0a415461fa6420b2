"""Exact numbers of two words: a lower one without a sign, an upper one with it. Inlined into the loops of joins.

Numbers are within +-2^125 and what is added to them within +-2^126, so neither sums nor differences leave 128 bits.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import MISSING

_ONE, _HALF, _TOP = np.uint64(1), np.uint64(32), np.uint64(63)
_LOWER = np.uint64(2**32 - 1)


def words_of(number: int) -> tuple[int, int]:
    """Return the lower and the upper word of a number."""
    return number % 2**64, number >> 64


@njit(cache=True)
def difference(words: Any, at: Any, others: Any, where: Any, column: Any) -> Any:
    """Return by how much two numbers differ: the lower word, and the upper one, which is not negative."""
    one, two = np.uint64(words[at, column]), np.uint64(others[where, column])
    low = one - two
    high = words[at, column + 1] - others[where, column + 1] - np.int64(one < two)
    # Without a branch: the sign of a difference cannot be guessed.
    sign = high >> np.int64(63)
    low = (low ^ np.uint64(sign)) - np.uint64(sign)
    return low, (high ^ sign) + np.int64((low == 0) & (sign != 0))


@njit(cache=True)
def is_at_most(low: Any, high: Any, most_low: Any, most_high: Any) -> Any:
    """Tell if a number is at most another."""
    return (high < most_high) | ((high == most_high) & (low <= most_low))


@njit(cache=True)
def order_of_sum(
    words: Any, at: Any, left: Any, others: Any, where: Any, right: Any, low: Any, high: Any
) -> Any:
    """Return -1.0, 0.0 or 1.0 as a number is below, equal to or above another plus a bound; NaN if one is missing."""
    if words[at, left + 1] == MISSING or others[where, right + 1] == MISSING:
        return np.nan
    one, two = np.uint64(words[at, left]), np.uint64(others[where, right])
    sum_low = two + low
    sum_high = others[where, right + 1] + high + np.int64(sum_low < two)
    upper = words[at, left + 1]
    if upper == sum_high and one == sum_low:
        return 0.0
    return -1.0 if upper < sum_high or (upper == sum_high and one < sum_low) else 1.0


@njit(cache=True)
def are_within(x_low: Any, x_high: Any, y_low: Any, y_high: Any, radius_low: Any, radius_high: Any) -> Any:
    """Tell if ``x*x + y*y <= radius*radius``; ``x`` is at most ``radius``, none is negative."""
    if not is_at_most(y_low, y_high, radius_low, radius_high):
        return False
    x, y = _square(x_low, np.uint64(x_high)), _square(y_low, np.uint64(y_high))
    most, carry = _square(radius_low, np.uint64(radius_high)), np.uint64(0)
    above, below = False, False
    for place in range(4):
        part = x[place] + carry
        carry = np.uint64(part < carry)
        part += y[place]
        carry += np.uint64(part < y[place])
        if part != most[place]:
            above, below = part > most[place], part < most[place]
    return below or not above


@njit(cache=True)
def _square(low: Any, high: Any) -> Any:
    """Return the four words of a square, the lowest first."""
    first, carried = _product(low, low)
    mixed, mixed_high = _product(low, high)
    top, top_high = _product(high, high)
    twice, twice_high = mixed << _ONE, mixed_high << _ONE | mixed >> _TOP
    second = carried + twice
    more = np.uint64(second < twice)
    third = top + twice_high
    most = np.uint64(third < twice_high)
    third += more
    most += np.uint64(third < more)
    return first, second, third, top_high + (mixed_high >> _TOP) + most


@njit(cache=True)
def _product(one: Any, two: Any) -> Any:
    """Return the lower and the upper word of a product of words."""
    a, b, c, d = one & _LOWER, one >> _HALF, two & _LOWER, two >> _HALF
    low, middle, other = a * c, a * d, b * c
    carried = (low >> _HALF) + (middle & _LOWER) + (other & _LOWER)
    high = b * d + (middle >> _HALF) + (other >> _HALF) + (carried >> _HALF)
    return one * two, high
