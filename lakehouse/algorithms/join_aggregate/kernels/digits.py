"""Sums without any error that can be multiplied by counts, in as few digits as the values at hand need.

A sum is an integer of units of 2^(30 * lowest) in base 2^30, in two's complement: all digits but the last are within
[0, 2^30), the last one is an int64 that has the sign.

    digit |  0  |  1  | ... | last      places of float64: -36 for 2^-1080 to 34 for 2^1020
    place lowest                        23.45 has digits at -2, -1 and 0; whole numbers below 2^30 at 0 only

Which places are kept is the same for all sums of a method and grows as values demand (``widened``). What is added can
be taken away again and leaves no trace: a sum depends on what is in it now, on no order and no past.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import LIMB_BITS

BITS = 30
_MASK = (1 << BITS) - 1
# What a number's limbs are in units of (contract.py).
_UNITS = (1.0, 2.0**LIMB_BITS, 2.0 ** (2 * LIMB_BITS))
_LIMB = (1 << LIMB_BITS) - 1
# Sums of doubles from 2^960 on are shown as ones of these units: 2^63 of the largest double are in range.
_LARGE, _POWER = 960, 128
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

    ``aggregates`` has a row (side, column, limbs) for each sum.
    """
    for number in range(len(aggregates)):
        for row in range(len(values)):
            for limb in range(aggregates[number, 2] if side[row] == aggregates[number, 0] else 0):
                value = values[row, aggregates[number, 1] + limb] * _UNITS[limb]
                if value == value and value != 0.0:
                    place, first, second, third = _split(value)
                    least = place if first else (place + 1 if second else place + 2)
                    most = place + 2 if third else (place + 1 if second else place)
                    reach[0], reach[1] = min(reach[0], least), max(reach[1], most)


@njit(cache=True)
def add_number(
    table: Any,
    row: Any,
    start: Any,
    digits: Any,
    lowest: Any,
    values: Any,
    at: Any,
    column: Any,
    limbs: Any,
    sign: Any,
) -> None:
    """Add or take away the number of so many limbs in ``values[at]``, from a column on."""
    for limb in range(limbs):
        value = values[at, column + limb]
        if value != 0.0:
            add(table, row, start, digits, lowest, value * _UNITS[limb], sign)


@njit(cache=True)
def add(table: Any, row: Any, start: Any, digits: Any, lowest: Any, value: float, sign: Any) -> None:
    """Add or take away a finite value but 0 whose places are kept: to ``table[row, start : start + digits]``."""
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
def shown(table: Any, row: Any, start: Any, digits: Any, lowest: Any, limbs: Any) -> Any:
    """Return a sum as ``high, low, extreme`` of partials (contract.py), which of doubles is within 2^-104 of it."""
    last, borrow, sign = digits - 1, np.int64(0), 1.0
    rest = table[row, start : start + digits].copy()
    if rest[last] < 0:
        sign = -1.0
        for place in range(last):
            borrow -= rest[place]
            rest[place] = borrow & _MASK
            borrow >>= BITS
        rest[last] = borrow - rest[last]
    high, low, extreme = _limbs(rest, lowest) if limbs > 1 else _floats(rest, lowest)
    return sign * high, sign * low, sign * extreme if limbs > 1 else extreme


@njit(cache=True)
def _floats(rest: Any, lowest: Any) -> Any:
    high, low, power, last = 0.0, 0.0, 0, len(rest) - 1
    for place in range(last, -1, -1):
        for shift in range(2 * BITS if place == last else 0, -1, -BITS):
            piece, exponent = (rest[place] >> shift) & _MASK, BITS * (lowest + place) + shift
            if piece:
                power = _POWER if exponent >= _LARGE else power
                part = math.ldexp(float(piece), exponent - power)
                together = high + part
                low += part - (together - high)
                high = together
    together = high + low
    low -= together - high
    return together, low, float(power) if power else np.nan


@njit(cache=True)
def _limbs(rest: Any, lowest: Any) -> Any:
    """Return the middle, lowest and highest limb of a whole number; the highest is rounded from 2^53 on."""
    low, middle, high, last = np.int64(0), np.int64(0), 0.0, len(rest) - 1
    for place in range(max(-lowest, 0), last + 1):
        for shift in range(0, 3 * BITS if place == last else BITS, BITS):
            piece, bits = (rest[place] >> shift) & _MASK, BITS * (lowest + place) + shift
            if bits >= 2 * LIMB_BITS:
                high += math.ldexp(float(piece), bits - 2 * LIMB_BITS)
            elif bits >= LIMB_BITS:
                middle += (piece << (bits - LIMB_BITS)) & _LIMB
                high += float(piece >> (2 * LIMB_BITS - bits))
            else:
                low += (piece << bits) & _LIMB
                middle += piece >> (LIMB_BITS - bits)
    return float(middle), float(low), high


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
