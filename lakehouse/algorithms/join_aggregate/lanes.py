"""Queues of rows by a time of theirs, for rows of which most come in order of that time."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s

# Blocks of so few rows are put together, so that many small calls do not make many blocks.
SMALL = 4096


class Rowwise(Protocol):
    """Rows that can be cut and picked by position."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def __getitem__(self, part: Any, /) -> Any:
        """Return a slice of the rows, or those at some positions."""


Block = TypeVar("Block", bound=Rowwise)


@dataclass
class _Piece(Generic[Block]):
    """Rest of a block, and the number of rows that memory is held for."""

    rows: Block
    times: Int64s
    size: int


class Lanes(Generic[Block]):
    """Rows that wait until a time of theirs has passed: a queue for rows of which most come in order of that time.

    A block is some rows sorted by the time. Blocks that follow each other make a lane; what comes too early for a lane
    goes into the next one, and a lane that is not twice as long as the next one becomes one with it. So rows that come
    in order are never moved, and others O(log n) times. ``joined`` puts blocks one after the other, in new memory.

        lane 0  |--block--|--block-----|---block---|
        lane 1       |block|  |block|

    Cost: O(1) a row that comes in order, O(log n) another, O(lanes) = O(log n) a call. Memory is held for at most
    twice the rows that wait, and a block.
    """

    def __init__(
        self, time_of: Callable[[Block], Int64s], joined: Callable[[Sequence[Block]], Block]
    ) -> None:
        self._time_of, self._joined = time_of, joined
        self._lanes: list[deque[_Piece[Block]]] = []

    def push(self, block: Block) -> None:
        """Take in rows, in any order."""
        times, whole = self._time_of(block), len(block)
        rest = block if ascends(times) else block[np.argsort(times, kind="stable")]
        for lane in self._lanes:
            cut = int(np.searchsorted(self._time_of(rest), lane[-1].times[-1]))
            if cut < len(rest):
                self._append(lane, rest[cut:], is_whole=whole == len(rest) - cut)
                rest = rest[:cut]
        if len(rest):
            self._lanes.append(deque())
            self._append(self._lanes[-1], rest, is_whole=whole == len(rest))
            self._merge()

    def pop(self, before_us: int) -> list[Block]:
        """Remove and return the rows whose time is before this one, as blocks that are sorted."""
        found = [block for lane in self._lanes for block in self._pop(lane, before_us)]
        self._lanes = [lane for lane in self._lanes if lane]
        return found

    def _piece(self, rows: Block) -> _Piece[Block]:
        return _Piece(rows, self._time_of(rows), len(rows))

    def _append(self, lane: deque[_Piece[Block]], rows: Block, is_whole: bool) -> None:
        """Append to a lane; part of a block is copied, so that it does not hold the memory of all of it."""
        if lane and len(lane[-1].rows) + len(rows) <= SMALL:
            rows = self._joined([lane.pop().rows, rows])
        elif not is_whole:
            rows = self._joined([rows])
        lane.append(self._piece(rows))

    def _merge(self) -> None:
        while len(self._lanes) > 1 and _rows_in(self._lanes[-2]) <= 2 * _rows_in(self._lanes[-1]):
            both = self._joined([piece.rows for lane in self._lanes[-2:] for piece in lane])
            order = np.argsort(self._time_of(both), kind="stable")
            self._lanes[-2:] = [deque([self._piece(both[order])])]

    def _pop(self, lane: deque[_Piece[Block]], before_us: int) -> list[Block]:
        found = []
        while lane and lane[0].times[-1] < before_us:
            found.append(lane.popleft().rows)
        if lane and (cut := int(np.searchsorted(lane[0].times, before_us))):
            first = lane.popleft()
            found.append(first.rows[:cut])
            rows = first.rows[cut:]
            is_small = 2 * len(rows) <= first.size
            lane.appendleft(
                self._piece(self._joined([rows])) if is_small else _Piece(rows, first.times[cut:], first.size)
            )
        return found


def _rows_in(lane: deque[_Piece[Any]]) -> int:
    return sum(len(piece.rows) for piece in lane)


def in_order(times: Int64s) -> Int64s:
    """Return an order in which times ascend."""
    return np.arange(len(times)) if ascends(times) else np.argsort(times, kind="stable")


def ascends(times: Int64s) -> bool:
    """Tell if no time is before the one that it follows."""
    return bool(np.all(times[1:] >= times[:-1]))
