"""Current totals of all results by group; answers at ticks are read off them."""

from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Int64s, Partials, Shape
from lakehouse.algorithms.join_aggregate.kernels.exact import LIMBS
from lakehouse.algorithms.join_aggregate.kernels.total import (
    FUNCTION,
    GROUPS,
    SUM,
    TOTAL,
    USED,
    chain_groups,
    list_sums,
)
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM, bytes_in_use

FUNCTIONS = ("count", "sum", "min", "max")


class Totals:
    """Running totals by group, in growing arrays: 264 bytes per sum of a group, 17 per aggregate, about 40 besides."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.aggregates = shape, _aggregates_of(shape)
        self._state = np.array([0, 0, -1], np.int64)
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
        groups, parts, counted, limbs, extremes = self._groups[:5]
        high, low = np.zeros((2, len(at), len(self.aggregates)))
        list_sums(at, limbs, self.aggregates, high, low)
        return Partials(
            tick_us=np.full(len(at), tick),
            group=parts[at],
            results=groups["results"][at],
            counted=counted[at],
            high=high,
            low=low,
            extreme=extremes[at],
        )

    @property
    def bytes(self) -> int:
        """Return the bytes of all arrays that groups use."""
        return bytes_in_use(self._groups, len(self._groups[0]), int(self._state[GROUPS]))

    def _empty(self, room: int) -> tuple[Any, ...]:
        """Return groups, their parts, counts of values, sums, extremes, which of these are stale, heads of chains."""
        wide, sums = len(self.aggregates), int(np.sum(self.aggregates[:, FUNCTION] == SUM))
        return (
            np.zeros(room, TOTAL),
            np.zeros((room, self.shape.sides), np.int64),
            np.zeros((room, wide), np.int64),
            np.zeros((room, sums, LIMBS), np.uint32),
            np.full((room, wide), np.nan),
            np.zeros((room, wide), np.bool_),
            np.full(room, -1, np.int32),
        )


def _aggregates_of(shape: Shape) -> Int64s:
    rows, sums = [], 0
    for each in shape.aggregates:
        function = FUNCTIONS.index(each.function)
        rows.append([function, each.side, each.column, sums if function == SUM else -1])
        sums += function == SUM
    return np.array(rows, np.int64).reshape(-1, 4)
