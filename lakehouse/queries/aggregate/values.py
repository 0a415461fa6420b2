"""Values of aggregates as methods take them: columns of float64 from which sums and extremes come back exactly.

    an int, a decimal  two or three limbs of a whole number in units of its scale (contract.py)
    a double           as it is; for sums it is 0 where it is infinite, and two columns behind it say so

A sum with an infinity is infinite, or no number with both; whether one is in it is counted, so that it leaves no trace.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehouse.algorithms.join_aggregate.contract import LIMB_BITS, Bools, Float64s, Int64s
from lakehouse.queries.aggregate.query import Value
from lakehouse.queries.runtime.exact_numbers import decimals_of, halves_of

UInt64s = npt.NDArray[np.uint64]

_BITS, _64, _MASK = np.uint64(LIMB_BITS), np.uint64(64), np.uint64(2**LIMB_BITS - 1)
# Beyond it a number has more than 38 digits, whatever is lost of it.
_FAR = 1.01e38


class BeyondRange(ValueError):
    """A sum of more than 38 digits; ``row`` is the first that has one."""

    def __init__(self, row: int, number: object) -> None:
        super().__init__(str(number))
        self.row, self.number = row, number


def columns_of(value: Value, column: pa.Array) -> Float64s:
    """Return the columns of a value, NaN for null."""
    if value.scale is None:
        return _doubles(value, column.fill_null(np.nan).to_numpy(zero_copy_only=False))
    limbs = _limbs_of(halves_of(column))[:, : value.limbs]
    limbs[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return limbs


def _doubles(value: Value, numbers: Float64s) -> Float64s:
    if not value.is_added:
        return numbers.reshape(-1, 1)
    is_infinite = np.isinf(numbers)
    signs = (np.where(is_infinite & (numbers * sign > 0), 1.0, np.nan) for sign in (1, -1))
    own = [numbers] if value.has_extremes else []
    return np.column_stack([np.where(is_infinite, 0.0, numbers), *signs, *own])


def _limbs_of(halves: Int64s) -> Float64s:
    """Return integers of 128 bits in three limbs, the lowest first."""
    is_negative = halves[:, 1] < 0
    lower, upper = (np.ascontiguousarray(half).view(np.uint64) for half in halves.T)
    lower, upper = _opposite(lower, upper, is_negative)
    middle = (lower >> _BITS) | ((upper << (_64 - _BITS)) & _MASK)
    limbs = np.column_stack([lower & _MASK, middle, upper >> (_BITS + _BITS - _64)]).astype(np.float64)
    return np.where(is_negative.reshape(-1, 1), 0.0 - limbs, limbs)


def _opposite(lower: UInt64s, upper: UInt64s, which: Bools) -> tuple[UInt64s, UInt64s]:
    """Return integers of 128 bits, some of them with the other sign."""
    return np.where(which, -lower, lower), np.where(which, ~upper + (lower == 0), upper)


def numbers_of(value: Value, limbs: Float64s, is_null: Bools, *, as_int: bool = False) -> pa.Array:
    """Return numbers from their limbs, the lowest first, as decimals of 38 digits or as ints.

    Raises BeyondRange when a number has more digits.
    """
    limbs = np.where(is_null.reshape(-1, 1), 0.0, limbs)
    about = limbs @ 2.0 ** (LIMB_BITS * np.arange(limbs.shape[1]))
    is_far = np.abs(about) > _FAR
    low, middle, *rest = np.abs(np.where(is_far.reshape(-1, 1), 0.0, limbs)).astype(np.uint64).T
    high = rest[0] if rest else np.zeros_like(low)
    lower, upper = low | (middle << _BITS), (middle >> (_64 - _BITS)) | (high << (_BITS + _BITS - _64))
    most = divmod(10**38 - 1, 2**64)
    is_far |= (upper > most[0]) | ((upper == most[0]) & (lower > np.uint64(most[1])))
    if len(far := np.flatnonzero(is_far)):
        raise BeyondRange(int(far[0]), f"about {about[far[0]] / 10.0 ** (value.scale or 0):.6g}")
    halves = np.column_stack(_opposite(lower, upper, about < 0)).view(np.int64)
    if as_int:
        return pa.array(halves[:, 0], mask=is_null)
    return decimals_of(halves, value.scale or 0, is_null)
