"""What rows carry: for each group the results that end with the row, so that its leaving takes them along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse.algorithms.join_aggregate.credit_kernels import (
    CREDIT,
    HELD,
    list_credits,
    put_credits_back,
)
from lakehouse.algorithms.join_aggregate.total_kernels import FUNCTION, SUM
from lakehouse.algorithms.join_aggregate.windows import LEAST_ROOM, bytes_in_use

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s
    from lakehouse.algorithms.join_aggregate.totals import Totals
    from lakehouse.algorithms.join_aggregate.windows import Windows


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

    def snapshot(self, windows: Windows) -> dict[str, bytes]:
        """Return the credits of live rows: number of the row, group, results, counts, sums, extremes."""
        owner, place = np.empty((2, int(self._state[HELD])), np.int64)
        items, *columns = self._items
        list_credits(windows.live(), windows.entries, items, owner, place)
        groups = self.totals.arrays[1][items["group"][place]]
        order = np.lexsort((*groups.T[::-1], owner))
        kept = {"owner": owner, "group": groups, "results": items["results"][place]}
        for name, column in zip(("counted", "sums", "extremes"), columns, strict=True):
            kept[name] = column[place]
        return {f"credit_{name}": part[order].tobytes() for name, part in kept.items()}

    def restore(self, windows: Windows, slots: Int64s, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of, and make the totals from it; ``slots`` are those of the rows."""
        owner, results = (np.frombuffer(parts[f"credit_{name}"], np.int64) for name in ("owner", "results"))
        many = len(owner)
        self._state[:] = 0, 0, -1
        self._items = self._empty(max(LEAST_ROOM, 1 << max(many - 1, 0).bit_length()))
        shapes = (column[:many].shape for column in self._items[1:])
        kinds = ("counted", np.int64), ("sums", np.float64), ("extremes", np.float64)
        kept = [
            np.frombuffer(parts[f"credit_{name}"], kind).reshape(shape)
            for (name, kind), shape in zip(kinds, shapes, strict=True)
        ]
        groups = np.frombuffer(parts["credit_group"], np.int64).reshape(many, self.totals.shape.sides)
        self.totals.clear(len(np.unique(groups, axis=0)))
        put_credits_back(
            slots[owner],
            groups,
            (results, *kept),
            windows.entries,
            self.totals.aggregates,
            self.totals.arrays,
            self.arrays,
        )

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
