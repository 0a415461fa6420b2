"""Kept levels one above the other, finest first: what both trees do alike once the horizons are known.

Invariant: a level holds no node below its horizon, and a parent whose children are all kept equals their
combination. A horizon is a multiple of its level's width, so a row's node is kept exactly if its time is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.rollup.bounds import EPS
from lakehouse.algorithms.rollup.descent import Descent
from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from lakehouse.algorithms.rollup.nodes import NODE, NodeArray, coarser, nodes_of_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.algorithms.rollup.descent import Spread


class LevelStack:
    """Levels of the given widths, each with a horizon below which it keeps nothing."""

    def __init__(self, widths_us: Iterable[int]) -> None:
        self.arrays = [NodeArray(width_us) for width_us in widths_us]
        self.horizons = [KEPT_FOREVER_US] * len(self.arrays)

    @classmethod
    def unpacked(cls, widths_us: Iterable[int], parts: Sequence[bytes]) -> LevelStack:
        """Return the stack that was packed; its horizons are yet to be moved."""
        stack = cls([])
        for width_us, part in zip(widths_us, parts, strict=True):
            stack.arrays.append(NodeArray(width_us, np.frombuffer(part, NODE)))
            stack.horizons.append(KEPT_FOREVER_US)
        return stack

    def packed(self) -> tuple[bytes, ...]:
        """Return the nodes of every level as bytes."""
        return tuple(array.live.tobytes() for array in self.arrays)

    def add_row(self, time_us: int, value: float) -> None:
        """Combine one finite value into every level that still keeps its time."""
        for array, horizon in zip(self.arrays, self.horizons, strict=True):
            if time_us >= horizon:
                array.add_row(time_us, value)

    def add_rows(self, times: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
        """Combine rows sorted by time: rows make level-1 partials, level-i partials those of level i + 1."""
        partials = nodes_of_rows(times, values, self.arrays[0].width_us)
        for array, horizon in zip(self.arrays, self.horizons, strict=True):
            partials = coarser(partials, array.width_us)
            array.add_nodes(partials[np.searchsorted(partials["start"], horizon) :])

    def add_top(self, width_us: int) -> None:
        """Fold a new top level from the present one, which must keep the whole past."""
        self.arrays.append(NodeArray(width_us, coarser(self.arrays[-1].live, width_us)))
        self.horizons.append(KEPT_FOREVER_US)

    def move_horizons(self, horizons: Sequence[int]) -> None:
        """Set every level's horizon and forget what lies below."""
        for array, before, after in zip(self.arrays, self.horizons, horizons, strict=True):
            if after != before:
                array.drop_before(after)
        self.horizons = list(horizons)

    def read(self, start_us: int, end_us: int, spread: Spread = "remainder") -> Descent:
        """Return what the levels know about ``[start_us, end_us)``."""
        return Descent(self.arrays, self.horizons, spread).read(start_us, end_us)

    def check(self) -> None:
        """Raise AssertionError if a level is broken, reaches below its horizon or contradicts the finer."""
        for array, horizon in zip(self.arrays, self.horizons, strict=True):
            array.check()
            assert not len(array) or array.live["start"][0] >= horizon, "a node below its level's horizon"
        for (fine, coarse), horizon in zip(pairwise(self.arrays), self.horizons[:-1], strict=True):
            whole_from = -floor_to(coarse.width_us, -horizon)
            coarse.check_against(fine, whole_from, EPS)
