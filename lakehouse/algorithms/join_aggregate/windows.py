"""Windows of the methods that let rows meet: the rows in all of them, look-ups of a row, and ticks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lakehouse.algorithms.join_aggregate.arrivals import Arrivals
from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.kernels.window import CELLS, ENTRY, LIVE, chain_all
from lakehouse.algorithms.join_aggregate.lanes import in_order

# Little, so that tests of a few rows go through growth; it doubles soon enough.
LEAST_ROOM = 4
# Rows that enter at a time where rows leave in between, so that room is needed for no more.
CHUNK = 16_384


@dataclass(frozen=True)
class Plan:
    """A shape for kernels.

    ``carries`` bool, sides x attributes. ``index_of`` int64, side x set of joined sides (as bits) x 2: the index by
    which the side is asked when those are joined, -1 if nothing ties it to them, and its place among the side's own.
    ``own`` int64, sides x places: each side's indexes, then -1. ``attributes`` bool, indexes x attributes.
    """

    carries: Bools
    index_of: Int64s
    own: Int64s
    attributes: Bools

    @classmethod
    def of(cls, shape: Shape) -> Plan:
        """Return the plan of a shape: an index for every set of attributes that any order of joining asks for."""
        carried = [frozenset(numbers) for numbers in shape.attributes]
        index_of = np.full((shape.sides, 1 << shape.sides, 2), -1)
        indexes, own = list[frozenset[int]](), list[list[int]]()
        for side, numbers in enumerate(carried):
            asked = [_asked(numbers, carried, joined) for joined in range(1 << shape.sides)]
            distinct = sorted({each for each in asked if each}, key=sorted)
            for joined, each in enumerate(asked):
                if each and not joined >> side & 1:
                    place = distinct.index(each)
                    index_of[side, joined] = len(indexes) + place, place
            own.append(list(range(len(indexes), len(indexes) + len(distinct))))
            indexes += distinct
        padded = [places + [-1] * (max(map(len, own)) - len(places)) for places in own]
        return cls(
            _as_flags(carried, shape.width), index_of, np.array(padded), _as_flags(indexes, shape.width)
        )

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays, as kernels take them."""
        return tuple(getattr(self, field.name) for field in fields(self))


class Windows:
    """Live rows by slot, in growing arrays, with as many hash buckets as slots."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.plan = shape, Plan.of(shape)
        self._state = np.zeros(2, np.int64)
        self._slots = self._empty(LEAST_ROOM)
        # What a probe remembers on its way: attributes bound so far, side and row met at each depth, rows picked.
        self.work = (
            np.zeros((1, shape.width), np.int64),
            np.zeros((shape.sides, 2), np.int64),
            np.zeros(shape.sides, np.int64),
        )

    def __len__(self) -> int:
        return int(self._state[LIVE])

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays and the state, as kernels take them."""
        return (*self._slots, self._state)

    @property
    def entries(self) -> npt.NDArray[np.void]:
        """Return what is known of the row in each slot."""
        entries: npt.NDArray[np.void] = self._slots[0]
        return entries

    def make_room(self, rows: int) -> None:
        """Grow, so that as many more rows fit; slots stay what they are."""
        room = len(self.entries)
        if (need := len(self) + rows) <= room:
            return
        larger = self._empty(1 << (need - 1).bit_length())
        for old, new in zip(self._slots[:3], larger[:3], strict=True):
            new[:room] = old
        for column in (6, 7):
            larger[column][:room] = self._slots[column]
        larger[7][room:] = np.arange(room, len(larger[0]))
        self._slots = larger
        chain_all(self.arrays, self.plan.arrays, self.live())

    def live(self) -> Int64s:
        """Return the slots of the rows in the windows, in the order in which they entered."""
        slots: Int64s = self._slots[6][: len(self), 1]
        return slots[np.argsort(self.entries["number"][slots])]

    def _empty(self, room: int) -> tuple[Any, ...]:
        """Return entries, keys, values, links, heads of chains, counts by cell, heap of leaving, free slots."""
        indexes, places = len(self.plan.attributes), self.plan.own.shape[1]
        return (
            np.zeros(room, ENTRY),
            np.zeros((room, self.shape.width), np.int64),
            np.zeros((room, self.shape.columns)),
            np.zeros((room, places, 2), np.int32),
            np.full((indexes, room), -1, np.int32),
            np.zeros((indexes, CELLS if self.shape.sides > 2 else 1), np.int32),
            np.zeros((room, 2), np.int64),
            np.arange(room, dtype=np.int64),
        )


def columns_of(rows: Rows) -> tuple[Any, ...]:
    """Return the columns of rows, as kernels take them; none of them is folded."""
    return tuple(getattr(rows, field.name) for field in fields(rows) if field.name != "weight")


def _asked(numbers: frozenset[int], carried: list[frozenset[int]], joined: int) -> frozenset[int]:
    """Return which of a side's attributes are known when those sides are joined."""
    known = (numbers & each for side, each in enumerate(carried) if joined >> side & 1)
    return frozenset[int]().union(*known)


def _as_flags(sets: list[frozenset[int]], width: int) -> Bools:
    return np.array([[number in each for number in range(width)] for each in sets])


class WindowJoin:
    """Takes rows in and out of windows; a method says what that changes, and what the answer at a tick is.

    All rows that have left by a tick leave first, and only those enter that are still in their windows then: what
    happens between two ticks is one change. Rows are found by an exact hash index.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._arrivals = Arrivals(shape)
        self._windows = Windows(shape)

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks.

        Raises ValueError when rows lack columns or are of sides that the shape does not have, or ticks do not ascend.
        """
        answers = [Partials.none(self.shape)]
        ticks, ready = self._arrivals.take(rows, ticks_us)
        ready = ready[in_order(ready.enter_us)]
        ends = np.searchsorted(ready.enter_us, ticks, side="right").tolist()
        for tick, begin, end in zip(ticks.tolist(), [0, *ends], ends, strict=False):
            self._move_to(tick, ready[begin:end])
            answers.append(self._answer(tick))
        return Partials.joined(answers)

    def _move_to(self, tick: int, entering: Rows) -> None:
        """Let rows leave and enter until a tick."""
        self._leave_before(tick)
        self._enter_all(entering[entering.leave_us >= tick])

    def _enter_all(self, rows: Rows) -> None:
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            self._windows.make_room(len(part))
            self._enter(columns_of(part))

    def _enter(self, columns: tuple[Any, ...]) -> None:
        """Let rows enter, for which the windows have room."""
        raise NotImplementedError

    def _leave_before(self, now: int) -> None:
        """Let rows leave that do so before ``now``."""
        raise NotImplementedError

    def _answer(self, tick: int) -> Partials:
        """Return the answer at a tick, all rows in their windows then being in, and no others."""
        raise NotImplementedError
