"""The nodes of one width as one sorted array: rows and partial nodes go in, folds of a range come out.

Invariant: starts are multiples of the width and strictly increase, every node holds at least one row.
A node's sum is the pair ``total + carry`` (Neumaier's compensated addition): ``carry`` gathers what
rounding cut off ``total``, so that a sum is as good as rounded once, however many rows and in whichever
order they came. This is what makes the rounding bound of bounds.py, linear in n, a true one; plain
additions would need n squared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from lakehouse.algorithms.rollup.contract import Node

if TYPE_CHECKING:
    import numpy.typing as npt

    from lakehouse.algorithms.rollup.contract import Times, Values

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


class NodeArray:
    """Nodes ``width_us`` wide, found and combined by their start.

    Cost: a row at the tail O(1), a late row O(log nodes) or, where it makes a node, O(nodes after it); a
    batch O(rows + nodes after its first); a fold O(log nodes + nodes folded).
    """

    def __init__(self, width_us: int, nodes: Nodes | None = None) -> None:
        self.width_us = width_us
        self._nodes: Nodes = np.empty(16, NODE) if nodes is None else nodes.copy()
        self._head = 0
        self._tail = 0 if nodes is None else len(nodes)

    def __len__(self) -> int:
        return self._tail - self._head

    @property
    def live(self) -> Nodes:
        """The kept nodes in order, as a view that the next insert may overwrite."""
        return self._nodes[self._head : self._tail]

    def add_row(self, time_us: int, value: float) -> None:
        """Combine one finite value into its node, making the node if this is its first row."""
        self._make_room(1)
        self._tail = _add_row(self._nodes, self._head, self._tail, self.width_us, time_us, value)

    def add_nodes(self, partials: Nodes) -> None:
        """Combine partial nodes of the same width, sorted by start, into the kept ones."""
        if len(partials) == 0:
            return
        first = _find(self._nodes, self._head, self._tail, partials["start"][0])
        after = self._nodes[first : self._tail].copy()
        before = first - self._head
        self._make_room(len(partials))
        self._tail = _merge(after, partials, self._nodes, self._head + before)

    def drop_before(self, horizon_us: int) -> None:
        """Forget the nodes that start before the horizon."""
        self._head = _find(self._nodes, self._head, self._tail, horizon_us)

    def at(self, start: int) -> np.void | None:
        """Return the node that starts there, None where there are no rows."""
        index = _find(self._nodes, self._head, self._tail, start)
        if index == self._tail or self._nodes[index]["start"] != start:
            return None
        found: np.void = self._nodes[index]
        return found

    def fold(self, start: int, end: int) -> Fold:
        """Return all nodes that start in ``[start, end)`` as one."""
        return Fold(*_fold(self._nodes, self._head, self._tail, start, end))

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

    def check_against(self, finer: NodeArray, start_us: int, eps: float) -> None:
        """Raise AssertionError if the nodes from a time on are not what the finer nodes combine to."""
        ours = self.live[np.searchsorted(self.live["start"], start_us) :]
        theirs = coarser(finer.live[np.searchsorted(finer.live["start"], start_us) :], self.width_us)
        for name in ("start", "n", "min", "max", "first_us", "last_us"):
            assert np.array_equal(ours[name], theirs[name]), f"{name} of a parent differs from its children's"
        apart = (ours["total"] - theirs["total"]) + (ours["carry"] - theirs["carry"])
        allowed = eps * ours["n"] * np.maximum(np.abs(ours["min"]), np.abs(ours["max"]))
        assert np.all(np.abs(apart) <= allowed), "the sum of a parent differs from its children's"

    def _make_room(self, extra: int) -> None:
        if self._tail + extra <= len(self._nodes):
            return
        live = self.live
        if 2 * (len(live) + extra) > len(self._nodes):
            self._nodes = np.empty(2 * (len(live) + extra), NODE)
        # numpy copies through a buffer where source and target overlap.
        self._nodes[: len(live)] = live
        self._head, self._tail = 0, len(live)


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


def finite_rows(times: Times, values: Values) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the rows whose value is a finite number, by time; None, NaN and infinities are left out."""
    at = np.asarray(times, dtype=np.int64)
    what = np.asarray(values, dtype=np.float64)
    if at.shape != what.shape:
        raise ValueError(f"expected one value per time, found {at.size} times and {what.size} values")
    # Adding 0.0 turns -0.0 into 0.0, which would otherwise let arrival order show in a snapshot.
    at, what = at[np.isfinite(what)], what[np.isfinite(what)] + 0.0
    if np.all(at[1:] >= at[:-1]):
        return at, what
    order = np.argsort(at, kind="stable")
    return at[order], what[order]


def nodes_of_rows(times: npt.NDArray[np.int64], values: npt.NDArray[np.float64], width_us: int) -> Nodes:
    """Return rows sorted by time as nodes of one width; cost O(rows)."""
    out = np.empty(len(times), NODE)
    return out[: _fold_rows(times, values, width_us, out)]


def coarser(nodes: Nodes, width_us: int) -> Nodes:
    """Return nodes sorted by start as nodes of a wider width; cost O(nodes)."""
    out = np.empty(len(nodes), NODE)
    return out[: _fold_nodes(nodes, width_us, out)]


@njit(cache=True)
def _find(nodes: Any, head: int, tail: int, start: int) -> Any:
    """Return the index of the first node that starts at or after ``start``."""
    # Most rows and queries are about the newest nodes: look there before halving.
    if tail > head and nodes[tail - 1].start < start:
        return tail
    low, high = head, tail
    while low < high:
        middle = (low + high) // 2
        if nodes[middle].start < start:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def _plus(total: float, carry: float, value: float) -> Any:
    """Return ``(total, carry)`` after one more value, what rounding cuts off going to the carry."""
    together = total + value
    if abs(total) >= abs(value):
        return together, carry + ((total - together) + value)
    return together, carry + ((value - together) + total)


@njit(cache=True)
def _start_node(node: Any, start: int, time_us: int, value: float) -> None:
    node.start = start
    node.n = 1
    node.total = value
    node.carry = 0.0
    node.min = value
    node.max = value
    node.first_us = time_us
    node.last_us = time_us


@njit(cache=True)
def _take_row(node: Any, time_us: int, value: float) -> None:
    node.n += 1
    node.total, node.carry = _plus(node.total, node.carry, value)
    node.min = min(node.min, value)
    node.max = max(node.max, value)
    node.first_us = min(node.first_us, time_us)
    node.last_us = max(node.last_us, time_us)


@njit(cache=True)
def _take_node(node: Any, other: Any) -> None:
    node.n += other.n
    node.total, node.carry = _plus(node.total, node.carry + other.carry, other.total)
    node.min = min(node.min, other.min)
    node.max = max(node.max, other.max)
    node.first_us = min(node.first_us, other.first_us)
    node.last_us = max(node.last_us, other.last_us)


@njit(cache=True)
def _add_row(nodes: Any, head: int, tail: int, width: int, time_us: int, value: float) -> Any:
    """Put one row into its place and return the new tail; there must be room for one more node."""
    start = time_us - time_us % width
    index = _find(nodes, head, tail, start)
    if index < tail and nodes[index].start == start:
        _take_row(nodes[index], time_us, value)
        return tail
    for later in range(tail, index, -1):
        nodes[later] = nodes[later - 1]
    _start_node(nodes[index], start, time_us, value)
    return tail + 1


@njit(cache=True)
def _fold_rows(times: Any, values: Any, width: int, out: Any) -> Any:
    made = 0
    for row in range(len(times)):
        start = times[row] - times[row] % width
        if made and out[made - 1].start == start:
            _take_row(out[made - 1], times[row], values[row])
        else:
            _start_node(out[made], start, times[row], values[row])
            made += 1
    return made


@njit(cache=True)
def _fold_nodes(nodes: Any, width: int, out: Any) -> Any:
    made = 0
    for index in range(len(nodes)):
        start = nodes[index].start - nodes[index].start % width
        if made and out[made - 1].start == start:
            _take_node(out[made - 1], nodes[index])
        else:
            out[made] = nodes[index]
            out[made].start = start
            made += 1
    return made


@njit(cache=True)
def _merge(kept: Any, partials: Any, out: Any, at: int) -> Any:
    """Merge two sorted arrays into ``out`` from ``at`` on, combining equal starts; return the new tail."""
    left, right = 0, 0
    while left < len(kept) or right < len(partials):
        if right == len(partials) or (left < len(kept) and kept[left].start <= partials[right].start):
            out[at] = kept[left]
            left += 1
            if right < len(partials) and partials[right].start == out[at].start:
                _take_node(out[at], partials[right])
                right += 1
        else:
            out[at] = partials[right]
            right += 1
        at += 1
    return at


@njit(cache=True)
def _fold(nodes: Any, head: int, tail: int, start: int, end: int) -> Any:
    first = _find(nodes, head, tail, start)
    index = first
    n, total, carry, magnitude = 0, 0.0, 0.0, 0.0
    low, high = np.inf, -np.inf
    while index < tail and nodes[index].start < end:
        node = nodes[index]
        n += node.n
        total, carry = _plus(total, carry + node.carry, node.total)
        low, high = min(low, node.min), max(high, node.max)
        magnitude += node.n * max(abs(node.min), abs(node.max))
        index += 1
    return index - first, n, total, carry, low, high, magnitude
