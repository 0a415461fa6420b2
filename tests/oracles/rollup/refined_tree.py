"""Rollups of several series: a node that a range cuts is replaced by its series' nodes, as ``refinement.py`` has it.

The tree of all rows answers, and one tree for each series of the finer grouping, which has seen the same times, says
what is in the nodes that are cut. Cost: the trees of all series for each question; it is a yardstick.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.rollup.levels import Level
from tests.oracles.rollup.bounds import CutNode, CutNodes, row_range
from tests.oracles.rollup.dsmga_tree import DsmgaTree

if TYPE_CHECKING:
    from tests.oracles.rollup.contract import Times, Values
    from tests.oracles.rollup.descent import Descent


class RefinedTree(DsmgaTree):
    """A tree whose cut nodes of at most ``most_rows`` rows give way to those of its series."""

    def __init__(self, levels: Sequence[Level], most_rows: int) -> None:
        super().__init__(levels)
        self.most_rows = most_rows
        self.series: dict[Hashable, DsmgaTree] = {}

    def insert_series(self, times: Times, values: Values, series: Sequence[Hashable]) -> None:
        """Add rows in any order, each to its series and to the whole."""
        self.insert_batch(times, values)
        rows = list(zip(times, values, series, strict=True))
        for one in set(series):
            tree = self.series.setdefault(one, DsmgaTree(self.levels))
            tree.insert_batch([time for time, _, s in rows if s == one], [v for _, v, s in rows if s == one])
        for tree in self.series.values():
            tree.advance(int(np.max(times)))

    def descent(self, start_us: int, end_us: int) -> Descent:
        """Return what answers a range: the rows surely inside, and the nodes that it cuts, refined."""
        found = super().descent(start_us, end_us)
        whole, found.cuts = found.cuts, []
        for cut in whole:
            parts = self._parts(cut, start_us, end_us) if self._is_refined(cut) else [cut]
            found.cuts += parts
            found.nodes_read += len(parts) - 1
        return found

    def _is_refined(self, cut: CutNode) -> bool:
        (least,), (most,) = row_range(CutNodes.of([cut]))
        return bool(least < cut.n and most > 0 and cut.n <= self.most_rows)

    def _parts(self, cut: CutNode, start_us: int, end_us: int) -> list[CutNode]:
        met = [part for tree in self.series.values() for part in tree.descent(start_us, end_us).cuts]
        place = cut.from_us, cut.to_us, cut.width_us
        return [part for part in met if (part.from_us, part.to_us, part.width_us) == place]
