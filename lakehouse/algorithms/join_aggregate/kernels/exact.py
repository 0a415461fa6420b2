"""Sums without any error: a wide integer of units of 2^-1074, of which every float64 is a whole number.

    limbs | 2^-1074 ... | ......... | 1.0 ....... | ... 2^1023 | sign
            uint32 [0]    [1]  ...    [33]          [65]          two's complement

What is added can be taken away again and leaves no trace: a sum depends on what is in it now, on no order and no past.
"""

import math
from typing import Any

import numpy as np
from numba import njit

# Every finite float64 fits, and 2^13 of the largest one.
LIMBS = 66
_MASK = 0xFFFFFFFF


@njit(cache=True)
def add(limbs: Any, value: float) -> None:
    """Add a finite float64; take one away by adding what it is negated."""
    if value == 0.0:
        return
    mantissa, exponent = math.frexp(value)
    whole, place = np.int64(abs(mantissa) * 2.0**53), exponent + 1021
    if place < 0:
        # A subnormal: the bits that go are zeros.
        whole, place = whole >> -place, 0
    sign = -1 if value < 0.0 else 1
    at, shift = place >> 5, place & 31
    low, high = (whole & _MASK) << shift, (whole >> 32) << shift
    carry = np.int64(limbs[at]) + sign * (low & _MASK)
    limbs[at] = carry & _MASK
    carry = (carry >> 32) + np.int64(limbs[at + 1]) + sign * ((low >> 32) + (high & _MASK))
    limbs[at + 1] = carry & _MASK
    carry = (carry >> 32) + np.int64(limbs[at + 2]) + sign * (high >> 32)
    limbs[at + 2] = carry & _MASK
    carry >>= 32
    at += 3
    while carry != 0 and at < LIMBS:
        carry += np.int64(limbs[at])
        limbs[at] = carry & _MASK
        carry >>= 32
        at += 1


@njit(cache=True)
def rounded(limbs: Any) -> Any:
    """Return a sum as ``(high, low)``: together within 2^-104 of it, low being what high has no digits for."""
    high = _leading(limbs)
    rest = limbs.copy()
    add(rest, -high)
    low = _leading(rest)
    total = high + low
    return total, low - (total - high)


@njit(cache=True)
def _leading(limbs: Any) -> Any:
    """Return a sum to about 2^-52, exactly where float64 has it."""
    fill = np.int64(_MASK) if limbs[LIMBS - 1] >> 31 else np.int64(0)
    top = LIMBS - 1
    while top > 2 and np.int64(limbs[top]) == fill:
        top -= 1
    first = np.int64(limbs[top]) - (fill + 1 if fill else 0)
    leading = (float(first) * 2.0**32 + float(limbs[top - 1])) * 2.0**32 + float(limbs[top - 2])
    return math.ldexp(leading, 32 * (top - 2) - 1074)


@njit(cache=True)
def two_sum(one: float, other: float) -> Any:
    """Return ``(sum, error)``: the rounded sum of two floats and exactly what rounding cut off (Knuth)."""
    together = one + other
    seen = together - one
    return together, (one - (together - seen)) + (other - seen)
