"""The paper's own model: levels that grow with the history, each as wide as alpha of the one below."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lakehouse.algorithms.rollup import nodes
from lakehouse.algorithms.rollup.bounds import EPS
from lakehouse.algorithms.rollup.contract import Snapshot
from lakehouse.algorithms.rollup.descent import Descent
from lakehouse.algorithms.rollup.levels import KEPT_FOREVER_US, floor_to
from lakehouse.algorithms.rollup.nodes import NODE, NodeArray

if TYPE_CHECKING:
    from lakehouse.algorithms.rollup.contract import Aggregate, Answer, Node, Times, Values
    from lakehouse.algorithms.rollup.descent import Spread


class PaperTree:
    """Any range of an endless stream in space that grows with the logarithm of its length.

    alpha  children of a node, at least 2        l  a level keeps alpha^l + 1 slots of its width, at least 1
    N      base slots between the earliest and the newest row, both counted

    A slot is kept by its time, with rows or without. When the top level would need one slot more, a new one is
    folded from it, so the top always covers the whole past.

        alpha = 2, l = 1, slots 0..7        [0,4) [4,8)                  level 3
                                                  [2,4) [4,6) [6,8)      level 2
                                                        [5] [6] [7]      level 1

    Cost: a row or a query O(log_alpha N). At most max(1, ceil(log_alpha(N - 1)) - l + 1) levels of alpha^l + 1
    nodes, wherever the range lies on the time axis.
    Guarantee: ``low <= truth <= high``. For the last h of time, h >= base * alpha^(l-1), a kept node starts at most
    h / alpha^(l-1) before it (Theorem 1).
    Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, sections 2, 4 and 5.
    Differs from the paper: rows may be late or leave gaps; lost children are subtracted (``spread="remainder"``)
    instead of the whole parent being spread (``spread="whole"``, as printed); answers carry intervals.

    >>> tree = PaperTree(base_us=1, alpha=2, l=1)
    >>> tree.insert_batch(range(8), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    >>> tree.query(4, 5, "sum").value, tree.query(1, 3, "sum").value
    (5.0, 5.0)
    """

    def __init__(self, base_us: int, alpha: int = 2, l: int = 2, spread: Spread = "remainder") -> None:  # noqa: E741
        if base_us < 1 or alpha < 2 or l < 1:
            raise ValueError(f"expected base_us >= 1, alpha >= 2 and l >= 1, found {base_us}, {alpha} and {l}")
        self.alpha = alpha
        self.slots_before = alpha**l
        self.spread: Spread = spread
        self._arrays = [NodeArray(base_us)]
        self._horizons = [KEPT_FOREVER_US]
        self._newest_us: int | None = None
        self._earliest_us: int | None = None
        self._missing = 0

    @property
    def horizons(self) -> tuple[int, ...]:
        """The start of the oldest slot that each level keeps, finest first."""
        return tuple(self._horizons)

    @property
    def missing(self) -> int:
        """How many rows came without a finite value."""
        return self._missing

    def insert(self, time_us: int, value: float | None) -> None:
        """Add one row to every level that still keeps its time; one without a finite value is only counted."""
        if value is None or not math.isfinite(value):
            self._missing += 1
            self._stretch(time_us, None)
            return
        self._stretch(time_us, time_us)
        for array, horizon in zip(self._arrays, self._horizons, strict=True):
            if time_us >= horizon:
                array.add_row(time_us, value + 0.0)

    def insert_batch(self, times: Times, values: Values) -> None:
        """Add rows in any order: rows make level-1 partials, level-i partials make those of level i + 1."""
        at, what = nodes.finite_rows(times, values)
        self._missing += len(times) - len(at)
        if len(times):
            self._stretch(int(max(times)), int(at[0]) if len(at) else None)
        partials = nodes.nodes_of_rows(at, what, self._arrays[0].width_us)
        for array, horizon in zip(self._arrays, self._horizons, strict=True):
            partials = nodes.coarser(partials, array.width_us)
            array.add_nodes(partials[np.searchsorted(partials["start"], horizon) :])

    def query(self, start_us: int, end_us: int, aggregate: Aggregate) -> Answer:
        """Answer one aggregate over ``[start_us, end_us)``; an end before the start is an empty range."""
        return Descent(self._arrays, self._horizons, self.spread).read(start_us, end_us).answer(aggregate)

    def nodes(self, level_index: int) -> list[Node]:
        """Return the nodes that a level keeps, oldest first; level 0 is the finest."""
        return self._arrays[level_index].nodes()

    def snapshot(self) -> Snapshot:
        """Return the whole state; later inserts do not change it."""
        parts = tuple(array.live.tobytes() for array in self._arrays)
        return Snapshot(self._name(), self._newest_us, self._earliest_us, self._missing, parts)

    def restore(self, snapshot: Snapshot) -> None:
        """Become the tree that the snapshot was taken of; both must have the same parameters."""
        if snapshot.method != self._name():
            raise ValueError(f"expected a snapshot of {self._name()}, found one of {snapshot.method}")
        base_us = self._arrays[0].width_us
        self._arrays = [
            NodeArray(base_us * self.alpha**index, np.frombuffer(part, NODE))
            for index, part in enumerate(snapshot.parts)
        ]
        self._newest_us = snapshot.newest_us
        self._earliest_us = snapshot.earliest_us
        self._missing = snapshot.missing
        self._move_horizons()

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken: order, slots, horizons, parents equal to children."""
        for array, horizon in zip(self._arrays, self._horizons, strict=True):
            array.check()
            assert len(array) <= self.slots_before + 1, "more nodes than slots"
            assert not len(array) or array.live["start"][0] >= horizon, "a node below its level's horizon"
        for (fine, coarse), horizon in zip(pairwise(self._arrays), self._horizons, strict=False):
            coarse.check_against(fine, -floor_to(coarse.width_us, -horizon), EPS)

    def _stretch(self, newest_us: int, earliest_us: int | None) -> None:
        """Take in a newest and an earliest time: grow the top until it covers both, then move the horizons."""
        newest = newest_us if self._newest_us is None else max(self._newest_us, newest_us)
        known = [time_us for time_us in (self._earliest_us, earliest_us) if time_us is not None]
        earliest = min(known, default=None)
        if (newest, earliest) == (self._newest_us, self._earliest_us):
            return
        self._newest_us, self._earliest_us = newest, earliest
        while earliest is not None and self._is_full(newest, earliest):
            top = self._arrays[-1]
            width_us = top.width_us * self.alpha
            self._arrays.append(NodeArray(width_us, nodes.coarser(top.live, width_us)))
        self._move_horizons()

    def _is_full(self, newest_us: int, earliest_us: int) -> bool:
        width_us = self._arrays[-1].width_us
        apart = floor_to(width_us, newest_us) - floor_to(width_us, earliest_us)
        return apart > self.slots_before * width_us

    def _move_horizons(self) -> None:
        self._horizons = [self._horizon(array) for array in self._arrays[:-1]] + [KEPT_FOREVER_US]
        for array, horizon in zip(self._arrays, self._horizons, strict=True):
            array.drop_before(horizon)

    def _horizon(self, array: NodeArray) -> int:
        assert self._newest_us is not None, "a second level without any row"
        return floor_to(array.width_us, self._newest_us) - self.slots_before * array.width_us

    def _name(self) -> str:
        return f"PaperTree [base {self._arrays[0].width_us}, alpha {self.alpha}, slots {self.slots_before} + 1]"
