"""A vector in few bytes, for its way to the centre: entries as the steps between them, then counts, compressed.

Of a hundred thousand rows with keys of their own an entry takes a byte or so.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.multiway_join.contract import Vector

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s

_LARGEST = 2**32 - 1


def pack(vector: Vector) -> bytes:
    """Return a vector without sums as bytes; O(entries).

    Raises:
        ValueError: an entry or a count is not from 0 to 2^32 - 1.

    >>> unpack(pack(Vector.of([3, 70], [1, 9]))).counts.tolist()
    [1, 9]
    """
    entries, counts = vector.entries, vector.counts
    for what, numbers in (("entries", entries), ("counts", counts)):
        if len(numbers) and (numbers.min() < 0 or numbers.max() > _LARGEST):
            raise ValueError(
                f"expected {what} from 0 to {_LARGEST}, found {numbers.min()} to {numbers.max()}"
            )
    steps = np.diff(entries, prepend=0)
    # Bytes of one weight stand together: most of the high ones are 0.
    columns = np.concatenate([steps, counts]).astype("<u4").view(np.uint8).reshape(-1, 4)
    return zlib.compress(columns.T.tobytes(), 1)


def unpack(packed: bytes) -> Vector:
    """Return the vector that bytes were made of."""
    columns = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(4, -1)
    numbers: Int64s = np.ascontiguousarray(columns.T).view("<u4").ravel().astype(np.int64)
    half = len(numbers) // 2
    entries = np.cumsum(numbers[:half])
    return Vector(entries, numbers[half:], np.zeros((half, 0), np.int64))
