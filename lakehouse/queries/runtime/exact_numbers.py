"""Whole numbers and decimals as integers of 128 bits, each as its lower and its upper half."""

import numpy as np
import pyarrow as pa

from lakehouse.algorithms.late_join.contract import Int64s


def halves_of(column: pa.Array) -> Int64s:
    """Return the lower and the upper half of each number, in units of its scale; those of a null are of no meaning."""
    content = column.buffers()[1] or b""
    if pa.types.is_decimal(column.type):
        return np.frombuffer(content, np.int64).reshape(-1, 2)[column.offset : column.offset + len(column)]
    lower = np.frombuffer(content, np.int64)[column.offset : column.offset + len(column)]
    return np.column_stack([lower, lower >> 63])


def decimals_of(halves: Int64s, scale: int, is_null: np.ndarray) -> pa.Array:
    """Return decimals of 38 digits from their halves."""
    valid = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(halves))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(halves), [valid, content])
