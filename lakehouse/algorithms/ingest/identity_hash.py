"""64-bit hashes of identities over arrays: XXH64, chained from column to column, as Spark's ``xxhash64``.

Each function takes the hashes of the columns before (``SEED`` for the first) and returns those with one more column.
Cost: O(bytes), a handful of array operations per distinct length of a text.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]
SEED = np.uint64(42)
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def with_integers(values: npt.NDArray[np.int64], before: Hashes) -> Hashes:
    """Add a column of 64-bit integers."""
    return _mixed(_with_word(before + _P5 + np.uint64(8), values.view(np.uint64)))


def with_doubles(values: npt.NDArray[np.float64], before: Hashes) -> Hashes:
    """Add a column of doubles; both zeros are the same number, and so are all that are none."""
    return with_integers(np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64), before)


def with_halves(values: npt.NDArray[np.uint32], before: Hashes) -> Hashes:
    """Add a column of 32-bit integers, or of truth values as 0 and 1."""
    return _mixed(_with_half(before + _P5 + np.uint64(4), values.astype(np.uint64)))


def with_bytes(content: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], before: Hashes) -> Hashes:
    """Add a column of bytes: those of row i stand in ``content`` from ``offsets[i]`` up to ``offsets[i + 1]``."""
    found = np.empty(len(before), np.uint64)
    lengths = np.diff(offsets)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        places = offsets[:-1][rows, None] + np.arange(length)
        found[rows] = _of_equal_length(content[places], before[rows])
    return found


def _of_equal_length(texts: npt.NDArray[np.uint8], before: Hashes) -> Hashes:
    length = texts.shape[1]
    words = _numbers(texts, 0, length // 8, "<u8")
    stripes = length // 32
    found = _striped(words[:, : stripes * 4], before) if stripes else before + _P5
    found = found + np.uint64(length)
    for place in range(stripes * 4, words.shape[1]):
        found = _with_word(found, words[:, place])
    end = length // 8 * 8
    if length - end >= 4:
        found = _with_half(found, _numbers(texts, end, 1, "<u4")[:, 0])
        end += 4
    for place in range(end, length):
        found = _turned(found ^ texts[:, place].astype(np.uint64) * _P5, 11) * _P1
    return _mixed(found)


def _numbers(texts: npt.NDArray[np.uint8], start: int, count: int, kind: str) -> npt.NDArray[np.uint64]:
    """Return so many little-endian numbers per row from a place on."""
    taken = np.ascontiguousarray(texts[:, start : start + count * np.dtype(kind).itemsize])
    if not count:
        return np.empty((len(texts), 0), np.uint64)
    return taken.view(kind).astype(np.uint64)


def _striped(words: npt.NDArray[np.uint64], before: Hashes) -> Hashes:
    lanes = [before + _P1 + _P2, before + _P2, before.copy(), before - _P1]
    for place in range(0, words.shape[1], 4):
        lanes = [_lane(lane + words[:, place + n] * _P2) for n, lane in enumerate(lanes)]
    found = sum((_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for lane in lanes:
        found = (found ^ _lane(lane * _P2)) * _P1 + _P4
    return np.asarray(found, np.uint64)


def _lane(value: Any) -> Any:
    return _turned(value, 31) * _P1


def _with_word(before: Hashes, word: npt.NDArray[np.uint64]) -> Hashes:
    return _turned(before ^ _lane(word * _P2), 27) * _P1 + _P4


def _with_half(before: Hashes, half: npt.NDArray[np.uint64]) -> Hashes:
    return _turned(before ^ (half * _P1), 23) * _P2 + _P3


def _turned(value: Hashes, by: int) -> Hashes:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


def _mixed(value: Hashes) -> Hashes:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))
