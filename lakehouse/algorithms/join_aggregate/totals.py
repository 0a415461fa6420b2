"""Current totals of all results by group; answers at ticks are read off them."""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Shape
from lakehouse.algorithms.join_aggregate.kernels.digits import places, with_wider_sums
from lakehouse.algorithms.join_aggregate.kernels.total import (
    COLUMN,
    DIGITS,
    FUNCTION,
    GROUPS,
    LIMBS,
    LOWEST,
    NUMBER,
    SIDE,
    SUM,
    TOTAL,
    USED,
    chain_groups,
    list_numbers,
)
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM

FUNCTIONS = ("count", "sum", "min", "max")


class Totals:
    """Running totals by group, in growing arrays: per group about 40 bytes, 33 per aggregate, and 8 per digit."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.aggregates = shape, _aggregates_of(shape)
        self._state, self._reach = np.array([0, 0, -1, 2, 0], np.int64), np.zeros(2, np.int64)
        self._groups = self._empty(LEAST_ROOM)
        # The group of the result at hand.
        self.parts = np.zeros(shape.sides, np.int64)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays and the state, as kernels take them."""
        return (*self._groups, self._state)

    @property
    def has_extremes(self) -> bool:
        """Tell if an aggregate is a min or max."""
        return bool(np.any(self.aggregates[:, FUNCTION] > SUM))

    @property
    def sums(self) -> int:
        """Return how many columns the digits of all sums take."""
        return int(self._state[DIGITS]) * int(np.sum(self.aggregates[:, NUMBER] >= 0))

    def widen(self, side: Any, values: Any, *others: Any) -> tuple[Any, ...]:
        """Make sums keep all digits that the values of rows need; return other tables of such sums as wide."""
        summed = self.aggregates[self.aggregates[:, NUMBER] >= 0][:, [SIDE, COLUMN, LIMBS]]
        lowest, highest = self._reach.tolist()
        places(values, side, np.ascontiguousarray(summed), self._reach)
        below, above = lowest - int(self._reach[0]), int(self._reach[1]) - highest
        if not (below or above):
            return others
        digits, groups = int(self._state[DIGITS]), list(self._groups)
        self._state[[DIGITS, LOWEST]] = digits + below + above, self._reach[0]
        groups[3], *wider = (with_wider_sums(each, 0, digits, below, above) for each in (groups[3], *others))
        self._groups = tuple(groups)
        return tuple(wider)

    def has_room(self, groups: int) -> bool:
        """Tell if as many more groups fit."""
        return int(self._state[GROUPS]) + groups <= len(self._groups[0])

    def make_room(self, groups: int) -> None:
        """Grow, so that as many more groups fit."""
        room = len(self._groups[0])
        if not self.has_room(groups):
            larger = self._empty(1 << (int(self._state[GROUPS]) + groups - 1).bit_length())
            for old, new in zip(self._groups[:-1], larger[:-1], strict=True):
                new[:room] = old
            self._groups = larger
            chain_groups(self.arrays)

    def places(self) -> Int64s:
        """Return the places of all groups that have results, in order of the group."""
        groups, parts = self._groups[:2]
        places = np.flatnonzero(groups["results"][: self._state[USED]])
        return places[np.lexsort(parts[places].T[::-1])]

    def answer(self, tick: int) -> Partials:
        """Return the answer at a tick; no extreme is stale."""
        at = self.places()
        groups, parts, counted = self._groups[:3]
        high, low, extreme = np.empty((3, len(at), len(self.aggregates)))
        list_numbers(at, self.arrays, self.aggregates, high, low, extreme)
        return Partials(
            tick_us=np.full(len(at), tick),
            group=parts[at],
            results=groups["results"][at],
            counted=counted[at],
            high=high,
            low=low,
            extreme=extreme,
        )

    def _empty(self, room: int) -> tuple[Any, ...]:
        """Return groups, their parts, counts of values, sums, extremes, which of these are stale, heads of chains."""
        wide = len(self.aggregates)
        return (
            np.zeros(room, TOTAL),
            np.zeros((room, self.shape.sides), np.int64),
            np.zeros((room, wide), np.int64),
            np.zeros((room, self.sums), np.int64),
            np.full((room, wide, 3), np.nan),
            np.zeros((room, wide), np.bool_),
            np.full(room, -1, np.int32),
        )


def _aggregates_of(shape: Shape) -> Int64s:
    rows, sums = [], 0
    for each in shape.aggregates:
        function = FUNCTIONS.index(each.function)
        rows.append([function, each.side, each.column, sums if function == SUM else -1, each.limbs])
        sums += function == SUM
    return np.array(rows, np.int64).reshape(-1, 5)
