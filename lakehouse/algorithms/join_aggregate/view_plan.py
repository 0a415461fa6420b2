"""Plan of a view tree: a shape as its loops want it, with the way of a row of each side to the root.

edges ........ first one above each side, of what it shares with its parent; then the *indexes*: what a side of a
circle shares with some of its others
walks ........ steps of a row from its side, up to the root or into the circle; then those after a side of the
circle has been met, over the views beside it
meets ........ by sides of the circle that are joined (as bits) and side that is not: the index by which it is met
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lakehouse.algorithms.join_aggregate.contract import Bools, Int64s, Shape
from lakehouse.algorithms.join_aggregate.join_tree import join_tree, shared
from lakehouse.algorithms.join_aggregate.kernels.rings import Layout
from lakehouse.algorithms.join_aggregate.kernels.view_walk import ABOVE, ACROSS, BESIDE


@dataclass(frozen=True)
class Plan:
    """Plan of a shape; all that it returns is made once."""

    shape: Shape

    @cached_property
    def tree(self) -> tuple[int, ...]:
        """Return the parent of each side, -1 of the root or of all in the circle."""
        return join_tree(self.shape)

    @property
    def core(self) -> list[int]:
        """Return the root, or the sides of the circle."""
        return [side for side, parent in enumerate(self.tree) if parent < 0]

    @cached_property
    def indexes(self) -> list[tuple[int, frozenset[int]]]:
        """Return the side and the attributes of each index."""
        found = {(side, met) for joined, side in self._asked() if (met := self._met(joined, side))}
        return sorted(found, key=lambda each: (each[0], sorted(each[1])))

    @property
    def edges(self) -> int:
        """Return how many edges and indexes there are."""
        return self.shape.sides + len(self.indexes)

    @cached_property
    def joins(self) -> Bools:
        """Return by side and edge if rows of the side meet others there; the side's own edge is above it."""
        joins = np.zeros((self.shape.sides, self.edges), np.bool_)
        for side, parent in enumerate(self.tree):
            if parent >= 0:
                joins[[side, parent], side] = True
        for edge, (side, _) in enumerate(self.indexes, self.shape.sides):
            joins[side, edge] = True
        return joins

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """Return walks and their lengths, joins, attributes of edges, parents, grouped, aggregates, meets, full."""
        shape, sides = self.shape, range(self.shape.sides)
        walks = [
            *(_walk(self.tree, side) for side in sides),
            *(_beside(self.tree, side, -1) for side in sides),
        ]
        steps = np.zeros((len(walks), shape.sides, 2), np.int64)
        for number, walk in enumerate(walks):
            steps[number, : len(walk)] = np.array(walk, np.int64).reshape(-1, 2)
        edges = [*(shared(shape, self.tree, side) for side in sides), *(own for _, own in self.indexes)]
        attributes = np.array([[number in own for number in range(shape.width)] for own in edges])
        lengths, grouped = np.array([len(walk) for walk in walks]), np.array(shape.grouped)
        own = steps, lengths, self.joins, attributes, np.array(self.tree), grouped, _aggregates(shape)
        return *own, self._meets()

    def _meets(self) -> Int64s:
        """Return the indexes by joined sides and side; of a side alone, the index by all that ties it to others."""
        sides = self.shape.sides
        meets = np.full((1 << sides if self.indexes else 1, sides), -1)
        numbers = {index: edge for edge, index in enumerate(self.indexes, sides)}
        for joined, side in self._asked():
            meets[joined, side] = numbers.get((side, self._met(joined, side)), -1)
        for side in self.core if self.indexes else []:
            meets[1 << side, side] = meets[sum(1 << other for other in self.core if other != side), side]
        return meets

    def _asked(self) -> list[tuple[int, int]]:
        """Return all sets of joined sides of the circle, each with a side that is not among them."""
        core = sum(1 << side for side in self.core)
        sets = (joined for joined in range(1, core) if joined & core == joined)
        return [(joined, side) for joined in sets for side in self.core if not joined >> side & 1]

    def _met(self, joined: int, side: int) -> frozenset[int]:
        carried = self.shape.attributes
        others = (set(carried[other]) for other in self.core if joined >> other & 1)
        return frozenset(set(carried[side]) & set[int]().union(*others))

    @cached_property
    def lists(self) -> tuple[Any, Any]:
        """Return by kind of step, edge and list if the cell met brings its values, and whose lists they are."""
        of = [(-1, 0, 1, 1, -1)]
        for number, each in enumerate(self.shape.aggregates):
            if each.is_extreme:
                of.append((each.side, each.column, each.limbs, -1 if each.function == "min" else 1, number))
        brings = np.zeros((3, self.shape.sides, len(of)), np.bool_)
        for which, (side, *_) in enumerate(of):
            brings[ABOVE, :, which] = [side == parent >= 0 for parent in self.tree]
            if side >= 0:
                brings[ACROSS, side, which] = True
            while side >= 0:
                brings[BESIDE, side, which], side = True, self.tree[side]
        return brings, np.array(of, np.int64)

    def layout(self, digits: int) -> Layout:
        """Return the columns of tables whose sums have so many digits."""
        shape, aggregates = self.shape, len(self.shape.aggregates)
        name, views = self.edges + 2, 1 + shape.width
        view = name + self.edges
        sums = sum(each.function == "sum" for each in shape.aggregates)
        lists = 1 + extremes if (extremes := sum(each.is_extreme for each in shape.aggregates)) else 0
        return Layout(
            sides=shape.sides,
            core=sum(1 << side for side in self.core),
            edges=self.edges,
            own=1 + self.edges,
            links=name,
            next_view=view,
            gained=view + 1,
            event=view + 2,
            tops=view + 3,
            lists=lists,
            ring=view + 3 + lists,
            views=views,
            rows=views + 1,
            met=views + 2,
            aggregates=aggregates,
            sums=sums,
            digits=digits,
            width=1 + aggregates + sums * digits,
        )


def _aggregates(shape: Shape) -> Int64s:
    """Return side, column, number among sums and limbs of each aggregate."""
    is_sum = np.array([each.function == "sum" for each in shape.aggregates], np.bool_)
    numbers = np.where(is_sum, np.cumsum(is_sum) - 1, -1)
    columns = np.array([(each.side, each.column) for each in shape.aggregates], np.int64).reshape(-1, 2)
    return np.column_stack([columns, numbers, np.array([each.limbs for each in shape.aggregates], np.int64)])


def _walk(tree: tuple[int, ...], side: int) -> list[tuple[int, int]]:
    """Return the steps from a row of a side to the root: over all views beside, then one edge up, and so on."""
    steps, below = list[tuple[int, int]](), -1
    while side >= 0:
        steps += _beside(tree, side, below)
        if tree[side] >= 0:
            steps.append((ABOVE, side))
        below, side = side, tree[side]
    return steps


def _beside(tree: tuple[int, ...], side: int, below: int) -> list[tuple[int, int]]:
    return [(BESIDE, child) for child, parent in enumerate(tree) if parent == side and child != below]
