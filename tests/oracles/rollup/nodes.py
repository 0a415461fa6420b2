"""The nodes of one level: how one is stored, found and folded, and what must hold for all of them.

Invariant: starts are multiples of the width and strictly increase, every node holds at least one row.
A node's sum is the pair ``total + carry`` (compensated addition): ``carry`` gathers what
rounding cut off ``total``, so that a sum is as good as rounded once, however many rows and in whichever
order they came. This is what makes the rounding bound of bounds.py, linear in n, a true one; plain
additions would need n squared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.oracles.rollup.contract import Node
from tests.oracles.rollup.node_kernels import HEAD, TAIL, coarsen, find, fold_range

if TYPE_CHECKING:
    import numpy.typing as npt

    Nodes = npt.NDArray[np.void]

NODE = np.dtype(
    [
        ("start", np.int64),
        ("n", np.int64),
        ("total", np.float64),
        ("carry", np.float64),
        ("min", np.float64),
        ("max", np.float64),
        ("first_us", np.int64),
        ("last_us", np.int64),
    ]
)


class Fold(NamedTuple):
    """All nodes of a range as one: ``magnitude`` is the sum of n * max(abs(min), abs(max)) over them."""

    nodes: int
    n: int
    total: float
    carry: float
    min: float
    max: float
    magnitude: float


class KeptLevel:
    """A look at one level of a store; the next insert may change what it shows, or make it stale.

    Cost: a node O(log nodes), a fold O(log nodes + nodes folded).
    """

    def __init__(self, store: Nodes, span: npt.NDArray[np.int64], width_us: int) -> None:
        self.width_us = width_us
        self._store = store
        self._head, self._tail = int(span[HEAD]), int(span[TAIL])

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def live(self) -> Nodes:
        """The kept nodes in order, as a view that the next insert may overwrite."""
        return self._store[self._head : self._tail]

    def at(self, start: int) -> np.void | None:
        """Return the node that starts there, None where there are no rows."""
        index = find(self._store, self._head, self._tail, start, self.width_us)
        if index == self._tail or self._store[index]["start"] != start:
            return None
        found: np.void = self._store[index]
        return found

    def fold(self, start: int, end: int) -> Fold:
        """Return all nodes that start in ``[start, end)`` as one."""
        return Fold(*fold_range(self._store, self._head, self._tail, self.width_us, start, end))

    def nodes(self) -> list[Node]:
        """Return the kept nodes, oldest first."""
        return [as_node(record, self.width_us) for record in self.live]

    def check(self) -> None:
        """Raise AssertionError if a node is empty, misplaced, out of order or at odds with itself."""
        live = self.live
        assert np.all(live["start"][1:] > live["start"][:-1]), "nodes out of order"
        assert np.all(live["start"] % self.width_us == 0), "a node that is not aligned to its width"
        assert np.all(live["n"] > 0) and np.all(live["min"] <= live["max"]), "a node without rows"
        ends = live["start"] + self.width_us
        assert np.all((live["start"] <= live["first_us"]) & (live["last_us"] < ends)), (
            "a row outside its node"
        )
        assert np.all(live["first_us"] <= live["last_us"]), "a last row before the first"

    def check_against(self, finer: KeptLevel, start_us: int, eps: float) -> None:
        """Raise AssertionError if the nodes from a time on are not what the finer nodes combine to."""
        ours = self.live[np.searchsorted(self.live["start"], start_us) :]
        theirs = coarser(finer.live[np.searchsorted(finer.live["start"], start_us) :], self.width_us)
        for name in ("start", "n", "min", "max", "first_us", "last_us"):
            assert np.array_equal(ours[name], theirs[name]), f"{name} of a parent differs from its children's"
        apart = (ours["total"] - theirs["total"]) + (ours["carry"] - theirs["carry"])
        allowed = eps * ours["n"] * np.maximum(np.abs(ours["min"]), np.abs(ours["max"]))
        assert np.all(np.abs(apart) <= allowed), "the sum of a parent differs from its children's"


def as_node(record: np.void, width_us: int) -> Node:
    """Return one stored node with its sum made whole."""
    start = int(record["start"])
    return Node(
        start=start,
        end=start + width_us,
        n=int(record["n"]),
        sum=float(record["total"] + record["carry"]),
        min=float(record["min"]),
        max=float(record["max"]),
        first_us=int(record["first_us"]),
        last_us=int(record["last_us"]),
    )


def coarser(nodes: Nodes, width_us: int) -> Nodes:
    """Return nodes sorted by start as nodes of a wider width; cost O(nodes)."""
    out = nodes.copy()
    return out[: coarsen(out, len(out), width_us)]
