"""Digests of packets: XXH64 of the bytes of each, compiled, for packets of any length side by side in one buffer.

``identity_hash`` has the same function over arrays, with some operations per distinct length: packets have a thousand.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lakehouse.algorithms.ingest.identity_hash import SEED

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(0x9E3779B185EBCA87),
    np.uint64(0xC2B2AE3D27D4EB4F),
    np.uint64(0x165667B19E3779F9),
    np.uint64(0x85EBCA77C2B2AE63),
    np.uint64(0x27D4EB2F165667C5),
)


def digests(
    buffer: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """Return the hash of ``size[i]`` bytes from ``start[i]`` on, for each i; cost O(bytes)."""
    found = np.empty(len(start), np.uint64)
    _digests(buffer, start, size, SEED, found)
    return found


@njit(cache=True)
def _digests(buffer: Any, start: Any, size: Any, seed: Any, found: Any) -> None:
    for row in range(len(start)):
        found[row] = _digest(buffer, start[row], size[row], seed)


@njit(cache=True)
def _digest(buffer: Any, at: int, size: int, seed: Any) -> Any:
    end = at + size
    if size >= 32:
        one, two, three, four = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at + 32 <= end:
            one = _lane(one + _word(buffer, at) * _P2)
            two = _lane(two + _word(buffer, at + 8) * _P2)
            three = _lane(three + _word(buffer, at + 16) * _P2)
            four = _lane(four + _word(buffer, at + 24) * _P2)
            at += 32
        value = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
        for lane in (one, two, three, four):
            value = (value ^ _lane(lane * _P2)) * _P1 + _P4
    else:
        value = seed + _P5
    return _mixed(_ended(buffer, at, end, value + np.uint64(size)))


@njit(cache=True)
def _ended(buffer: Any, at: int, end: int, value: Any) -> Any:
    """Add the bytes after the last whole stripe."""
    while at + 8 <= end:
        value = _turned(value ^ _lane(_word(buffer, at) * _P2), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        value = _turned(value ^ (_half(buffer, at) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        value = _turned(value ^ np.uint64(buffer[at]) * _P5, 11) * _P1
        at += 1
    return value


@njit(cache=True)
def _mixed(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@njit(cache=True)
def _word(buffer: Any, at: int) -> Any:
    return _half(buffer, at) | (_half(buffer, at + 4) << np.uint64(32))


@njit(cache=True)
def _half(buffer: Any, at: int) -> Any:
    value = np.uint64(0)
    for place in range(4):
        value |= np.uint64(buffer[at + place]) << np.uint64(8 * place)
    return value


@njit(cache=True)
def _lane(value: Any) -> Any:
    return _turned(value, 31) * _P1


@njit(cache=True)
def _turned(value: Any, by: int) -> Any:
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))
