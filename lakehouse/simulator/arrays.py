"""Arrow arrays made straight from memory: ``pa.array`` would import pandas first, which costs a second."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def integers(values: npt.NDArray[np.int64]) -> Any:
    """Return an int64 array that shares the values' memory."""
    whole = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def doubles(values: npt.NDArray[np.float64]) -> Any:
    """Return a float64 array that shares the values' memory."""
    whole = np.ascontiguousarray(values, np.float64)
    return pa.Array.from_buffers(pa.float64(), len(whole), [None, pa.py_buffer(whole)])


def booleans(values: npt.NDArray[np.bool_]) -> Any:
    """Return a boolean array, packed eight to a byte."""
    packed = np.packbits(values, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(packed)])


def strings(values: Sequence[str]) -> Any:
    """Return a string array."""
    return _variable(pa.string(), [value.encode() for value in values])


def constant(value: bytes) -> Any:
    """Return one binary value that Arrow repeats for every row."""
    return _variable(pa.binary(), [value])[0]


def _variable(kind: Any, parts: Sequence[bytes]) -> Any:
    ends = np.cumsum([0, *(len(part) for part in parts)]).astype(np.int32)
    return pa.Array.from_buffers(kind, len(parts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(parts))])
