"""The slacks that are tried: multiples of a granularity up to 64 of them, then growing by 8 %.

A *needed slack* is how much slack a pair would have needed to be found online. Bin 0 holds needs below zero, which
slack 0 covers; bin i holds needs in ``[upper[i-1], upper[i])``, which slack ``upper[i]`` covers and no smaller
one does. The last bin is open: nothing covers it.
"""

from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.late_join.contract import Int64s

LINEAR = 64
LARGEST_US = 2**45
LARGEST_EXACT = 2**50


def slack_grid(granularity_us: int) -> Int64s:
    """Return the slacks in microseconds, ascending from 0; about 300 of them, the last beyond a year."""
    if granularity_us < 1:
        raise ValueError(f"expected a granularity of at least 1 us, found {granularity_us}")
    slacks = [step * granularity_us for step in range(LINEAR + 1)]
    while slacks[-1] < LARGEST_US:
        slacks.append(-(-slacks[-1] * 108 // (100 * granularity_us)) * granularity_us)
    return np.array(slacks, np.int64)


@njit(cache=True)
def bin_of(grid: Any, needed_us: int, per_us: float) -> Any:
    """Return the bin of a needed slack; the number of slacks for one that nothing covers.

    ``per_us`` is ``1 / grid[1]``, which callers work out once.
    """
    if needed_us < 0:
        return 0
    if needed_us < grid[LINEAR]:
        return 1 + quotient(needed_us, grid[1], per_us)
    return np.searchsorted(grid, needed_us, side="right")


@njit(cache=True)
def quotient(dividend: int, divisor: int, inverse: float) -> Any:
    """Return ``dividend // divisor``, given about ``1 / divisor``: a product costs a fraction of a division.

    What the product is wrong by, the remainder tells. Numbers that a double does not hold are divided.
    """
    if dividend > LARGEST_EXACT or dividend < -LARGEST_EXACT:
        return dividend // divisor
    found = np.int64(dividend * inverse)
    rest = dividend - found * divisor
    return found + np.int64(rest >= divisor) - np.int64(rest < 0)
