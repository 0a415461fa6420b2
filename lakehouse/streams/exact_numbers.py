"""Whole numbers and decimals of Arrow as whole numbers of 64 bits, and back: of a decimal, its digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def as_integers(column: pa.Array) -> npt.NDArray[np.int64] | None:
    """Return whole numbers or decimals, 0 for nulls; None where one needs more than 64 bits."""
    is_valid = column.is_valid().to_numpy(zero_copy_only=False)
    if not pa.types.is_decimal128(column.type):
        return np.asarray(pc.fill_null(column, 0).cast(pa.int64()).to_numpy(zero_copy_only=False))
    halves = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 2)
    low, high = halves[column.offset : column.offset + len(column)].T
    is_short = high == low >> 63
    return np.where(is_valid, low, 0) if np.all(is_short | ~is_valid) else None


def as_decimals(
    numbers: npt.NDArray[Any], kind: pa.Decimal128Type, is_null: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return decimals of such digits, null where said."""
    halves = np.stack([numbers, numbers >> 63], axis=1).astype(np.int64)
    whole = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(halves))])
    return pc.if_else(pa.array(is_null), pa.scalar(None, kind), whole)
