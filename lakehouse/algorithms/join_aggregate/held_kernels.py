"""Compiled chains of rows by the hash of their key, newest first; the number of chains is a power of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def _slot(key: Any, slots: int) -> Any:
    mixed = np.uint64(0)
    for value in key:
        mixed = (mixed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return np.int64((mixed >> np.uint64(16)) & np.uint64(slots - 1))


@njit(cache=True)
def chain(keys: Any, attributes: Any, heads: Any, following: Any, begin: int, end: int) -> None:
    """Put rows at the heads of their chains."""
    key = np.empty(len(attributes), np.int64)
    for row in range(begin, end):
        for column in range(len(attributes)):
            key[column] = keys[row, attributes[column]]
        slot = _slot(key, len(heads))
        following[row] = heads[slot]
        heads[slot] = row


@njit(cache=True)
def chain_lengths(wanted: Any, heads: Any, following: Any) -> Any:
    """Return how many rows are in the chains of some keys, those of a chain counted for each of its keys."""
    total = np.int64(0)
    for at in range(len(wanted)):
        row = heads[_slot(wanted[at], len(heads))]
        while row >= 0:
            total += 1
            row = following[row]
    return total


@njit(cache=True)
def collect(
    wanted: Any,
    attributes: Any,
    keys: Any,
    leave: Any,
    heads: Any,
    following: Any,
    alive_from: int,
    found: Any,
) -> Any:
    """Write the rows of some keys, each key given once, that have not ended; return how many there are."""
    many = 0
    for at in range(len(wanted)):
        row = heads[_slot(wanted[at], len(heads))]
        while row >= 0:
            is_same = leave[row] >= alive_from
            for column in range(len(attributes)):
                is_same = is_same and keys[row, attributes[column]] == wanted[at, column]
            if is_same:
                found[many] = row
                many += 1
            row = following[row]
    return many
