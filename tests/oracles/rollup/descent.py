"""AAQuery: which nodes answer a range, coarsest first, and which of them the range cuts.

    range           [a ------------------------------- b)
    level 3    |          |==========|==========|          |   whole nodes inside: folded
    level 2                |==|==|              |==|==          edges go down where children are kept ...
    level 1               .|                      .|            ... and cut the node where they are not

Where a level kept only the last children of a node (PaperTree's horizons are not aligned to the parent),
the rows of the lost ones are the node's minus the kept children's: the remainder, spread over the time that
the children do not cover. The paper spreads the whole node there instead; ``spread="whole"`` does the same,
to compare.

Cost: a level holds at most two edges, so it reads at most 2 (G_{i+1} / G_i - 1) whole nodes; the top level
reads all whole nodes inside the range; at most two nodes are cut, plus one remainder an edge and level.
Reference: Liu, Jin, Hou, Zhang, DSMGA-Tree, section 4.2.
Differs from the paper: whole levels instead of pointers, the remainder, and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakehouse.algorithms.rollup.levels import floor_to
from tests.oracles.rollup.bounds import CutNode, CutNodes, Inside, answer
from tests.oracles.rollup.nodes import as_node

if TYPE_CHECKING:
    from tests.oracles.rollup.contract import Aggregate, Answer, Node
    from tests.oracles.rollup.nodes import Fold, KeptLevel

Spread = Literal["remainder", "whole"]


@dataclass
class Descent:
    """One walk down the levels; ``levels`` and ``horizons`` are finest first."""

    levels: Sequence[KeptLevel]
    horizons: Sequence[int]
    spread: Spread = "remainder"
    folds: list[Fold] = field(default_factory=list)
    cuts: list[CutNode] = field(default_factory=list)
    nodes_read: int = 0
    finest_us: int | None = None

    def read(self, start_us: int, end_us: int) -> Descent:
        """Collect what answers ``[start_us, end_us)`` and return self."""
        if start_us < end_us and self.levels:
            self._cover(len(self.levels) - 1, start_us, end_us)
        return self

    def answer(self, aggregate: Aggregate) -> Answer:
        """Answer from what was collected."""
        return answer(aggregate, self.inside(), CutNodes.of(self.cuts), self.nodes_read, self.finest_us)

    def inside(self) -> Inside:
        """Return all rows surely inside, as one."""
        folds = self.folds
        return Inside(
            n=sum(fold.n for fold in folds),
            sum=math.fsum(part for fold in folds for part in (fold.total, fold.carry)),
            min=min((fold.min for fold in folds), default=math.inf),
            max=max((fold.max for fold in folds), default=-math.inf),
            magnitude=sum(fold.magnitude for fold in folds),
        )

    def _cover(self, index: int, start: int, end: int) -> None:
        """Fold the whole nodes of one level inside the range and hand its edges on."""
        level = self.levels[index]
        inner_start = -floor_to(level.width_us, -start)
        inner_end = floor_to(level.width_us, end)
        if inner_start > inner_end:
            self._edge(index, start, end)
            return
        if inner_start < inner_end:
            fold = level.fold(inner_start, inner_end)
            self.folds.append(fold)
            self._count(fold.nodes, level.width_us)
        if start < inner_start:
            self._edge(index, start, inner_start)
        if inner_end < end:
            self._edge(index, inner_end, end)

    def _edge(self, index: int, start: int, end: int) -> None:
        """Answer a range that lies inside one node of a level and does not fill it."""
        width_us = self.levels[index].width_us
        node_start = floor_to(width_us, start)
        covered_from = self.horizons[index - 1] if index else node_start + width_us
        if covered_from < end:
            self._cover(index - 1, max(start, covered_from), end)
        if start < covered_from:
            self._cut(index, node_start, covered_from, start, min(end, covered_from))

    def _cut(self, index: int, node_start: int, covered_from: int, start: int, end: int) -> None:
        level = self.levels[index]
        record = level.at(node_start)
        if record is None:
            return
        self._count(1, level.width_us)
        node = as_node(record, level.width_us)
        if covered_from >= node.end or self.spread == "whole":
            self.cuts.append(_whole(node, start, end))
            return
        children = self.levels[index - 1].fold(covered_from, node.end)
        self._count(children.nodes, self.levels[index - 1].width_us)
        left = math.fsum([record["total"], record["carry"], -children.total, -children.carry])
        if node.n > children.n:
            self.cuts.append(_remainder(node, node.n - children.n, left, covered_from, start, end))

    def _count(self, nodes: int, width_us: int) -> None:
        self.nodes_read += nodes
        if nodes:
            self.finest_us = width_us if self.finest_us is None else min(self.finest_us, width_us)


def _magnitude(node: Node) -> float:
    return node.n * max(abs(node.min), abs(node.max))


def _whole(node: Node, start: int, end: int) -> CutNode:
    return CutNode(
        n=node.n,
        sum=node.sum,
        min=node.min,
        max=node.max,
        first_us=node.first_us,
        last_us=node.last_us,
        from_us=start,
        to_us=end,
        width_us=node.end - node.start,
        magnitude=_magnitude(node),
    )


def _remainder(node: Node, n: int, left: float, covered_from: int, start: int, end: int) -> CutNode:
    """Return the rows left before the first kept child; its first row is among them, not always its last."""
    return CutNode(
        n=n,
        sum=left,
        min=node.min,
        max=node.max,
        first_us=node.first_us,
        last_us=node.first_us if n == 1 else min(node.last_us, covered_from - 1),
        from_us=start,
        to_us=end,
        width_us=covered_from - node.start,
        magnitude=_magnitude(node),
        remainder=True,
    )
