"""The rows that a continuous query holds, found by their key without a look at the others.

Rows are chained by the hash of their key, newest first; the number of chains is a power of two.
"""

from dataclasses import fields
from typing import Any

import numpy as np
from numba import njit

from lakehouse.algorithms.join_aggregate.contract import FAR_PAST_US, Int64s, Rows, Shape

_LEAST = 1024


class HeldRows:
    """Rows until they have ended, in chains by the hash of their key.

    Cost: a row O(1), those of a key O(rows of its chain); rows that have ended are dropped when half as many came since
    the last time. Of a shape whose sides carry different attributes, all rows are of one key.
    """

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._attributes = sorted(shape.attributes[0]) if shape.has_one_key else []
        self._rows, self._used, self._added = Rows.none(shape), 0, 0
        self._alive_from = FAR_PAST_US
        self._heads, self._next = np.full(1, -1, np.int64), np.empty(0, np.int64)
        # How many rows end when.
        self._ends = dict[int, int]()

    @property
    def weight(self) -> int:
        """Return how many rows are held, each counted as often as it stands for one."""
        return sum(self._ends.values())

    def all(self) -> Rows:
        """Return all rows that are held, in no order."""
        rows = self._rows[: self._used]
        return rows[rows.leave_us >= self._alive_from]

    def with_keys_of(self, rows: Rows) -> Rows:
        """Return the rows that are held with the key of any of these."""
        if not self._attributes:
            return self.all()
        wanted = np.unique(rows.keys[:, self._attributes], axis=0)
        known = self._rows.keys, self._rows.leave_us, self._heads, self._next
        found = np.empty(int(chain_lengths(wanted, self._heads, self._next)), np.int64)
        many = collect(wanted, np.array(self._attributes), *known, self._alive_from, found)
        return self._rows[found[:many]]

    def add(self, rows: Rows) -> None:
        """Hold more rows."""
        for leave, weight in zip(*_summed(rows.leave_us, rows.weight), strict=True):
            self._ends[leave] = self._ends.get(leave, 0) + weight
        if self._used + len(rows) > len(self._rows):
            self._make_room(len(rows))
        begin, self._used = self._used, self._used + len(rows)
        self._added += len(rows)
        for field in fields(Rows):
            getattr(self._rows, field.name)[begin : self._used] = getattr(rows, field.name)
        self._chain(begin)

    def drop(self, before_us: int) -> None:
        """Let go of rows that end before a time."""
        if before_us <= self._alive_from:
            return
        self._alive_from = before_us
        for leave in [leave for leave in self._ends if leave < before_us]:
            del self._ends[leave]
        if 2 * self._added > self._used > _LEAST:
            self._make_room(0)

    def _make_room(self, more: int) -> None:
        kept = self.all()
        self._used, self._added = len(kept), 0
        room = max(_LEAST, 1 << (2 * (len(kept) + more) - 1).bit_length())
        self._rows = Rows(*(_longer(getattr(kept, field.name), room) for field in fields(Rows)))
        self._heads, self._next = np.full(room, -1, np.int64), np.empty(room, np.int64)
        self._chain(0)

    def _chain(self, begin: int) -> None:
        if self._attributes:
            attributes = np.array(self._attributes)
            chain(self._rows.keys, attributes, self._heads, self._next, begin, self._used)


def _summed(times: Int64s, weights: Int64s) -> tuple[list[int], list[int]]:
    distinct, which = np.unique(times, return_inverse=True)
    total = np.zeros(len(distinct), np.int64)
    np.add.at(total, which, weights)
    return distinct.tolist(), total.tolist()


def _longer(column: Any, length: int) -> Any:
    longer = np.empty((length, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


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
