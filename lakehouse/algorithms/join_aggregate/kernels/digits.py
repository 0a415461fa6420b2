"""Sums without any error that can be multiplied by counts, in as few digits as the values at hand need.

A sum is an integer of units of 2^(30 * lowest) in base 2^30, in two's complement: all digits but the last are within
[0, 2^30), the last one is an int64 that has the sign.

    digit |  0  |  1  | ... | last      places of float64: -38 for 2^-1140 to 33 for 2^990
    place lowest                        23.45 has digits at -2, -1 and 0; whole numbers below 2^30 at 0 only

Which places are kept is the same for all sums of a method and grows as values demand (``widened``). What is added can
be taken away again and leaves no trace: a sum depends on what is in it now, on no order and no past.
"""

import math
from typing import Any

import numpy as np
from numba import njit

BITS = 30
_MASK = (1 << BITS) - 1
# The largest count.
MOST = 2**63 - 1
_HALF = 2**31


@njit(cache=True, inline="always")
def _split(value: float) -> Any:
    """Return the place of a value's first digit, and its three digits, without the sign."""
    mantissa, exponent = math.frexp(value)
    whole = np.int64(abs(mantissa) * 2.0**53)
    place = (exponent - 53) // BITS
    shift = exponent - 53 - place * BITS
    low = (whole & _MASK) << shift
    high = ((whole >> BITS) << shift) + (low >> BITS)
    return place, low & _MASK, high & _MASK, high >> BITS


@njit(cache=True)
def places(values: Any, side: Any, aggregates: Any, reach: Any) -> None:
    """Widen ``reach``, the lowest and highest place in use, to what the values that are summed need.

    ``aggregates`` has a row (side, column) for each sum.
    """
    for number in range(len(aggregates)):
        for row in range(len(values)):
            value = values[row, aggregates[number, 1]]
            if side[row] == aggregates[number, 0] and value == value and value != 0.0:
                place, first, second, third = _split(value)
                least = place if first else (place + 1 if second else place + 2)
                most = place + 2 if third else (place + 1 if second else place)
                reach[0], reach[1] = min(reach[0], least), max(reach[1], most)


@njit(cache=True)
def add(table: Any, row: Any, start: Any, digits: Any, lowest: Any, value: float, sign: Any) -> None:
    """Add or take away a finite value whose places are kept; the sum is ``table[row, start : start + digits]``."""
    if value == 0.0:
        return
    first_place, first, second, third = _split(value)
    sign = -sign if value < 0.0 else sign
    at, last, carry = start + first_place - lowest, start + digits - 1, np.int64(0)
    for digit in (first, second, third):
        if start <= at < last:
            carry += table[row, at] + sign * digit
            table[row, at] = carry & _MASK
            carry >>= BITS
        at += 1
    while carry and at < last:
        carry += table[row, at]
        table[row, at] = carry & _MASK
        carry >>= BITS
        at += 1
    table[row, last] += carry


@njit(cache=True, inline="always")
def product(one: Any, other: Any) -> Any:
    """Return a product of counts that are not 0, -1 where it or ``one`` is beyond int64."""
    product = np.int64(-1)
    if one >= 0 and ((one < _HALF and other < _HALF) or one <= MOST // other):
        product = one * other
    return product


@njit(cache=True)
def add_times(
    totals: Any, into: Any, total: Any, table: Any, row: Any, start: Any, digits: Any, count: Any
) -> None:
    """Add ``count`` times a sum, or take it away where ``count`` is negative.

    Last digits may wrap, and come back where the total fits.
    """
    last, shift, left, sign = digits - 1, 0, abs(count), 1 if count > 0 else -1
    while left:
        part, carry = sign * (left & _MASK), np.int64(0)
        for place in range(shift, last):
            carry += totals[into, total + place] + table[row, start + place - shift] * part
            totals[into, total + place] = carry & _MASK
            carry >>= BITS
        for place in range(max(0, last - shift), last + 1):
            carry += (table[row, start + place] * part) << (BITS * (place + shift - last))
        totals[into, total + last] += carry
        left >>= BITS
        shift += 1


@njit(cache=True)
def rounded(table: Any, row: Any, start: Any, digits: Any, lowest: Any) -> Any:
    """Return a sum as ``(high, low)``: together within 2^-104 of it, low being what high has no digits for."""
    last, borrow = digits - 1, np.int64(0)
    rest = table[row, start : start + digits].copy()
    is_negative = rest[last] < 0
    if is_negative:
        for place in range(last):
            borrow -= rest[place]
            rest[place] = borrow & _MASK
            borrow >>= BITS
        rest[last] = borrow - rest[last]
    high, low = 0.0, 0.0
    for place in range(last, -1, -1):
        for shift in range(2 * BITS if place == last else 0, -1, -BITS):
            piece = (rest[place] >> shift) & _MASK
            if piece:
                part = math.ldexp(float(piece), BITS * (lowest + place) + shift)
                together = high + part
                low += part - (together - high)
                high = together
    together = high + low
    low -= together - high
    return (-together, -low) if is_negative else (together, low)


def widened(digits: Any, below: Any, above: Any) -> Any:
    """Return sums, digits in their last axis, with so many more places below and above."""
    shape = *digits.shape[:-1], below + digits.shape[-1] + above
    wide, last = np.zeros(shape, np.int64), below + digits.shape[-1] - 1
    wide[..., below : last + 1] = digits
    for place in range(last, shape[-1] - 1):
        wide[..., place + 1] = wide[..., place] >> BITS
        wide[..., place] &= _MASK
    return wide


def with_wider_sums(block: Any, start: int, digits: int, below: int, above: int) -> Any:
    """Return columns of which those from ``start`` are sums, with so many more digits."""
    sums = widened(block[:, start:].reshape(len(block), -1, digits), below, above)
    return np.concatenate([block[:, :start], sums.reshape(len(block), -1)], axis=1)
