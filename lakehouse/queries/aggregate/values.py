"""Values of aggregates as methods take them: columns of float64 from which sums and extremes come back exactly.

    a double           one column, as it is
    an int, a decimal  for sums its limbs: integers whose sums a method has exactly, up to 2^62 results
                       for extremes its code: the float64 of the same bits, which are in the same order

A number is an integer in units of its scale: two limbs for an int, three for a decimal of up to 38 digits.

    limb    [0] 42 bits    [1] 42 bits    [2] the rest, with the sign
"""

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import LARGEST_VALUE, Bools, Float64s, Int64s
from lakehouse.queries.aggregate.query import Value
from lakehouse.queries.runtime.exact_numbers import decimals_of, halves_of

BITS = 42
_MASK = 2**BITS - 1
# The sums of more results could lose digits.
_LARGEST_SUM = 2.0**104
_LARGEST_CODE = int(np.float64(LARGEST_VALUE).view(np.int64))


def range_of(value: Value) -> str:
    """Return the numbers that are taken, in words."""
    if value.scale is None:
        return f"within +-{LARGEST_VALUE:.3g}"
    return f"within +-{_LARGEST_CODE:.3g}{f' units of 1e-{value.scale}' if value.scale else ''}"


class BeyondRange(ValueError):
    """A number that no method takes; ``row`` is the first that has one."""

    def __init__(self, row: int, number: object) -> None:
        super().__init__(str(number))
        self.row, self.number = row, number


def columns_of(value: Value, column: pa.Array) -> Float64s:
    """Return the columns of a value, NaN for null.

    Raises BeyondRange when a double beyond +-2^900, or an int or decimal whose extremes are asked for beyond +-8.66e18
    units.
    """
    if value.scale is None:
        return _doubles(column)
    halves, is_null = halves_of(column), column.is_null().to_numpy(zero_copy_only=False)
    columns = [limb.astype(np.float64) for limb in _limbs(halves, value.limbs, value.is_whole)]
    if value.has_code:
        columns.append(_codes(column, halves, ~is_null))
    whole = np.column_stack(columns)
    whole[is_null] = np.nan
    return whole


def _doubles(column: pa.Array) -> Float64s:
    numbers: Float64s = column.fill_null(np.nan).to_numpy(zero_copy_only=False)
    if len(beyond := np.flatnonzero(np.abs(numbers) > LARGEST_VALUE)):
        raise BeyondRange(int(beyond[0]), numbers[beyond[0]])
    return numbers.reshape(-1, 1)


def _limbs(halves: Int64s, limbs: int, is_whole: bool) -> list[Int64s]:
    lower, upper = halves[:, 0], halves[:, 1]
    middle = lower >> BITS
    if not is_whole:
        middle = (middle & (2 ** (64 - BITS) - 1)) | ((upper & (2 ** (2 * BITS - 64) - 1)) << (64 - BITS))
    return [lower & _MASK, middle, upper >> (2 * BITS - 64)][:limbs]


def _codes(column: pa.Array, halves: Int64s, is_known: Bools) -> Float64s:
    lower, upper = halves[:, 0], halves[:, 1]
    fits = (upper == lower >> 63) & (lower >= -_LARGEST_CODE) & (lower <= _LARGEST_CODE)
    if len(beyond := np.flatnonzero(is_known & ~fits)):
        raise BeyondRange(int(beyond[0]), column[int(beyond[0])].as_py())
    magnitudes: Float64s = np.abs(np.where(fits, lower, 0)).view(np.float64)
    return np.where(lower < 0, -magnitudes, magnitudes)


def extremes_of(value: Value, codes: Float64s) -> pa.Array:
    """Return the numbers of codes, null for NaN."""
    bits, is_null = codes.view(np.int64), np.isnan(codes)
    numbers = np.where(bits < 0, -(bits & (2**63 - 1)), bits)
    if value.is_whole:
        return pa.array(numbers, mask=is_null)
    return decimals_of(np.column_stack([numbers, numbers >> 63]), value.scale or 0, is_null)


def sums_of(value: Value, high: Float64s, low: Float64s, is_null: Bools) -> pa.Array:
    """Return the sums of a number from those of its limbs, rows x limbs.

    Raises BeyondRange when a sum has more than 38 digits.
    """
    about = (high * 2.0 ** (BITS * np.arange(value.limbs))).sum(axis=1)
    lost = np.any(np.abs(high) >= _LARGEST_SUM, axis=1) | (np.abs(about) > 1.01e38)
    lower, upper = np.zeros((2, len(high)), np.uint64)
    for limb in range(value.limbs):
        for part in (high[:, limb], low[:, limb]):
            more_lower, more_upper = _shifted(part, BITS * limb)
            lower = lower + more_lower
            upper = upper + more_upper + (lower < more_lower)
    halves = np.column_stack([lower, upper]).view(np.int64)
    lost |= _is_long(halves)
    if len(beyond := np.flatnonzero(lost & ~is_null)):
        raise BeyondRange(int(beyond[0]), f"about {about[beyond[0]] / 10.0 ** (value.scale or 0):.6g}")
    return decimals_of(halves, value.scale or 0, is_null)


def _shifted(numbers: Float64s, by: int) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers times 2^by as halves of integers of 128 bits, which wrap."""
    fraction, exponent = np.frexp(numbers)
    digits, shift = (fraction * 2.0**53).astype(np.int64), exponent.astype(np.int64) - 53
    digits, shift = digits >> np.clip(-shift, 0, 63), np.maximum(shift, 0) + by
    upper, lower = digits >> 63, digits.view(np.uint64)
    is_far, near = shift >= 64, np.minimum(shift, 63).astype(np.uint64)
    far = np.clip(shift - 64, 0, 63).astype(np.uint64)
    # A shift by 64 would be none: it is done as one by 1 and one by 63.
    carried = (lower >> np.uint64(1)) >> (np.uint64(63) - near)
    high = np.where(is_far, lower << far, (upper.view(np.uint64) << near) | carried)
    return np.where(is_far, np.uint64(0), lower << near), high


_MOST = 10**38 - 1


def _is_long(halves: Int64s) -> Bools:
    """Tell which integers have more than 38 digits."""
    lower, upper = halves[:, 0].view(np.uint64), halves[:, 1]
    most, least = divmod(_MOST, 2**64), divmod(-_MOST, 2**64)
    above = (upper > most[0]) | ((upper == most[0]) & (lower > np.uint64(most[1])))
    below = (upper < least[0]) | ((upper == least[0]) & (lower < np.uint64(least[1])))
    long: Bools = above | below
    return long
