"""What rows carry: for each group the results that end with the row, so that its leaving takes them along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.join_aggregate.credit_kernels import CREDIT, HELD
from lakehouse.algorithms.join_aggregate.total_kernels import FUNCTION, SUM
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM, bytes_in_use

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.totals import Totals


class Credits:
    """Credits by place, in growing arrays: 24 bytes each, and 16 per aggregate and 16 per sum."""

    def __init__(self, totals: Totals) -> None:
        self.totals = totals
        self._state = np.array([0, 0, -1], np.int64)
        self._items = self._empty(LEAST_ROOM)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Return all arrays and the state, as kernels take them."""
        return (*self._items, self._state)

    def make_room(self) -> None:
        """Grow, if no more credit fits."""
        room = len(self._items[0])
        if int(self._state[HELD]) == room:
            larger = self._empty(2 * room)
            for old, new in zip(self._items, larger, strict=True):
                new[:room] = old
            self._items = larger

    @property
    def bytes(self) -> int:
        """Return the bytes of all arrays that credits use."""
        return bytes_in_use(self._items, len(self._items[0]), int(self._state[HELD]))

    def _empty(self, room: int) -> tuple[Any, ...]:
        """Return credits, counts of values, sums as pairs, extremes."""
        wide = len(self.totals.aggregates)
        sums = int(np.sum(self.totals.aggregates[:, FUNCTION] == SUM))
        return (
            np.zeros(room, CREDIT),
            np.zeros((room, wide), np.int64),
            np.zeros((room, sums, 2)),
            np.zeros((room, wide)),
        )
