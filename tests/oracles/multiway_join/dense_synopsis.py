"""Exact vectors, a count per join value: the paper's synopsis, for domains that are small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.multiway_join.synopsis import refuse_more_than_stored

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Bools, Int64s, Vector


class DenseSynopsis:
    """Exact vectors: a column for each join value that some window holds, none for others.

    ``summed``: how many columns of numbers are added up per value as well, for SUM; whole numbers, as doubles could
    not be taken off again without a trace. A null number is given as 0.

    Cost: a vector O(entries log values), and O(sites x values) when a value comes or goes.

    >>> from tests.oracles.multiway_join.vectors import vector_in
    >>> synopsis = DenseSynopsis(2)
    >>> synopsis.increment(1, vector_in(synopsis, [7, 7, 9]))
    >>> synopsis.stored_at(np.array([7, 8])).tolist()
    [[0, 0], [2, 0]]
    """

    def __init__(self, sites: int, summed: int = 0) -> None:
        self.summed = summed
        self.values = np.empty(0, np.int64)
        self.counts = np.empty((sites, 0), np.int64)
        self.sums = np.empty((sites, 0, summed), np.int64)

    def __repr__(self) -> str:
        return f"DenseSynopsis({len(self.counts)}, summed={self.summed})"

    def increment(self, site: int, vector: Vector) -> None:
        """Add a vector to a site's."""
        columns, is_known = self._find(vector.entries)
        if not is_known.all():
            self._insert(columns[~is_known], vector.entries[~is_known])
            columns = self.values.searchsorted(vector.entries)
        self.counts[site, columns] += vector.counts
        self.sums[site, columns] += vector.sums

    def decrement(self, site: int, vector: Vector) -> None:
        """Take a vector off a site's, and values away that no site has any more."""
        refuse_more_than_stored(self.stored_at(vector.entries)[site], vector, site)
        columns = self.values.searchsorted(vector.entries)
        self.counts[site, columns] -= vector.counts
        self.sums[site, columns] -= vector.sums
        if not self.counts[:, columns].any(axis=0).all():
            used = np.flatnonzero(self.counts.any(axis=0))
            self.values = self.values[used]
            self.counts, self.sums = self.counts[:, used], self.sums[:, used]

    def stored_at(self, entries: Int64s) -> Int64s:
        """Return counts, sites x entries; 0 for values that no window holds."""
        if len(self.values) == 0:
            return np.zeros((len(self.counts), len(entries)), np.int64)
        columns, is_known = self._find(entries)
        found: Int64s = self.counts.take(columns, axis=1, mode="clip") * is_known
        return found

    def snapshot(self) -> dict[str, bytes]:
        """Return values, counts and sums."""
        parts = {"values": self.values, "counts": self.counts, "sums": self.sums}
        return {name: np.ascontiguousarray(part).tobytes() for name, part in parts.items()}

    def restore(self, parts: dict[str, bytes]) -> None:
        """Become what the snapshot was taken of."""
        sites = len(self.counts)
        self.values = np.frombuffer(parts["values"], np.int64).copy()
        shape = sites, len(self.values)
        self.counts = np.frombuffer(parts["counts"], np.int64).reshape(shape).copy()
        self.sums = np.frombuffer(parts["sums"], np.int64).reshape((*shape, self.summed)).copy()

    def _find(self, entries: Int64s) -> tuple[Int64s, Bools]:
        """Return where each entry is or would be, and whether it is there."""
        columns = self.values.searchsorted(entries)
        if len(self.values) == 0:
            return columns, np.zeros(len(entries), np.bool_)
        return columns, self.values.take(columns, mode="clip") == entries

    def _insert(self, columns: Int64s, values: Int64s) -> None:
        self.values = np.insert(self.values, columns, values)
        self.counts = np.insert(self.counts, columns, 0, axis=1)
        self.sums = np.insert(self.sums, columns, 0, axis=1)
