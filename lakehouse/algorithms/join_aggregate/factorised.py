"""Join-aggregates from what is known of each key: no row is joined with another.

Where all sides carry the same attributes, the results of a key are all combinations of its rows, so their aggregates
follow from those of each side alone. With n_s(k), sum_s(k), max_s(k) of a key's rows of side s in their windows:

    results of k ............... n_1(k) * n_2(k) * ... * n_m(k)
    their sum of a value of s .. sum_s(k) * the n of all other sides
    their extreme of it ........ max_s(k), where no n is 0

A group's answer adds up its keys. Where sides are grouped, a key has such aggregates per side and part of the group.
"""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.arrivals import Arrivals
from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Rows, Shape
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
from lakehouse.algorithms.join_aggregate.lanes import Lanes, in_order

# Answers that are kept in one piece of memory.
ANSWERS = 4096


class Factorised:
    """Per key and side the number of rows, sums and extremes; per group their products, added up.

    What it answers: shapes whose sides all carry the same attributes. Symbols as above.

    Cost: a row O(1) to enter and O(1) to leave, O(log n) where it is out of order or there are extremes; a tick
    O(groups in the answer), and O(sides) for every key that has changed since the last one. Where sides are grouped
    by what differs within a key, a changed key costs as many as it has groups: parts of one side times parts of the
    next. Memory: 24 bytes a row in its window, 8 more per column of values; ``KeyTotals`` per key. A row that stands
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
        self._arrivals, self._totals = Arrivals(shape), KeyTotals(shape)
        self._live: Lanes[Int64s] = Lanes(lambda rows: rows[:, LEAVE], np.concatenate)

    def advance(self, rows: Rows, ticks_us: Int64s) -> Partials:
        """Take rows in and return the answers at the ticks; cost as above.

        Raises ValueError when rows lack columns or are of sides that the shape does not have, or ticks do not ascend.
        Raises OverflowError: a count goes beyond 2^63 - 1; the state is not to be used any more.
        """
        ticks, entering = self._arrivals.take(rows, ticks_us)
        return self._answer(entering, ticks) if len(ticks) else Partials.none(self.shape)

    def _answer(self, rows: Rows, ticks: Int64s) -> Partials:
        """Return answers from rows that are ready and those in their windows."""
        entered = np.empty((len(rows), VALUES + self.shape.columns), np.int64)
        entered[:, LEAVE], entered[:, PLACE], entered[:, WEIGHT] = rows.leave_us, -1, rows.weight
        leaving = np.flatnonzero(rows.leave_us < self._arrivals.tick_us)
        leaving = leaving[in_order(rows.leave_us[leaving])]
        gone, runs = self._gone()
        self._totals.widen(rows)
        # The loops are compiled for columns that lie in one piece and may be written to.
        names = "side", "enter_us", "leave_us", "keys", "group", "values", "weight"
        columns = (np.require(getattr(rows, name), requirements=["C", "W"]) for name in names)
        found = self._run(
            ticks,
            (*columns, in_order(rows.enter_us)),
            (gone, gone.view(np.float64), np.arange(len(gone)), runs),
            (entered, entered.view(np.float64), leaving),
        )
        self._keep(entered)
        return found

    def _gone(self) -> tuple[Int64s, Int64s]:
        """Return the rows that leave before the last tick, as runs sorted by when they do."""
        parts = self._live.pop(self._arrivals.tick_us)
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
        stays = (entered[:, PLACE] >= 0) & (entered[:, LEAVE] >= self._arrivals.tick_us)
        if not stays.all():
            entered = entered[stays]
        self._live.push(entered)
