"""Rows on their way from site to site: as combinations (flat), or each row once (factorised)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from lakehouse.algorithms.multiway_join.contract import Int64s


class Travelling(Protocol):
    """What is moved to the next stop. ``size``: how many rows that is."""

    @property
    def size(self) -> int:
        """Return how many rows are moved."""

    def meet(self, key: Int64s, row: Int64s) -> Travelling:
        """Return what travels on after meeting stored rows."""

    def results(self) -> Int64s:
        """Return row ids, a line per combination and a column per site visited, in the order of the visits."""


@dataclass(frozen=True)
class Flat:
    """Every combination so far: its key, and its row ids as ``results`` returns them."""

    key: Int64s
    rows: Int64s

    @property
    def size(self) -> int:
        """Return how many combinations there are."""
        return len(self.key)

    def meet(self, key: Int64s, row: Int64s) -> Flat:
        """Return each combination with each stored row of its key."""
        mine, other = matches(self.key, key)
        return Flat(self.key[mine], np.column_stack([self.rows[mine], row[other]]))

    def results(self) -> Int64s:
        """Return the combinations."""
        return self.rows


@dataclass(frozen=True)
class Factorised:
    """Per site visited the keys and ids of its rows; all have the same set of keys.

    The only row of its key at a site needs no row of its own: it rides along in any other of its key.
    """

    parts: tuple[tuple[Int64s, Int64s], ...]

    @property
    def size(self) -> int:
        """Return how many rows are moved: per key those of its sites that have several, or 1 if none has."""
        counts = np.array([np.unique(key, return_counts=True)[1] for key, _ in self.parts])
        return int(np.maximum(np.where(counts > 1, counts, 0).sum(axis=0), 1).sum())

    def meet(self, key: Int64s, row: Int64s) -> Factorised:
        """Return the rows whose keys are on both sides, and the stored rows of these keys."""
        common = np.intersect1d(self.parts[0][0], key)
        parts = [(old[there], ids[there]) for old, ids in self.parts for there in [np.isin(old, common)]]
        there = np.isin(key, common)
        return Factorised((*parts, (key[there], row[there])))

    def results(self) -> Int64s:
        """Return the combinations of rows of the same key."""
        key, row = self.parts[0]
        flat = Flat(key, row[:, None])
        for part in self.parts[1:]:
            flat = flat.meet(*part)
        return flat.rows


def matches(keys: Int64s, stored: Int64s) -> tuple[Int64s, Int64s]:
    """Return positions of all pairs of equal keys; O(stored log stored + keys log stored + pairs)."""
    order = np.argsort(stored, kind="stable")
    ordered = stored[order]
    first = np.searchsorted(ordered, keys, side="left")
    counts = np.searchsorted(ordered, keys, side="right") - first
    mine = np.repeat(np.arange(len(keys)), counts)
    nth = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    return mine, order[np.repeat(first, counts) + nth]
