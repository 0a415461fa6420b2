"""What the groups stand for that methods know by number. No JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from lakehouse.algorithms.join_aggregate.contract import Int64s

_ID = [("side", np.int64), ("group", np.int64)]


class GroupNames:
    """Rows of side, group and the columns of GROUP BY, each (side, group) once.

    They are in blocks sorted by side and group, each at least twice as long as the next: what is new costs O(log n).
    """

    def __init__(self) -> None:
        self._blocks: list[tuple[Any, pa.Table]] = []
        self._pruned = 0

    def __len__(self) -> int:
        return sum(len(ids) for ids, _ in self._blocks)

    def add(self, rows: pa.Table) -> None:
        """Add the groups of rows; those that are there stay as they are."""
        ids, first = np.unique(_ids(rows), return_index=True)
        is_new = np.ones(len(ids), np.bool_)
        for known, _ in self._blocks:
            is_new &= _found(known, ids) < 0
        if not is_new.any():
            return
        table = rows.take(pa.array(first[is_new]))
        if self._blocks:
            table = table.cast(self._blocks[0][1].schema)
        self._blocks.append((ids[is_new], table.combine_chunks()))
        while len(self._blocks) > 1 and len(self._blocks[-2][0]) < 2 * len(self._blocks[-1][0]):
            self._merge()

    def all(self) -> pa.Table:
        """Return all groups; side and group alone where there is none."""
        none = pa.table({"side": pa.array([], pa.int64()), "group": pa.array([], pa.int64())})
        return pa.concat_tables([table for _, table in self._blocks]) if self._blocks else none

    def column(self, name: str, side: int, group: Int64s) -> pa.Array:
        """Return what some groups of a side stand for in a column."""
        wanted = np.empty(len(group), _ID)
        wanted["side"], wanted["group"] = side, group
        ids, which = np.unique(wanted, return_inverse=True)
        parts, places, begin = [], np.full(len(ids), -1), 0
        for known, table in self._blocks:
            at = _found(known, ids)
            own = np.flatnonzero(at >= 0)
            places[own] = begin + np.arange(len(own))
            begin += len(own)
            parts.append(table[name].take(pa.array(at[own])).combine_chunks())
        if not parts:
            return pa.nulls(0)
        return pa.concat_arrays(parts).take(pa.array(places[which]))

    def prune(self, side: Any, group: Int64s) -> None:
        """Keep the groups of these rows only, as often as there are twice as many as were kept the last time."""
        held = np.empty(len(group), _ID)
        held["side"], held["group"] = side, group
        held = np.unique(held)
        kept = [(ids, table, _found(held, ids) >= 0) for ids, table in self._blocks]
        self._blocks = [
            (ids[stays], table.filter(pa.array(stays))) for ids, table, stays in kept if stays.any()
        ]
        self._pruned = len(self)

    @property
    def is_due(self) -> bool:
        """Tell if there are twice as many groups as when they were last pruned."""
        return len(self) > 1024 + 2 * self._pruned

    def _merge(self) -> None:
        (one, rows), (other, more) = self._blocks[-2:]
        ids = np.concatenate([one, other])
        order = np.argsort(ids, kind="stable")
        table = pa.concat_tables([rows, more]).combine_chunks().take(pa.array(order))
        self._blocks[-2:] = [(ids[order], table)]


def _ids(rows: pa.Table) -> Any:
    ids = np.empty(rows.num_rows, _ID)
    ids["side"], ids["group"] = rows["side"].to_numpy(), rows["group"].to_numpy()
    return ids


def _found(known: Any, wanted: Any) -> Int64s:
    """Return where each is among sorted ids, -1 where it is not."""
    if not len(known):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: Int64s = np.where(known[at] == wanted, at, -1)
    return found
