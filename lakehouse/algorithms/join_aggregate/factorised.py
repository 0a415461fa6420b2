"""Join-aggregates from what is known of each key: no row is joined with another.

Where all sides carry the same attributes, the results of a key are all combinations of its rows, so their aggregates
follow from those of each side alone. With n_s(k), sum_s(k), max_s(k) of a key's rows of side s in their windows:

    results of k ............... n_1(k) * n_2(k) * ... * n_m(k)
    their sum of a value of s .. sum_s(k) * the n of all other sides
    their extreme of it ........ max_s(k), where no n is 0

A group's answer adds up its keys. Where sides are grouped, a key has such aggregates per side and part of the group.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import NO_TICK, ascending, fitted
from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s, Partials, Rows, Shape
from lakehouse.algorithms.join_aggregate.kernels.factorised import (
    ANSWERED,
    CHANGED,
    ENTERED,
    GROUPS,
    LACK,
    LEAVE,
    LEFT,
    NOTHING,
    OUT,
    PLACE,
    SETTLED,
    TICK,
    VALUES,
    WEIGHT,
    answer,
)
from lakehouse.algorithms.join_aggregate.key_totals import KeyTotals

# Blocks of so few rows are put together, so that many small calls do not make many blocks.
SMALL = 4096
# Answers that are kept in one piece of memory.
ANSWERS = 4096


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
        """Take in rows that are sorted by their time."""
        rest, whole = block, len(block)
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


class Factorised:
    """Per key and side the number of rows, sums and extremes; per group their products, added up.

    What it answers: shapes whose sides all carry the same attributes. Symbols as above.

    Cost: a row O(1) to enter and O(1) to leave, O(log n) where it is out of order or there are extremes; a tick
    O(groups in the answer), and O(sides) for every key that has changed since the last one. Where sides are grouped
    by what differs within a key, a changed key costs as many as it has groups: parts of one side times parts of the
    next. Memory: 40 bytes a row in its window, 8 more per column of values; ``KeyTotals`` per key. A row that stands
    for many (``Rows.weight``) costs as much as one.
    Guarantee: exactly the definition; sums are exact and are rounded once to high and once more to low, whatever came
    and went before.

    >>> from lakehouse.algorithms.join_aggregate.contract import Shape
    >>> counts = Factorised(Shape(attributes=((0,), (0,)), grouped=(False, False)))
    >>> rows = Rows.of([0, 1, 1], enter_us=[0, 5, 9], leave_us=[10, 15, 19], keys=[[7], [7], [7]])
    >>> counts.advance(rows, np.array([0, 5, 10, 11])).results.tolist()
    [1, 2]

    Source: ours; aggregates pushed below the join, as factorised databases do for tables.
    """

    def __init__(self, shape: Shape) -> None:
        if not shape.has_one_key:
            raise ValueError(f"expected sides that carry the same attributes, found {shape.attributes}")
        self.shape = shape
        self._tick_us, self._totals = NO_TICK, KeyTotals(shape)
        self._waiting: Lanes[Rows] = Lanes(lambda rows: rows.enter_us, Rows.joined)
        self._live: Lanes[Int64s] = Lanes(lambda rows: rows[:, LEAVE], np.concatenate)

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks; cost as above.

        Raises ValueError when rows lack columns or are of sides that the shape does not have, or ticks do not ascend.
        Raises OverflowError: a count goes beyond 2^63 - 1; the state is not to be used any more.
        """
        ticks = ascending(ticks_us, self._tick_us)
        rows = fitted(self.shape, rows)
        rows = _those(rows, rows.leave_us >= np.maximum(rows.enter_us, self._tick_us))
        if not len(ticks):
            self._wait(rows)
            return Partials.none(self.shape)
        self._tick_us = int(ticks[-1])
        is_ready = rows.enter_us <= self._tick_us
        self._wait(_those(rows, ~is_ready))
        ready = [*self._waiting.pop(self._tick_us + 1), _those(rows, is_ready)]
        return self._answer(Rows.joined(ready) if len(ready) > 1 else ready[0], ticks)

    def _wait(self, rows: Rows) -> None:
        if len(rows):
            order = _order(rows.enter_us)
            self._waiting.push(rows[order])

    def _answer(self, rows: Rows, ticks: Int64s) -> Partials:
        """Return answers from rows that are ready and those in their windows."""
        entered = np.empty((len(rows), VALUES + self.shape.columns), np.int64)
        entered[:, LEAVE], entered[:, PLACE], entered[:, WEIGHT] = rows.leave_us, -1, rows.weight
        leaving = np.flatnonzero(rows.leave_us < self._tick_us)
        leaving = leaving[_order(rows.leave_us[leaving])]
        gone, runs = self._gone()
        self._totals.widen(rows)
        # The loops are compiled for columns that lie in one piece and may be written to.
        names = "side", "enter_us", "leave_us", "keys", "group", "values", "row", "weight"
        columns = (np.require(getattr(rows, name), requirements=["C", "W"]) for name in names)
        found = self._run(
            ticks,
            (*columns, _order(rows.enter_us)),
            (gone, gone.view(np.float64), np.arange(len(gone)), runs),
            (entered, entered.view(np.float64), leaving),
        )
        self._keep(entered)
        return found

    def _gone(self) -> tuple[Int64s, Int64s]:
        """Return the rows that leave before the last tick, as runs sorted by when they do."""
        parts = self._live.pop(self._tick_us)
        ends = np.cumsum([0, *map(len, parts)])
        if not parts:
            parts = [np.empty((0, VALUES + self.shape.columns), np.int64)]
        table = np.concatenate(parts) if len(parts) > 1 else np.ascontiguousarray(parts[0])
        return table, np.column_stack([ends[:-1], ends[1:]])

    def _run(self, ticks: Int64s, rows: Any, gone: Any, entered: Any) -> Partials:
        totals, state = self._totals, self._totals.state
        state[[TICK, ENTERED, LEFT, CHANGED, SETTLED, ANSWERED]] = 0
        pieces, out = [], self._room_for_answers()
        while True:
            known = totals.plan, totals.layout, totals.keys, totals.groups, totals.pools
            answer(ticks, rows, gone, entered, *known, out, state)
            if state[LACK] in (OUT, NOTHING):
                pieces.append(Partials(*out)[: state[ANSWERED]])
                if state[LACK] == NOTHING:
                    break
                state[ANSWERED], out = 0, self._room_for_answers()
            totals.make_room()
        found = pieces[0] if len(pieces) == 1 else Partials.joined(pieces)
        if totals.sort_groups():
            return found
        return found[np.lexsort((*found.group.T[::-1], found.tick_us))]

    def _room_for_answers(self) -> tuple[Any, ...]:
        many, wide = max(ANSWERS, int(self._totals.state[GROUPS])), len(self.shape.aggregates)
        times, counts = np.empty((2, many), np.int64), np.empty((many, wide), np.int64)
        reals = (np.empty((many, wide)) for _ in range(3))
        return times[0], np.empty((many, self.shape.sides), np.int64), times[1], counts, *reals

    def _keep(self, entered: Int64s) -> None:
        """Keep the rows that have not left."""
        stays = (entered[:, PLACE] >= 0) & (entered[:, LEAVE] >= self._tick_us)
        if not stays.all():
            entered = entered[stays]
        if len(entered):
            leave = entered[:, LEAVE]
            self._live.push(entered if _ascends(leave) else entered[np.argsort(leave)])


def _those(rows: Rows, which: Bools) -> Rows:
    return rows if which.all() else rows[which]


def _order(times: Int64s) -> Int64s:
    return np.arange(len(times)) if _ascends(times) else np.argsort(times)


def _ascends(times: Int64s) -> bool:
    return bool(np.all(times[1:] >= times[:-1]))
